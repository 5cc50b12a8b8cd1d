#include "ebb/ops/conv_pieces.hpp"

#include <algorithm>

#include "ebb/base/half.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/kernels/convert.hpp"

namespace ebb::ops::conv {
namespace {

using kernels::Conv2dShape;

constexpr std::size_t kPieceBytes = 2 << 20;  // of images in f32: enough for all threads, in cache

std::size_t images_at_once(std::size_t batch, std::size_t widened) {
  if (widened == 0) return std::max<std::size_t>(1, batch);
  const std::size_t images = kPieceBytes / (widened * sizeof(float));
  return std::clamp<std::size_t>(images, 1, std::max<std::size_t>(1, batch));
}

}  // namespace

Widened::Widened(DType type, std::size_t at_once)
    : type_(type), bytes_(is_half(type) ? memory::aligned(at_once * sizeof(float)) : 0) {}

void Widened::place(Scratch& rest) {
  room_ = reinterpret_cast<float*>(rest.data());
  rest = rest.subspan(bytes_);
}

const float* Widened::read(const void* data, std::size_t first, std::size_t count) const {
  if (type_ == DType::f32) return static_cast<const float*>(data) + first;
  if (type_ == DType::bf16) {
    kernels::convert(static_cast<const bf16*>(data) + first, room_, count);
  } else {
    kernels::convert(static_cast<const f16*>(data) + first, room_, count);
  }
  return room_;
}

float* Widened::to_write(void* data, std::size_t first) const {
  return type_ == DType::f32 ? static_cast<float*>(data) + first : room_;
}

void Widened::written(void* data, std::size_t first, std::size_t count) const {
  if (type_ == DType::f32) return;
  const float* from = room_;
  if (type_ == DType::bf16) {
    kernels::convert(from, static_cast<bf16*>(data) + first, count);
  } else {
    kernels::convert(from, static_cast<f16*>(data) + first, count);
  }
}

Pieces::Pieces(const Conv2dShape& s, DType x, DType weight, DType y)
    : shape_(s),
      x_image_(s.in_h * s.in_w * s.in_c),
      y_image_(s.out_h() * s.out_w() * s.out_c),
      weights_(s.out_c * s.kernel_h * s.kernel_w * (s.in_c / s.groups)),
      piece_(images_at_once(s.batch, (is_half(x) ? x_image_ : 0) + (is_half(y) ? y_image_ : 0))),
      x_(x, piece_ * x_image_),
      weight_(weight, weights_),
      y_(y, piece_ * y_image_) {}

// The last piece is smaller, and may be cut in another way: room for the most that either takes.
std::size_t Pieces::with_kernel(std::size_t (*scratch)(const Conv2dShape&)) const {
  std::size_t most = 0;
  for (const std::size_t images : {std::min(piece_, shape_.batch), shape_.batch % piece_}) {
    Conv2dShape piece = shape_;
    piece.batch = images;
    most = std::max(most, scratch(piece));
  }
  return x_.bytes() + weight_.bytes() + y_.bytes() + most;
}

Scratch Pieces::place(Scratch rest) {
  x_.place(rest);
  weight_.place(rest);
  y_.place(rest);
  return rest;
}

template <class F>
void Pieces::each(F&& f) const {
  Conv2dShape piece = shape_;
  for (std::size_t first = 0; first < shape_.batch; first += piece_) {
    piece.batch = std::min(piece_, shape_.batch - first);
    f(piece, first);
  }
}

std::size_t Pieces::forward_scratch(DType bias) const {
  return Widened(bias, shape_.out_c).bytes() + with_kernel(kernels::conv2d_scratch_bytes<float>);
}

void Pieces::forward(const void* x, const void* weight, const In* bias, void* y, Scratch scratch) {
  Widened biases(bias ? bias->dtype() : DType::f32, shape_.out_c);
  biases.place(scratch);
  const Scratch rest = place(scratch);
  const float* b = bias ? biases.read(bias->data, 0, shape_.out_c) : nullptr;
  const float* w = weight_.read(weight, 0, weights_);
  each([&](const Conv2dShape& piece, std::size_t first) {
    const float* from = x_.read(x, first * x_image_, piece.batch * x_image_);
    kernels::conv2d(piece, from, w, b, y_.to_write(y, first * y_image_), rest);
    y_.written(y, first * y_image_, piece.batch * y_image_);
  });
}

std::size_t Pieces::input_grad_scratch() const {
  return with_kernel(kernels::conv2d_input_grad_scratch_bytes<float>);
}

void Pieces::input_grad(const void* dy, const void* weight, void* dx, Scratch scratch) {
  const Scratch rest = place(scratch);
  const float* w = weight_.read(weight, 0, weights_);
  each([&](const Conv2dShape& piece, std::size_t first) {
    const float* from = y_.read(dy, first * y_image_, piece.batch * y_image_);
    kernels::conv2d_input_grad(piece, from, w, x_.to_write(dx, first * x_image_), rest);
    x_.written(dx, first * x_image_, piece.batch * x_image_);
  });
}

std::size_t Pieces::weight_grad_scratch() const {
  return with_kernel(kernels::conv2d_weight_grad_scratch_bytes<float>);
}

void Pieces::weight_grad(const void* x, const void* dy, void* dw, bool accumulate,
                         Scratch scratch) {
  const Scratch rest = place(scratch);
  if (accumulate) weight_.read(dw, 0, weights_);
  float* sums = weight_.to_write(dw, 0);
  each([&](const Conv2dShape& piece, std::size_t first) {
    const float* a = x_.read(x, first * x_image_, piece.batch * x_image_);
    const float* b = y_.read(dy, first * y_image_, piece.batch * y_image_);
    kernels::conv2d_weight_grad(piece, a, b, sums, accumulate || first > 0, rest);
  });
  if (shape_.batch == 0 && !accumulate) std::fill_n(sums, weights_, 0.0f);
  weight_.written(dw, 0, weights_);
}

}  // namespace ebb::ops::conv
