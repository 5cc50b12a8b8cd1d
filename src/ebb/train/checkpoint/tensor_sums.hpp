// The checksums of a file and of each of its tensors, as their bytes pass by in order.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "ebb/train/checkpoint/xxh3.hpp"

namespace ebb::train {

class TensorSums {
 public:
  TensorSums(std::string_view front, std::size_t tensors) : tensors_(tensors) { file_.add(front); }

  void add(std::size_t tensor, std::span<const std::byte> bytes) {
    while (at_ < tensor) next();
    file_.add(bytes);
    tensor_.add(bytes);
  }
  void end() {
    while (at_ < tensors_.size()) next();
  }
  std::uint64_t file() const { return file_.sum(); }
  const std::vector<std::uint64_t>& tensors() const { return tensors_; }  // after end()

 private:
  void next() {
    tensors_[at_++] = tensor_.sum();
    tensor_.restart();
  }
  Xxh3 file_, tensor_;
  std::size_t at_ = 0;
  std::vector<std::uint64_t> tensors_;
};

}  // namespace ebb::train
