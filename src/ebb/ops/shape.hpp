// Ops that move elements and compute nothing. None of them keeps anything for its gradient.
//
// Axes count from the front, or from the back when negative.
#pragma once

#include <initializer_list>
#include <span>

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"
#include "ebb/ops/slice.hpp"

namespace ebb::ops {

struct Reshape {  // the same elements in another shape: a view
  static constexpr auto name = "reshape";
  static constexpr bool half = true;
  Shape to;
  bool operator==(const Reshape&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec&) const { return {}; }
  Tensor view(const Tensor& x) const { return x.viewed(to); }
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    const bool in_order = to.rank() > 0 && to[0] % batch.examples == 0;
    return rule::per_example(batch, 0b1, in_order) | rule::linear(batch, 0b1);
  }
  AnyOp for_examples(std::int64_t from, std::int64_t n) const;
};

struct Permute {  // axis i of y is axis axes[i] of x
  static constexpr auto name = "permute";
  static constexpr bool half = true;
  std::array<std::int8_t, Shape::kMaxRank> axes{};
  bool operator==(const Permute&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  Tensor view(const Tensor& x) const;  // where only axes of size 1 move
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1, axes[0] == 0) | rule::linear(batch, 0b1);
  }
};

struct Pad {  // x with `before` and `after` elements of one value around it
  static constexpr auto name = "pad";
  static constexpr bool half = true;
  std::array<std::int64_t, Shape::kMaxRank> before{}, after{};
  double value = 0;
  bool operator==(const Pad&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1, before[0] == 0 && after[0] == 0) |
           rule::linear(batch, 0b1, value == 0);
  }
};

struct Tile {  // x again and again, repeats[i] times along axis i
  static constexpr auto name = "tile";
  static constexpr bool half = true;
  std::array<std::int64_t, Shape::kMaxRank> repeats{};
  bool operator==(const Tile&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    const Shape& x = batch.in[0].shape;
    return rule::per_example(batch, 0b1, repeats[0] == 1) |
           rule::per_example(batch, 0, x.rank() > 0 && x[0] == 1) | rule::linear(batch, 0b1);
  }
};

struct Flip {  // backwards along some axes
  static constexpr auto name = "flip";
  static constexpr bool half = true;
  std::uint32_t axes = 0;  // bit i: axis i
  bool operator==(const Flip&) const = default;
  Spec shape(const Spec& x) const { return x; }
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1, (axes & 1) == 0) | rule::linear(batch, 0b1);
  }
};

struct BroadcastTo {  // axes of size 1, and missing ones in front, repeated
  static constexpr auto name = "broadcast_to";
  static constexpr bool half = true;
  Shape to;
  bool operator==(const BroadcastTo&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const;
  AnyOp for_examples(std::int64_t from, std::int64_t n) const;
};

}  // namespace ebb::ops

namespace ebb {

struct Padding {
  std::int64_t before = 0, after = 0;
};

Tensor reshape(const Tensor& x, std::span<const std::int64_t> dims);  // one size may be -1
inline Tensor reshape(const Tensor& x, Dims dims) {
  return reshape(x, std::span(dims.begin(), dims.size()));
}
inline Tensor reshape(const Tensor& x, const Shape& to) { return reshape(x, to.dims()); }
Tensor squeeze(const Tensor& x, int axis);      // without an axis of size 1
Tensor squeeze(const Tensor& x);                // without any axis of size 1
Tensor expand_dims(const Tensor& x, int axis);  // with a new axis of size 1, there in the result

Tensor transpose(const Tensor& x);  // the last two axes
Tensor permute(const Tensor& x, std::span<const int> axes);
inline Tensor permute(const Tensor& x, std::initializer_list<int> axes) {
  return permute(x, std::span(axes.begin(), axes.size()));
}

// `value` becomes an element: of integers it must be one of them (Tensor::full).
Tensor pad(const Tensor& x, std::span<const Padding> axes, double value = 0);
inline Tensor pad(const Tensor& x, std::initializer_list<Padding> axes, double value = 0) {
  return pad(x, std::span(axes.begin(), axes.size()), value);
}
Tensor tile(const Tensor& x, std::span<const std::int64_t> repeats);
inline Tensor tile(const Tensor& x, Dims repeats) {
  return tile(x, std::span(repeats.begin(), repeats.size()));
}
Tensor flip(const Tensor& x, std::span<const int> axes);
inline Tensor flip(const Tensor& x, std::initializer_list<int> axes) {
  return flip(x, std::span(axes.begin(), axes.size()));
}
Tensor broadcast_to(const Tensor& x, const Shape& to);  // x itself when it is of that shape

}  // namespace ebb
