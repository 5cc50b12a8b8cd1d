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

// gradient, parameter, master copy, state … → what the op makes of them.
template <class Rule, int kSlots, bool kMaster = false>
Tensors updated(const Rule& rule, const Tensors& in) {
  const Tensor bytes = bytes_of(rule), scale = Tensor::scalar(kScale, DType::f64);
  std::vector<const Tensor*> all = {&bytes, &scale};
  for (const Tensor& t : in) all.push_back(&t);
  auto out = apply_all(Update<Rule, kSlots, kMaster>{kNoClip}, all);
  if constexpr (kSlots + kMaster == 0) {
    return {out};
  } else {
    return Tensors(out.begin() + kMaster, out.end());  // what is rounded of it is looked at below
  }
}

// One element at a time: step(g, p, state) changes p and state.
template <class Rule, int kSlots, class Step>
void add(const std::string& op, const Rule& rule, Step step) {
  const auto reference = [=](const Arrays<double>& in, int first) {
    Arrays<double> out(in.begin() + first, in.end());
    for (std::int64_t i = 0; i < in[0].size(); ++i) {
      double state[3] = {};
      for (int k = 0; k < kSlots; ++k) state[k] = out[1 + k][i];
      step(kScale * in[0][i], out[0][i], state);
      for (int k = 0; k < kSlots; ++k) out[1 + k][i] = state[k];
    }
    return out;
  };
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{0}, Shape{3, 5}, Shape{40, 33}}) {
    const Input input{.shape = shape, .lo = 0.1, .differentiable = false};
    add_row({.name = op + " " + to_string(shape),
             .op = op,
             .inputs = std::vector<Input>(2 + kSlots, input),
             .call = [=](const Tensors& in) { return updated<Rule, kSlots>(rule, in); },
             .reference = [=](const Arrays<double>& in) { return reference(in, 1); }});
    std::vector<Input> inputs(3 + kSlots, input.as(DType::f32));
    inputs[1] = input.as(DType::bf16);
    add_row({.name = op + "_with_master " + to_string(shape),
             .op = op + "_with_master",
             .inputs = inputs,
             .call = [=](const Tensors& in) { return updated<Rule, kSlots, true>(rule, in); },
             .reference = [=](const Arrays<double>& in) { return reference(in, 2); },
             .tolerance = {.f64 = 2e-5}});
  }
}

// With a state of zeros, which is what 8 bits hold without rounding; the parameter alone.
template <bool kMaster>
Tensors updated_8bit(const kernels::Adam8Rule& rule, const Tensors& in) {
  const Tensor state =
      Tensor::zeros(optim::state_spec<kernels::Adam8Rule>(in[1].spec(), 0, 1).shape, DType::u8);
  Tensors all = in;
  all.push_back(state);
  return {updated<kernels::Adam8Rule, 1, kMaster>(rule, all)[0]};
}

template <bool kMaster>
void add_8bit(const std::string& op) {
  const kernels::Adam8Rule rule{{.lr = 0.1, .correction1 = 0.1, .correction2 = 0.001}};
  for (const Shape& shape : {Shape{7}, Shape{0}, Shape{40, 33}}) {
    const Input input{.shape = shape, .lo = 0.1, .differentiable = false};
    std::vector<Input> inputs(2 + kMaster, input.as(DType::f32));
    if (kMaster) inputs[1] = input.as(DType::bf16);
    add_row({.name = op + " " + to_string(shape),
             .op = op,
             .inputs = inputs,
             .call = [=](const Tensors& in) { return updated_8bit<kMaster>(rule, in); },
             .reference =
                 [=](const Arrays<double>& in) {
                   Array<double> out = in[1 + kMaster];
                   for (std::int64_t i = 0; i < out.size(); ++i) {
                     const double g = kScale * in[0][i];
                     out[i] -= 0.1 * g / (std::sqrt(g * g) + 1e-8);
                   }
                   return out;
                 },
             .tolerance = {.f64 = 2e-5}});
  }
}

// The formulas are checked in tests/kernels/update_factored_test.cpp; here, that rows and columns
// get there: with beta2 = 0 they are those of this gradient.
void add_adafactor() {
  const kernels::AdafactorRule rule{.rate = 0.1, .clip = 1e9, .relative = false};
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 4, 3}, Shape{40, 33}, Shape{0, 3}}) {
    const Input input{.shape = shape, .lo = 0.1, .differentiable = false};
    Input row = input, col = input;
    row.shape = optim::state_spec<kernels::AdafactorRule>({shape, DType::f32}, 0, 2).shape;
    col.shape = optim::state_spec<kernels::AdafactorRule>({shape, DType::f32}, 1, 2).shape;
    add_row(
        {.name = "adafactor_factored " + to_string(shape),
         .op = "adafactor_factored",
         .inputs = {input, input, row, col},
         .call = [=](const Tensors& in) { return updated<kernels::AdafactorRule, 2>(rule, in); },
         .reference =
             [=](const Arrays<double>& in) {
               Arrays<double> out(in.begin() + 1, in.end());
               const std::int64_t rows = shape[shape.rank() - 2], cols = shape[shape.rank() - 1];
               const std::int64_t count = rows > 0 ? in[0].size() / (rows * cols) : 0;
               for (std::int64_t k = 0; k < count; ++k) {
                 double mean = 0;
                 for (std::int64_t r = 0; r < rows; ++r) out[1][k * rows + r] = 1e-30;
                 for (std::int64_t c = 0; c < cols; ++c) out[2][k * cols + c] = 1e-30;
                 const auto g = [&](std::int64_t r, std::int64_t c) {
                   return kScale * in[0][(k * rows + r) * cols + c];
                 };
                 for (std::int64_t r = 0; r < rows; ++r)
                   for (std::int64_t c = 0; c < cols; ++c) {
                     const double s = g(r, c) * g(r, c);
                     out[1][k * rows + r] += s / static_cast<double>(cols);
                     out[2][k * cols + c] += s / static_cast<double>(rows);
                     mean += s / static_cast<double>(rows * cols);
                   }
                 for (std::int64_t r = 0; r < rows; ++r)
                   for (std::int64_t c = 0; c < cols; ++c)
                     out[0][(k * rows + r) * cols + c] -=
                         0.1 * g(r, c) /
                         std::sqrt(out[1][k * rows + r] * out[2][k * cols + c] / mean);
               }
               return out;
             }});
  }
  for (const Shape& shape : {Shape{7}, Shape{1}, Shape{0}}) {
    const Input input{.shape = shape, .lo = 0.1, .differentiable = false};
    add_row(
        {.name = "adafactor " + to_string(shape),
         .op = "adafactor",
         .inputs = {input, input, input},
         .call = [=](const Tensors& in) { return updated<kernels::AdafactorRule, 1>(rule, in); },
         .reference =
             [=](const Arrays<double>& in) {
               Arrays<double> out(in.begin() + 1, in.end());
               for (std::int64_t i = 0; i < in[0].size(); ++i) {
                 const double g = kScale * in[0][i];
                 out[1][i] = g * g;
                 out[0][i] -= 0.1 * g / std::sqrt(g * g);
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
  const auto adam_step = [](double g, double& p, double* s) {
    s[0] += (1 - 0.9) * (g - s[0]);
    s[1] = 0.999 * s[1] + (1 - 0.999) * g * g;
    p -= 0.1 / 0.19 * s[0] / (std::sqrt(s[1]) / std::sqrt(0.002) + 1e-8);
  };
  add<AdamRule, 2>("adam", adam, adam_step);
  add<LazyAdamRule, 2>("lazy_adam", {adam}, adam_step);
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
  add<LionRule, 1>("lion", {.lr = 0.1}, [](double g, double& p, double* s) {
    p -= 0.1 * (0.9 * s[0] + (1 - 0.9) * g > 0 ? 1 : -1);
    s[0] = 0.99 * s[0] + (1 - 0.99) * g;
  });
  add_8bit<false>("adam_8bit");
  add_8bit<true>("adam_8bit_with_master");
  add_adafactor();
  for (const Shape& shape : {Shape{7}, Shape{0}, Shape{40, 33}})
    add_row(
        {.name = "ema " + to_string(shape),
         .op = "ema",
         .inputs = std::vector<Input>(2, Input{.shape = shape, .differentiable = false}),
         .call =
             [](const Tensors& in) { return apply(Ema{}, bytes_of(EmaRule{0.75}), in[0], in[1]); },
         .reference =
             [](const Arrays<double>& in) {
               Array<double> out = in[1];
               for (std::int64_t i = 0; i < out.size(); ++i)
                 out[i] = 0.75 * in[1][i] + 0.25 * in[0][i];
               return out;
             }});
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
Tensors unscaled(const Tensors& in) {
  const Tensor n = Tensor::full({}, 3, DType::i64);
  const Tensor* all[] = {&n, &in[0], &in[1]};
  const auto out = apply_all(StepScale{5, true}, all);
  return {out[0], out[1]};
}
OP_ROW(
    "step_scale of a scaled loss", .op = "step_scale",
    .inputs = {f().as(DType::f32).of({64}), f().in(1, 2).as(DType::f64)}, .call = unscaled,
    .reference = [](const Arrays<double>& in) {
      return Arrays<double>{Array<double>(Shape{}, 1.0 / 3 / 64),
                            Array<double>(Shape{}, std::sqrt(in[1][0]) / 3 / 64)};
    });
OP_ROW(
    "step_scale of an overflow", .op = "step_scale",
    .inputs = {f().as(DType::f32).of({64}), f().as(DType::f64).of({INFINITY})},
    .call = [](const Tensors& in) { return Tensors{unscaled(in)[0]}; },
    .reference = [](const Arrays<double>&) { return Array<double>(Shape{}, 0.0); });
OP_ROW(
    "step_scale of an infinite gradient", .op = "step_scale",
    .inputs = {f().as(DType::f64).of({INFINITY})},
    .call = [](const Tensors& in) { return Tensors{scaled(5, 3, in)[0]}; },
    .reference = [](const Arrays<double>&) { return Array<double>(Shape{}, 0.0); });
OP_ROW(
    "step_scale of no number", .op = "step_scale", .inputs = {f().as(DType::f64).of({NAN})},
    .call = [](const Tensors& in) { return Tensors{scaled(5, 3, in)[0]}; },
    .reference = [](const Arrays<double>&) { return Array<double>(Shape{}, 0.0); });
OP_ROW(
    "step_scale of nothing", .op = "step_scale", .inputs = {f().as(DType::f64)},
    .call = [](const Tensors& in) { return scaled(5, 0, in); },
    .refused = "optimizer: the loss counts 0 examples; there is nothing to learn from");
Tensors of_loss(BadLoss bad, const Tensors& in) {
  const Tensor n = Tensor::full({}, 4, DType::f64), step = Tensor::full({}, 9, DType::i64);
  const Tensor* all[] = {&n, &in[0], &step};
  const auto out = apply_all(StepScale{INFINITY, false, bad}, all);
  return {out[0]};
}
OP_ROW(
    "step_scale of a good loss", .op = "step_scale", .inputs = {f().as(DType::f32)},
    .call = [](const Tensors& in) { return of_loss(BadLoss::stop, in); },
    .reference = [](const Arrays<double>&) { return Array<double>(Shape{}, 0.25); });
OP_ROW(
    "step_scale skips a bad loss", .op = "step_scale", .inputs = {f().as(DType::f32).of({NAN})},
    .call = [](const Tensors& in) { return of_loss(BadLoss::skip, in); },
    .reference = [](const Arrays<double>&) { return Array<double>(Shape{}, 0.0); });
OP_ROW(
    "step_scale stops at a bad loss", .op = "step_scale",
    .inputs = {f().as(DType::f64).of({INFINITY})},
    .call = [](const Tensors& in) { return of_loss(BadLoss::stop, in); },
    .refused = "optimizer: the loss of step 9 is inf (a sum of inf over 4); nothing has changed");
// Rows whose gradient is zero, of either sign, stay as they are.
OP_ROW(
    "lazy_adam leaves rows alone", .op = "lazy_adam",
    .inputs = {f(3, 2).of({0, -0.0, 0, 2, 0, 0}).fixed(), f(3, 2).fixed(), f(3, 2).fixed(),
               f(3, 2).in(0.1, 1).fixed()},
    .call = [](const Tensors& in) { return updated<kernels::LazyAdamRule, 2>({{.lr = 0.1}}, in); },
    .reference =
        [](const Arrays<double>& in) {
          Arrays<double> out(in.begin() + 1, in.end());
          for (int i = 2; i < 4; ++i) {
            const double g = kScale * in[0][i];
            out[1][i] += (1 - 0.9) * (g - out[1][i]);
            out[2][i] = 0.999 * out[2][i] + (1 - 0.999) * g * g;
            out[0][i] -= 0.1 * out[1][i] / (std::sqrt(out[2][i]) + 1e-8);
          }
          return out;
        });
OP_ROW(
    "adam with a state of another shape", .op = "adam", .inputs = {f(3), f(3), f(3), f(4)},
    .call = [](const Tensors& in) { return updated<kernels::AdamRule, 2>({}, in); },
    .refused = "adam: gradient or state is");

}  // namespace
}  // namespace ebb::table
