// Normalisation over the last axis. Kept for the way back: x and the weight, no statistics.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

struct LayerNorm {  // x (…, n), weight (n), bias (n): (x - mean) / sqrt(var + eps) * weight +
                    // bias
  static constexpr auto name = "layer_norm";
  double eps = 1e-5;
  bool operator==(const LayerNorm&) const = default;
  Spec shape(const Spec& x, const Spec& weight, const Spec& bias) const;
  Cost cost(const Spec& x, const Spec& weight, const Spec& bias) const;
  void run(In x, In weight, In bias, Out y, Scratch) const;
  Needs needs(int input) const {
    return input == 2 ? Needs::nothing() : Needs::input(0) | Needs::input(1);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b001);
  }
  std::uint32_t overwrites(int) const { return 0b1; }
};

struct LayerNormBackward {  // x, weight, dy[, dweight so far][, dbias so far] → dx, dweight, dbias
  static constexpr auto name = "layer_norm_backward";
  double eps = 1e-5;
  bool dweight_so_far = false, dbias_so_far = false;  // are given
  bool operator==(const LayerNormBackward&) const = default;
  std::array<Spec, 3> shape(Specs in) const;
  Cost cost(Specs in) const;
  void run(Ins in, Out dx, Out dweight, Out dbias, Scratch) const;
  Needs needs(int input) const {
    return input > 2 ? Needs::nothing() : Needs::input(0) | Needs::input(1) | Needs::input(2);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int output) const {
    if (output == 1) return dweight_so_far ? 0b1000 : 0;
    return output == 2 && dbias_so_far ? 0b1000u << dweight_so_far : 0;
  }
};

struct RmsNorm {  // x (…, n), weight (n): x / sqrt(mean(x^2) + eps) * weight
  static constexpr auto name = "rms_norm";
  double eps = 1e-6;
  bool operator==(const RmsNorm&) const = default;
  Spec shape(const Spec& x, const Spec& weight) const;
  Cost cost(const Spec& x, const Spec& weight) const;
  void run(In x, In weight, Out y, Scratch) const;
  Needs needs(int) const { return Needs::input(0) | Needs::input(1); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b01);
  }
  std::uint32_t overwrites(int) const { return 0b1; }
};

struct RmsNormBackward {  // x, weight, dy[, dweight so far] → dx, dweight
  static constexpr auto name = "rms_norm_backward";
  double eps = 1e-6;
  bool accumulate = false;
  bool operator==(const RmsNormBackward&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  void run(Ins in, Out dx, Out dweight, Scratch) const;
  Needs needs(int input) const {
    return input > 2 ? Needs::nothing() : Needs::input(0) | Needs::input(1) | Needs::input(2);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int output) const { return output == 1 && accumulate ? 0b1000 : 0; }
};

// The sums over rows go on from what is given, or start from zero.
std::array<Tensor, 3> layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                          double eps, const Tensor& dweight = {},
                                          const Tensor& dbias = {});
std::array<Tensor, 2> rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                        double eps, const Tensor& dweight = {});

}  // namespace ebb::ops

namespace ebb {

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-6);

}  // namespace ebb
