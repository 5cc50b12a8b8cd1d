// Unpacking of deflate streams, by zlib, with memory from the seam.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <span>

namespace ebb::io {

class Inflate {
 public:
  enum class Wrap { none, gzip };  // what stands around the stream: nothing (zip), a gzip member
  explicit Inflate(Wrap wrap);
  ~Inflate();
  Inflate(Inflate&&) noexcept;
  Inflate& operator=(Inflate&&) noexcept;

  enum class State { more, end, damaged };
  // Unpacks from `from` to `to` as far as either goes; both are moved past what was used. `end`: that
  // was the last byte of the stream, checksums (of gzip) included.
  State step(std::span<const std::byte>& from, std::span<std::byte>& to);
  void restart();  // for another stream behind the first

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace ebb::io
