// Convolutions of images, weights and results that are f32, bf16 or f16 each: computed in f32.
// Images of 16 bits are widened, and rounded, some at a time, so that no whole batch stands in f32;
// weights, which are small beside them, and their gradients, which are sums, as a whole. The bits
// are those of a batch that was widened first: a result belongs to one image, and a weight's
// gradient is one chain.
#pragma once

#include <cstddef>

#include "ebb/kernels/conv.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops::conv {

// 16 bits of a kernel's operand as f32, or an f32 operand as it is.
class Widened {
 public:
  Widened(DType type, std::size_t at_once);
  std::size_t bytes() const { return bytes_; }  // of scratch
  void place(Scratch& rest);                    // takes them

  const float* read(const void* data, std::size_t first, std::size_t count) const;
  float* to_write(void* data, std::size_t first) const;
  void written(void* data, std::size_t first, std::size_t count) const;

 private:
  DType type_;
  std::size_t bytes_;
  float* room_ = nullptr;
};

class Pieces {
 public:
  Pieces(const kernels::Conv2dShape& shape, DType x, DType weight, DType y);

  std::size_t forward_scratch(DType bias = DType::f32) const;
  void forward(const void* x, const void* weight, const In* bias, void* y, Scratch scratch);
  std::size_t input_grad_scratch() const;
  void input_grad(const void* dy, const void* weight, void* dx, Scratch scratch);
  std::size_t weight_grad_scratch() const;
  void weight_grad(const void* x, const void* dy, void* dw, bool accumulate, Scratch scratch);

 private:
  std::size_t with_kernel(std::size_t (*scratch)(const kernels::Conv2dShape&)) const;
  Scratch place(Scratch scratch);
  template <class F>
  void each(F&& f) const;  // f(piece, its first image)

  kernels::Conv2dShape shape_;
  std::size_t x_image_, y_image_, weights_;  // elements
  std::size_t piece_;                        // images at a time
  Widened x_, weight_, y_;
};

}  // namespace ebb::ops::conv
