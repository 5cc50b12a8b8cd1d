// Bytes that grow, from the seam: rows and lists as a block of a text file is parsed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "ebb/base/memory/memory.hpp"

namespace ebb::io {

class GrowingBytes {
 public:
  // Room for so many more, which are not set.
  std::byte* add(std::size_t bytes) {
    if (buffer_.size() - used_ < bytes) grow(bytes);
    std::byte* const at = buffer_.data() + used_;
    used_ += bytes;
    return at;
  }
  std::uint32_t* add_words(std::size_t words) {
    return reinterpret_cast<std::uint32_t*>(add(words * sizeof(std::uint32_t)));
  }
  void clear() { used_ = 0; }
  void cut(std::size_t bytes) { used_ = bytes; }  // to so many of those that there are
  std::size_t size() const { return used_; }
  std::span<const std::byte> bytes() const { return {buffer_.data(), used_}; }
  std::span<std::uint32_t> words() const {
    return {reinterpret_cast<std::uint32_t*>(buffer_.data()), used_ / sizeof(std::uint32_t)};
  }

 private:
  void grow(std::size_t bytes) {
    constexpr std::size_t kLeast = 16 << 10;
    memory::Buffer larger(std::max({2 * buffer_.size(), used_ + bytes, kLeast}), "parsed rows",
                          Category::data);
    if (used_) std::memcpy(larger.data(), buffer_.data(), used_);
    buffer_ = std::move(larger);
  }

  memory::Buffer buffer_;
  std::size_t used_ = 0;
};

}  // namespace ebb::io
