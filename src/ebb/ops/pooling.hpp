// Pooling over windows of images with channels last: x (N, H, W, C) → y (N, OH, OW, C). Cells in
// the padding are left out: they are never the largest, and do not count in a mean unless asked
// for.
//
// Kept for the way back: x by max pooling, whose gradient goes to the first of a window's largest
// cells; nothing by average pooling.
#pragma once

#include <array>
#include <cstdint>

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"
#include "ebb/ops/per_axis.hpp"

namespace ebb {

struct Pool2dOptions {
  PerAxis<2> window = 2;       // height, width
  PerAxis<2> stride = 0;       // 0: that of the window
  PerAxis<4> padding = 0;      // top, bottom, left, right; smaller than the window
  bool count_padding = false;  // in means: cells of the padding count, as zeros
  bool operator==(const Pool2dOptions&) const = default;
};

struct Pool1dOptions {
  std::int64_t window = 2;
  std::int64_t stride = 0;
  PerAxis<2> padding = 0;
  bool count_padding = false;
};

}  // namespace ebb

namespace ebb::ops {

struct MaxPool2d {
  static constexpr auto name = "max_pool2d";
  Pool2dOptions options;
  bool operator==(const MaxPool2d&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  Needs needs(int) const { return Needs::input(0); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1);
  }
};

struct MaxPool2dBackward {  // x, dy: dy at the first of each window's largest cells
  static constexpr auto name = "max_pool2d_backward";
  Pool2dOptions options;
  bool operator==(const MaxPool2dBackward&) const = default;
  Spec shape(const Spec& x, const Spec& dy) const;
  Cost cost(const Spec& x, const Spec& dy) const;
  void run(In x, In dy, Out dx, Scratch) const;
  Needs needs(int input) const { return input == 1 ? Needs::input(0) : Needs::nothing(); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b11);
  }
};

struct MaxPool2dPick {  // x, v: what v holds at the first of each window's largest cells of x
  static constexpr auto name = "max_pool2d_pick";
  Pool2dOptions options;
  bool operator==(const MaxPool2dPick&) const = default;
  Spec shape(const Spec& x, const Spec& v) const;
  Cost cost(const Spec& x, const Spec& v) const;
  void run(In x, In v, Out y, Scratch) const;
  Needs needs(int input) const { return input == 1 ? Needs::input(0) : Needs::nothing(); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b11);
  }
};

struct AvgPool2d {
  static constexpr auto name = "avg_pool2d";
  Pool2dOptions options;
  bool operator==(const AvgPool2d&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1);
  }
};

struct AvgPool2dBackward {  // dy: the gradient of an x of in_h × in_w pixels
  static constexpr auto name = "avg_pool2d_backward";
  Pool2dOptions options;
  std::int64_t in_h = 0, in_w = 0;
  bool operator==(const AvgPool2dBackward&) const = default;
  Spec shape(const Spec& dy) const;
  Cost cost(const Spec& dy) const;
  void run(In dy, Out dx, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1);
  }
};

Tensor max_pool2d_backward(const Tensor& x, const Tensor& dy, const Pool2dOptions& options = {});
Tensor max_pool2d_pick(const Tensor& x, const Tensor& v, const Pool2dOptions& options = {});
Tensor avg_pool2d_backward(const Tensor& dy, std::int64_t in_h, std::int64_t in_w,
                           const Pool2dOptions& options = {});

}  // namespace ebb::ops

namespace ebb {

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});

// x (N, L, C) → y (N, OL, C)
Tensor max_pool1d(const Tensor& x, const Pool1dOptions& options = {});
Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& options = {});

}  // namespace ebb
