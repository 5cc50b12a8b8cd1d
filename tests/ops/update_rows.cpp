// An optimizer's step as ops.
#include "ebb/optim/update_ops.hpp"

#include <cmath>
#include <cstring>

#include "ebb/ops/apply.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

constexpr double kScale = 0.25, kNoClip = 1e30;

template <class Rule>
Tensor bytes_of(const Rule& rule) {
  std::vector<std::uint8_t> bytes(sizeof rule);
  std::memcpy(bytes.data(), &rule, sizeof rule);
  return Tensor::from(bytes, {static_cast<std::int64_t>(bytes.size())});
}

// gradient, parameter, state … → what the op makes of them.
template <class Rule, int kSlots>
Tensors updated(const Rule& rule, const Tensors& in) {
  const Tensor bytes = bytes_of(rule), scale = Tensor::scalar(kScale, DType::f64);
  std::vector<const Tensor*> all = {&bytes, &scale};
  for (const Tensor& t : in) all.push_back(&t);
  auto out = apply_all(Update<Rule, kSlots>{kNoClip}, all);
  if constexpr (kSlots == 0) {
    return {out};
  } else {
    return Tensors(out.begin(), out.end());
  }
}

// One element at a time: step(g, p, state) changes p and state.
template <class Rule, int kSlots, class Step>
void add(const std::string& op, const Rule& rule, Step step) {
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{0}, Shape{3, 5}, Shape{40, 33}}) {
    std::vector<Input> inputs(2 + kSlots,
                              Input{.shape = shape, .lo = 0.1, .differentiable = false});
    add_row({.name = op + " " + to_string(shape),
             .op = op,
             .inputs = inputs,
             .call = [=](const Tensors& in) { return updated<Rule, kSlots>(rule, in); },
             .reference =
                 [=](const Arrays<double>& in) {
                   Arrays<double> out(in.begin() + 1, in.end());
                   for (std::int64_t i = 0; i < in[0].size(); ++i) {
                     double state[3] = {};
                     for (int k = 0; k < kSlots; ++k) state[k] = in[2 + k][i];
                     step(kScale * in[0][i], out[0][i], state);
                     for (int k = 0; k < kSlots; ++k) out[1 + k][i] = state[k];
                   }
                   return out;
                 }});
  }
}

[[maybe_unused]] const bool updates = [] {
  using namespace kernels;
  add<SgdRule, 0>("sgd", {.lr = 0.1, .weight_decay = 0.01},
                  [](double g, double& p, double*) { p -= 0.1 * (g + 0.01 * p); });
  add<SgdRule, 1>("sgd_momentum", {.lr = 0.1, .momentum = 0.9}, [](double g, double& p, double* s) {
    s[0] = 0.9 * s[0] + g;
    p -= 0.1 * s[0];
  });
  AdamRule adam{.lr = 0.1, .correction1 = 0.19, .correction2 = 0.002};
  add<AdamRule, 2>("adam", adam, [](double g, double& p, double* s) {
    s[0] += (1 - 0.9) * (g - s[0]);
    s[1] = 0.999 * s[1] + (1 - 0.999) * g * g;
    p -= 0.1 / 0.19 * s[0] / (std::sqrt(s[1]) / std::sqrt(0.002) + 1e-8);
  });
  add<RmspropRule, 1>("rmsprop", {.lr = 0.1}, [](double g, double& p, double* s) {
    s[0] = 0.99 * s[0] + (1 - 0.99) * g * g;
    p -= 0.1 * g / (std::sqrt(s[0]) + 1e-8);
  });
  add<RmspropRule, 2>("rmsprop_momentum", {.lr = 0.1, .momentum = 0.9},
                      [](double g, double& p, double* s) {
                        s[0] = 0.99 * s[0] + (1 - 0.99) * g * g;
                        s[1] = 0.9 * s[1] + g / (std::sqrt(s[0]) + 1e-8);
                        p -= 0.1 * s[1];
                      });
  add<AdagradRule, 1>("adagrad", {.lr = 0.1}, [](double g, double& p, double* s) {
    s[0] += g * g;
    p -= 0.1 * g / (std::sqrt(s[0]) + 1e-10);
  });
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{0}, Shape{300, 301}})
    add_row({.name = "sum_of_squares " + to_string(shape),
             .op = "sum_of_squares",
             .inputs = {Input{.shape = shape, .differentiable = false}},
             .call = [](const Tensors& in) { return apply(SumOfSquares{}, in[0]); },
             .reference =
                 [](const Arrays<double>& in) {
                   Array<double> sum(Shape{}, 0.0);
                   for (std::int64_t i = 0; i < in[0].size(); ++i) sum[0] += in[0][i] * in[0][i];
                   return sum;
                 }});
  return true;
}();

Tensors scaled(double clip, std::int64_t count, const Tensors& sums) {
  const Tensor n = Tensor::full({}, static_cast<double>(count), DType::i64);
  std::vector<const Tensor*> in = {&n};
  for (const Tensor& s : sums) in.push_back(&s);
  const auto out = apply_all(StepScale{clip}, in);
  return {out[0], out[1]};
}

OP_ROW(
    "step_scale clips", .op = "step_scale",
    .inputs = {f().in(1, 2).as(DType::f64), f().in(3, 4).as(DType::f64)},
    .call = [](const Tensors& in) { return scaled(0.5, 3, in); },
    .reference =
        [](const Arrays<double>& in) {
          const double norm = std::sqrt(in[0][0] + in[1][0]) / 3;
          return Arrays<double>{Array<double>(Shape{}, 1.0 / 3 * 0.5 / norm),
                                Array<double>(Shape{}, norm)};
        });
OP_ROW(
    "step_scale leaves short ones", .op = "step_scale", .inputs = {f().in(1, 2).as(DType::f64)},
    .call = [](const Tensors& in) { return scaled(5, 3, in); },
    .reference =
        [](const Arrays<double>& in) {
          return Arrays<double>{Array<double>(Shape{}, 1.0 / 3),
                                Array<double>(Shape{}, std::sqrt(in[0][0]) / 3)};
        });
OP_ROW(
    "step_scale of nothing", .op = "step_scale", .inputs = {f().as(DType::f64)},
    .call = [](const Tensors& in) { return scaled(5, 0, in); },
    .refused = "optimizer: the loss counts 0 examples; there is nothing to learn from");
OP_ROW(
    "adam with a state of another shape", .op = "adam", .inputs = {f(3), f(3), f(3), f(4)},
    .call = [](const Tensors& in) { return updated<kernels::AdamRule, 2>({}, in); },
    .refused = "adam: gradient or state is");

}  // namespace
}  // namespace ebb::table
