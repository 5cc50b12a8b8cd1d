#include "ebb/io/text/text_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "ebb/base/pool.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/utf8.hpp"

namespace ebb::io {

TextBlocks::TextBlocks(const std::string& path, TextBlocksOptions options)
    : path_(path), options_(options), stream_(path) {
  const std::size_t bytes = std::min(options_.block.bytes, options_.longest.bytes) + kPadding;
  const auto slots = static_cast<std::size_t>(std::clamp(pool::threads(), 1, 16));
  for (std::size_t i = 0; i < slots; ++i) buffers_.emplace_back(bytes, "text", Category::data);
}

// Newlines count where the quotes before them are even in number.
std::size_t TextBlocks::whole(std::string_view text) const {
  std::size_t end = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t stop =
        options_.quote ? std::min(text.find(options_.quote, at), text.size()) : text.size();
    if (!inside) {
      const std::size_t newline = text.substr(at, stop - at).rfind('\n');
      if (newline != std::string_view::npos) end = at + newline + 1;
    }
    inside = !inside;
    at = stop + 1;
  }
  return end;
}

bool TextBlocks::next(memory::Buffer& buffer, TextBlock& block) {
  if (ended_ && carried_bytes_ == 0) return false;
  if (buffer.size() < carried_bytes_ + kPadding)
    buffer = memory::Buffer(carried_bytes_ + kPadding, "text", Category::data);
  if (carried_bytes_) std::memcpy(buffer.data(), carried_.data(), carried_bytes_);
  std::size_t filled = std::exchange(carried_bytes_, 0), records = 0;
  for (;;) {
    const std::size_t room = buffer.size() - kPadding - filled;
    const std::size_t count = stream_.read({buffer.data() + filled, room});
    filled += count;
    ended_ = count < room;
    const std::string_view text(reinterpret_cast<const char*>(buffer.data()), filled);
    records = ended_ ? filled : whole(text);
    if (records > 0 || ended_) break;
    if (filled >= options_.longest.bytes)
      refuse_at(
          path_, offset_,
          fmt::format("it is longer than {}{}; mend the file, or where it is meant so allow more "
                      "(.longest_line, in a program)",
                      to_string(options_.longest),
                      options_.quote ? ", or a quote in it is never closed" : ""));
    const std::size_t larger = std::min<std::uint64_t>(2 * filled, options_.longest.bytes);
    memory::Buffer grown(larger + kPadding, "text", Category::data);
    std::memcpy(grown.data(), buffer.data(), filled);
    buffer = std::move(grown);
  }
  carried_bytes_ = filled - records;
  if (carried_bytes_) {
    if (carried_.size() < carried_bytes_)
      carried_ = memory::Buffer(buffer.size(), "text", Category::data);
    std::memcpy(carried_.data(), buffer.data() + records, carried_bytes_);
  }
  std::memset(buffer.data() + records, 0, kPadding);
  block = {{reinterpret_cast<const char*>(buffer.data()), records}, offset_};
  offset_ += records;
  return records > 0;
}

void TextBlocks::each(const Parse& parse, const Take& take) {
  std::vector<TextBlock> blocks(slots());
  std::vector<std::exception_ptr> failures(slots());
  for (bool more = true; more;) {
    std::size_t count = 0;
    std::exception_ptr failure;
    try {  // what was read before a failure is looked at first: its errors come first in the file
      while (count < slots() && (more = next(buffers_[count], blocks[count]))) ++count;
    } catch (...) {
      failure = std::current_exception();
    }
    pool::parallel_for(count, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        failures[i] = nullptr;
        try {
          parse(i, blocks[i]);
        } catch (...) {
          failures[i] = std::current_exception();
        }
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (failures[i]) std::rethrow_exception(failures[i]);
      take(i);
    }
    if (failure) std::rethrow_exception(failure);
  }
}

std::uint64_t line_of(const std::string& path, std::uint64_t offset) {
  ByteStream stream(path);
  const memory::Buffer piece(64 << 10, "text", Category::data);
  std::uint64_t line = 1;
  while (stream.offset() < offset) {
    const std::span<std::byte> to(piece.data(),
                                  std::min<std::uint64_t>(piece.size(), offset - stream.offset()));
    const std::size_t count = stream.read(to);
    line += static_cast<std::uint64_t>(
        std::count(to.data(), to.data() + count, static_cast<std::byte>('\n')));
    if (count < to.size()) break;
  }
  return line;
}

void refuse_at(const std::string& path, std::uint64_t offset, std::string_view why) {
  refuse(path, line_of(path, offset), why);
}

void check_text(const std::string& path, const TextBlock& block) {
  const std::size_t bad = find_not_text(block.text);
  if (bad == std::string_view::npos) return;
  const auto byte = static_cast<unsigned char>(block.text[bad]);
  refuse_at(path, block.offset + bad,
            byte == 0 ? std::string("it holds a NUL byte; expected text")
                      : fmt::format("byte 0x{:02x} is not UTF-8; save the file as UTF-8", byte));
}

}  // namespace ebb::io
