#include "ebb/text/token_windows.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/data/row_file.hpp"
#include "ebb/text/pieces.hpp"

namespace ebb::text {
namespace {

using Token = std::int32_t;
constexpr std::size_t kPart = 64 << 10;        // bytes of text that are encoded at once
constexpr std::uint64_t kUnwritten = 4 << 20;  // of the page cache, at most

// Writes the tokens of a text file to `to`; gives how many.
std::int64_t encode_file(File from, const data::Tokenizer& tokenizer, File& to) {
  const memory::Buffer tokens(kPart * sizeof(Token), "token_windows", Category::data);
  std::uint64_t bytes = 0, written = 0;
  const auto encode = [&](std::string_view text) {
    const std::size_t count = tokenizer.encode_into(text, reinterpret_cast<Token*>(tokens.data()));
    to.write(std::span<const std::byte>(tokens.data(), count * sizeof(Token)));
    bytes += count * sizeof(Token);
    if (bytes - written < kUnwritten) return;
    to.write_back(0, bytes);
    written = bytes;
  };
  read_pieces(std::move(from), [&](std::string_view text, bool goes_on) {
    std::size_t used = 0;
    while (used < text.size()) {
      std::string_view part = text.substr(used, kPart);
      if (goes_on || used + part.size() < text.size())
        part = part.substr(0, tokenizer.settled(part));
      if (part.empty()) break;
      encode(part);
      used += part.size();
    }
    return used;
  });
  to.write_back(0, bytes);
  return static_cast<std::int64_t>(bytes / sizeof(Token));
}

std::int64_t windows_of(const std::string& path, std::int64_t tokens, std::int64_t window,
                        std::int64_t stride) {
  if (tokens - 1 < window)
    throw Error(fmt::format(
        "token_windows \"{}\": {} tokens are too few for a window of {} and the token after "
        "it; give more text or a smaller window",
        path, tokens, window));
  return (tokens - 1 - window) / stride + 1;
}

}  // namespace

Dataset token_windows(const std::string& path, const data::Tokenizer& tokenizer,
                      const TokenWindowsOptions& options) {
  return token_windows(File::open(path), path, tokenizer, options);
}

Dataset token_windows(File from, const std::string& path, const data::Tokenizer& tokenizer,
                      const TokenWindowsOptions& options) {
  const std::int64_t window = options.window, stride = options.stride ? options.stride : window;
  if (window < 1 || stride < 1)
    throw Error(fmt::format(
        "token_windows \"{}\": a window of {} and a stride of {}; both must be at least 1", path,
        window, stride));
  File file = File::temporary(options.folder.empty() ? temporary_folder() : options.folder);
  const std::int64_t tokens = encode_file(std::move(from), tokenizer, file);
  const std::int64_t count = windows_of(path, tokens, window, stride);
  const auto bytes = [](std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(Token); };
  const std::size_t buffer = data::RowFile::buffer_for(count, bytes(window + 1), bytes(stride));
  const data::StoreOptions where{.in_memory = options.in_memory, .held = options.held};
  if (data::hold(where, {bytes(tokens)})) {
    Tensor all = Tensor::uninitialized({{tokens}, DType::i32}, "token_windows", Category::data);
    if (!options.shape_only) file.read_at(0, {all.bytes(), all.spec().bytes()});
    const auto column = [&](std::int64_t offset) {
      return data::Source::windows(all, count, window, stride, offset).movable(buffer, false);
    };
    return Dataset::of({{"input", column(0)}, {"target", column(1)}});
  }
  const auto rows =
      std::make_shared<data::RowFile>(std::move(file), 0, bytes(window + 1), bytes(stride), count);
  const auto column = [&](std::int64_t offset) {
    const data::Source at(rows, {{count, window}, DType::i32}, bytes(offset));
    return at.movable(buffer, false);
  };
  return Dataset::of({{"input", column(0)}, {"target", column(1)}});
}

}  // namespace ebb::text
