#include "ebb/io/bytes/byte_stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ebb/io/bytes/pieces.hpp"
#include "ebb/io/bytes/refuse.hpp"

namespace ebb::io {
namespace {

constexpr std::size_t kPacked = 64 << 10;
constexpr std::uint64_t kKept = 4 << 20;  // in the page cache

}  // namespace

ByteStream::ByteStream(const std::string& path) : file_(File::open(path)), size_(file_.size()) {
  std::byte front[2] = {};
  if (size_ < sizeof front) return;
  file_.read_at(0, front);
  if (front[0] != std::byte{0x1f} || front[1] != std::byte{0x8b}) return;
  inflate_.emplace(Inflate::Wrap::gzip);
  packed_ = memory::Buffer(kPacked, "unpack", Category::data);
}

std::size_t ByteStream::read(std::span<std::byte> to) {
  const std::size_t count = inflate_ ? unpack(to) : read_file(to);
  offset_ += count;
  return count;
}

std::size_t ByteStream::read_file(std::span<std::byte> to) {
  const std::size_t count = std::min<std::uint64_t>(to.size(), size_ - at_);
  file_.read_at(at_, to.first(count));
  at_ += count;
  if (memory::limit() != 0 && at_ - dropped_ >= kKept) {
    drop_cached_up_to(file_, at_);
    dropped_ = at_;
  }
  return count;
}

// A .gz file is one member after the other, and nothing else.
std::size_t ByteStream::unpack(std::span<std::byte> to) {
  const std::size_t wanted = to.size();
  while (!to.empty()) {
    if (left_.empty()) {
      const std::span<std::byte> whole(packed_.data(), packed_.size());
      left_ = whole.first(read_file(whole));
      if (left_.empty()) {
        if (!ended_)
          refuse(path(),
                 fmt::format("its packed data ends early, {} bytes in; the file is cut short",
                             offset_ + wanted - to.size()));
        break;
      }
    }
    if (ended_) inflate_->restart();
    const auto state = inflate_->step(left_, to);
    if (state == Inflate::State::damaged)
      refuse(path(),
             fmt::format("its packed data is damaged before byte {} of the file; get a new copy",
                         at_ - left_.size()));
    ended_ = state == Inflate::State::end;
  }
  return wanted - to.size();
}

}  // namespace ebb::io
