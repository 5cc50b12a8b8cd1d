// Convolution on images with channels last.
//
//   x (N, H, W, Cin), weight (Cout, KH, KW, Cin / groups), bias (Cout) → y (N, OH, OW, Cout)
//
// The forward op and its two gradients are linear in each input, and each one's gradient is written
// in the other two. Kept for the way back: x for the weight, the weight for x, nothing for the
// bias. 16-bit images are widened some at a time (conv_pieces.hpp); with a weight of f32 the result
// is f32.
//
// `winograd` changes 3×3 kernels of stride and dilation 1 without groups, from some 12 channels on,
// more where the images are small or their sides no multiples of 4 (and by shape alone): they are
// convolved by Winograd's algorithm, with rounding errors up to twice those of the plain sum. From
// 64 channels on that takes less than half the time, for the weight's gradient half of it to all
// (./bench kernels). It is made for batches: a single small image of many channels takes longer.
// Numbers beyond 1e36 overflow, and an infinity or NaN in x spoils all outputs of the tiles of 4×4
// that see it, up to four. Everything else is convolved as ever.
#pragma once

#include <array>
#include <cstdint>

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"
#include "ebb/ops/per_axis.hpp"

namespace ebb {

struct Conv2dOptions {
  PerAxis<2> stride = 1;    // height, width
  PerAxis<4> padding = 0;   // zeros at top, bottom, left, right
  PerAxis<2> dilation = 1;  // from one tap of the kernel to the next
  std::int64_t groups = 1;  // channels are convolved within their group
  bool winograd = false;    // 3×3 kernels with fewer products, rounded otherwise: see above
  bool operator==(const Conv2dOptions&) const = default;
};

struct Conv1dOptions {
  std::int64_t stride = 1;
  PerAxis<2> padding = 0;  // before, after
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};

}  // namespace ebb

namespace ebb::ops {

struct Conv2d {  // x, weight, perhaps bias
  static constexpr auto name = "conv2d";
  static constexpr bool half = true;
  Conv2dOptions options;
  bool operator==(const Conv2d&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out y, Scratch scratch) const;
  Needs needs(int input) const { return input < 2 ? Needs::input(1 - input) : Needs::nothing(); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b001);
  }
};

struct Conv2dInputGrad {  // dy, weight: the gradient of an x of in_h × in_w pixels
  static constexpr auto name = "conv2d_input_grad";
  static constexpr bool half = true;
  Conv2dOptions options;
  std::int64_t in_h = 0, in_w = 0;
  bool operator==(const Conv2dInputGrad&) const = default;
  Spec shape(const Spec& dy, const Spec& weight) const;
  Cost cost(const Spec& dy, const Spec& weight) const;
  std::size_t scratch(const Spec& dy, const Spec& weight) const;
  void run(In dy, In weight, Out dx, Scratch scratch) const;
  Needs needs(int input) const { return Needs::input(1 - input); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b01);
  }
};

struct Conv2dWeightGrad {  // x, dy, with `accumulate` what to add to
  static constexpr auto name = "conv2d_weight_grad";
  static constexpr bool half = true;
  Conv2dOptions options;
  std::int64_t kernel_h = 0, kernel_w = 0;
  bool accumulate = false;
  bool operator==(const Conv2dWeightGrad&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out dw, Scratch scratch) const;
  Needs needs(int input) const { return input < 2 ? Needs::input(1 - input) : Needs::nothing(); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::summed(batch, 0b11, overwrites(0));
  }
  std::uint32_t overwrites(int) const { return accumulate ? 0b100 : 0; }
};

Tensor conv2d_input_grad(const Tensor& dy, const Tensor& weight, std::int64_t in_h,
                         std::int64_t in_w, const Conv2dOptions& options = {});

// Adds to `into` where given: one chain per element, over the examples in order.
Tensor conv2d_weight_grad(const Tensor& x, const Tensor& dy, std::int64_t kernel_h,
                          std::int64_t kernel_w, const Conv2dOptions& options = {},
                          Tensor into = {});

}  // namespace ebb::ops

namespace ebb {

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

// x (N, L, Cin), weight (Cout, K, Cin / groups) → y (N, OL, Cout)
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

}  // namespace ebb
