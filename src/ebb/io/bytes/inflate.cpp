#include "ebb/io/bytes/inflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"

namespace ebb::io {

struct Inflate::Stream {
  z_stream z{};
  std::exception_ptr refused;  // by the memory seam, inside of zlib
  int wrap = 0;

  // zlib is C: nothing may be thrown through it.
  static void* take(void* self, unsigned items, unsigned size) {
    try {
      return memory::take(std::size_t{items} * size, "inflate", Category::data);
    } catch (...) {
      static_cast<Stream*>(self)->refused = std::current_exception();
      return nullptr;
    }
  }
  static void give(void*, void* bytes) { memory::give(bytes); }

  void check(int code) {
    if (refused) std::rethrow_exception(std::exchange(refused, nullptr));
    if (code != Z_OK) throw Error("inflate: zlib cannot be used; is it another version?");
  }
  ~Stream() { inflateEnd(&z); }
};

Inflate::Inflate(Wrap wrap) : stream_(std::make_unique<Stream>()) {
  stream_->z.zalloc = Stream::take;
  stream_->z.zfree = Stream::give;
  stream_->z.opaque = stream_.get();
  stream_->wrap = wrap == Wrap::gzip ? 16 + MAX_WBITS : -MAX_WBITS;
  stream_->check(inflateInit2(&stream_->z, stream_->wrap));
}
Inflate::~Inflate() = default;
Inflate::Inflate(Inflate&&) noexcept = default;
Inflate& Inflate::operator=(Inflate&&) noexcept = default;

void Inflate::restart() { stream_->check(inflateReset2(&stream_->z, stream_->wrap)); }

Inflate::State Inflate::step(std::span<const std::byte>& from, std::span<std::byte>& to) {
  z_stream& z = stream_->z;
  const auto most = [](std::size_t size) {
    return static_cast<unsigned>(std::min<std::size_t>(size, 1 << 30));
  };
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  z.next_out = reinterpret_cast<Bytef*>(to.data());
  const unsigned in = z.avail_in = most(from.size()), out = z.avail_out = most(to.size());
  const int code = inflate(&z, Z_NO_FLUSH);
  from = from.subspan(in - z.avail_in);
  to = to.subspan(out - z.avail_out);
  if (stream_->refused) std::rethrow_exception(std::exchange(stream_->refused, nullptr));
  if (code == Z_STREAM_END) return State::end;
  return code == Z_OK || code == Z_BUF_ERROR ? State::more : State::damaged;
}

}  // namespace ebb::io
