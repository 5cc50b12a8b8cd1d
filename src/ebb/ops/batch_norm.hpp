// Normalisation of each channel (the last axis) over all other axes.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

// x (…, c), weight (c), bias (c) → y, mean (c), var (c): with the batch's own statistics. var is
// biased (divided by the number of rows); of no rows both are 0, and nothing depends on anything.
// Kept: x, the weight and the statistics.
struct BatchNormTrain {
  static constexpr auto name = "batch_norm_train";
  double eps = 1e-5;
  bool operator==(const BatchNormTrain&) const = default;
  std::array<Spec, 3> shape(const Spec& x, const Spec& weight, const Spec& bias) const;
  Cost cost(const Spec& x, const Spec& weight, const Spec& bias) const;
  std::size_t scratch(const Spec& x, const Spec& weight, const Spec& bias) const;
  void run(In x, In weight, In bias, Out y, Out mean, Out var, Scratch scratch) const;
  Needs needs(int input) const {
    return input == 2 ? Needs::nothing()
                      : Needs::input(0) | Needs::input(1) | Needs::output(1) | Needs::output(2);
  }
  void grad(Back& back) const;
  std::uint32_t overwrites(int output) const { return output == 0 ? 0b1 : 0; }
};

// x, weight, dy, mean, var → dx, dweight, dbias, where mean and var are those of x.
struct BatchNormBackward {
  static constexpr auto name = "batch_norm_backward";
  double eps = 1e-5;
  bool operator==(const BatchNormBackward&) const = default;
  std::array<Spec, 3> shape(const Spec& x, const Spec& weight, const Spec& dy, const Spec& mean,
                            const Spec& var) const;
  Cost cost(const Spec& x, const Spec& weight, const Spec& dy, const Spec& mean,
            const Spec& var) const;
  std::size_t scratch(const Spec& x, const Spec& weight, const Spec& dy, const Spec& mean,
                      const Spec& var) const;
  void run(In x, In weight, In dy, In mean, In var, Out dx, Out dweight, Out dbias,
           Scratch scratch) const;
  Needs needs(int) const { return {0x1F, 0}; }
  void grad(Back& back) const;
  std::uint32_t overwrites(int output) const { return output == 0 ? 0b101 : 0; }
};

// x (…, c), weight, bias, mean, var (c): with statistics that are given.
struct BatchNorm {
  static constexpr auto name = "batch_norm";
  double eps = 1e-5;
  bool operator==(const BatchNorm&) const = default;
  Spec shape(const Spec& x, const Spec& weight, const Spec& bias, const Spec& mean,
             const Spec& var) const;
  Cost cost(const Spec& x, const Spec& weight, const Spec& bias, const Spec& mean,
            const Spec& var) const;
  void run(In x, In weight, In bias, In mean, In var, Out y, Scratch) const;
  Needs needs(int input) const {
    switch (input) {
      case 0:
        return Needs::input(1) | Needs::input(4);
      case 1:
        return Needs::input(0) | Needs::input(3) | Needs::input(4);
      case 2:
        return Needs::nothing();
      case 3:
        return Needs::input(1) | Needs::input(4);
      default:
        return Needs::input(0) | Needs::input(1) | Needs::input(3) | Needs::input(4);
    }
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b00001);
  }
  std::uint32_t overwrites(int) const { return 0b1; }
};

// dx, dweight, dbias.
std::array<Tensor, 3> batch_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                          const Tensor& mean, const Tensor& var, double eps = 1e-5);

}  // namespace ebb::ops

namespace ebb {

struct BatchNormResult {
  Tensor y, mean, var;
};

BatchNormResult batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 double eps = 1e-5);
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& var, double eps = 1e-5);

}  // namespace ebb
