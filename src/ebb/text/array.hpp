// A growing array whose bytes are taken at the memory seam.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "ebb/base/memory/memory.hpp"

namespace ebb::text {

template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Array(const char* site) : site_(site) {}  // a string literal: who holds it
  Array(const char* site, std::size_t size, const T& value) : Array(site) {
    reserve(size);
    std::fill_n(data(), size, value);
    size_ = size;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() const { return reinterpret_cast<T*>(bytes_.data()); }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  T& operator[](std::size_t i) const { return data()[i]; }
  T& back() const { return data()[size_ - 1]; }

  void reserve(std::size_t count) {
    if (count * sizeof(T) <= bytes_.size()) return;
    memory::Buffer larger(count * sizeof(T), site_, Category::data);
    if (size_) std::memcpy(larger.data(), bytes_.data(), size_ * sizeof(T));
    bytes_ = std::move(larger);
  }
  void push_back(const T& value) {
    const T copy = value;  // it may be one of these
    if ((size_ + 1) * sizeof(T) > bytes_.size()) reserve(std::max<std::size_t>(16, 2 * size_));
    data()[size_++] = copy;
  }
  void append(std::span<const T> values) {
    const std::size_t wanted = size_ + values.size();
    if (wanted * sizeof(T) > bytes_.size()) reserve(std::max(wanted, 2 * size_));
    if (!values.empty()) std::memcpy(data() + size_, values.data(), values.size_bytes());
    size_ = wanted;
  }
  void pop_back() { --size_; }
  void resize_down(std::size_t size) { size_ = size; }
  void clear() { size_ = 0; }

 private:
  const char* site_;
  memory::Buffer bytes_;
  std::size_t size_ = 0;
};

}  // namespace ebb::text
