// An optimizer's step as ops, so that a compiled step plans it with everything else: each parameter
// can be updated as soon as its gradient is there. The arithmetic is that of the eager step, which
// calls the same functions.
#pragma once

#include <optional>

#include "ebb/kernels/update.hpp"
#include "ebb/kernels/update_8bit.hpp"
#include "ebb/kernels/update_factored.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::optim {

// One parameter in a step: its bytes, and those of its gradient and state.
//
// A 16-bit parameter is widened as it is read and rounded as it is written; or, where it has a
// master copy in f32, that is what is updated, and the parameter is that copy rounded. Its gradient
// is of its own type or f32.
//
// With an `index_spec` the gradient is rows of the parameter's type, and `indices` say which row of
// the parameter each of them is part of.
struct Entry {
  const Spec* spec;  // of the parameter
  DType grad_type;
  std::byte* param;
  const std::byte* grad;
  std::byte* master;    // null: none
  std::byte* state[2];  // null: none
  const Spec* index_spec = nullptr;  // null: the gradient is whole
  const std::byte* indices = nullptr;
  std::size_t size() const { return static_cast<std::size_t>(spec->size()); }
};

inline DType working_type(DType param) { return param == DType::f64 ? DType::f64 : DType::f32; }

// Adafactor takes no 16-bit parameters, 8 bits of state go with f32 at most.
template <class Rule>
constexpr bool takes(DType param) {
  if (std::is_same_v<Rule, kernels::AdafactorRule>)
    return param == DType::f32 || param == DType::f64;
  if (std::is_same_v<Rule, kernels::Adam8Rule>) return param == DType::f32 || is_half(param);
  return is_float(param);
}

// Whether a rule with so many slots takes a gradient as rows, for the bits of the whole one.
template <class Rule>
constexpr bool takes_rows(std::size_t slots) {
  if (std::is_same_v<Rule, kernels::SgdRule>) return slots == 0;
  return std::is_same_v<Rule, kernels::AdamRule> || std::is_same_v<Rule, kernels::LazyAdamRule> ||
         std::is_same_v<Rule, kernels::AdagradRule>;
}
// Rows of gradient for this parameter above which the whole is as quick; 0 where it goes whole, as
// a vector does under the lazy rule, for which its elements are no rows.
std::int64_t most_rows(const Spec& param, bool lazy);

// What slot `index` of `slots` holds for a parameter.
template <class Rule>
Spec state_spec(const Spec& param, int index, int slots);
// Bytes that run_rule needs besides.
template <class Rule>
std::size_t rule_scratch(std::span<const Entry> entries);
// The step for all of them, in one pass over memory where the rule allows it.
template <class Rule>
void run_rule(std::span<const Entry> entries, const Rule& rule, kernels::GradientUse use,
              std::span<std::byte> scratch);
// The parts of it that go by rows: a gradient given as rows; whole gradients under the lazy rule.
std::size_t row_width(const Spec& param);
void check_rows(const char* op, const Entry& entry);  // throws where an index is out of range
std::size_t rows_scratch(std::span<const Entry> entries);
template <class Rule>
void run_rows(const Entry& entry, const Rule& rule, kernels::GradientUse use,
              std::span<std::byte> scratch);
std::size_t rows_squares_scratch(const Entry& entry);
double rows_squares(const Entry& entry, std::span<std::byte> scratch);  // of the whole gradient
void run_lazy(const Entry& entry, const kernels::LazyAdamRule& rule, kernels::GradientUse use);

// Adafactor keeps rows and columns of what has two axes or more.
inline bool factored(const Spec& param) { return param.rank() >= 2; }

double sum_of_squares(const Entry& entry, std::span<std::byte> scratch);  // of the gradient
std::size_t sum_of_squares_scratch(const Spec& gradient);

}  // namespace ebb::optim

namespace ebb::ops {

// gradient → Σ g², f64 (): one for each parameter, added up in the order of the parameters.
struct SumOfSquares {
  static constexpr auto name = "sum_of_squares";
  static constexpr bool half = true;
  bool operator==(const SumOfSquares&) const = default;
  Spec shape(const Spec& gradient) const;
  Cost cost(const Spec& gradient) const;
  std::size_t scratch(const Spec& gradient) const;
  void run(In gradient, Out sum, Scratch scratch) const;
};

// count i64 or f64 (), sums of squares f64 () … → scale: what every gradient is multiplied by (1 / count and
// the factor of the clip by global norm), and that norm before clipping. Refuses a count of 0.
// With `loss_scaled` the second input is what the loss was multiplied by, f32 (); it is divided out.
// Where the norm is measured and not finite the scale is 0: the step is not taken.
// Unless a bad loss is allowed, the next two inputs are the loss's sum () and the number of the step,
// i64 (): a sum that is not finite is refused, or makes the scale 0 and the norm NaN. All updates
// need the scale, so nothing has changed by then.
struct StepScale {
  static constexpr auto name = "step_scale";
  double clip_norm = 0;  // infinity: none
  bool loss_scaled = false;
  BadLoss bad = BadLoss::allow;
  bool operator==(const StepScale&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  void run(Ins in, Out scale, Out norm, Scratch) const;

  struct Result {
    double scale, norm;
  };
  Result of(double sum_of_squares, double count, double loss_scale) const;
  [[noreturn]] static void refuse(double sum, double count, std::int64_t step);

 private:
  std::size_t before_squares() const { return 1u + loss_scaled + (bad == BadLoss::allow ? 0 : 2); }
};

// rule (the bytes of a Rule, filled in for this step), scale, gradient, parameter, with kMaster its
// master copy, state … → parameter, master, state …, each in the place of the old one. A scale of 0
// leaves all as it is.
template <class Rule, int kSlots, bool kMaster = false>
struct Update {
  static constexpr int kOutputs = 1 + kMaster + kSlots;
  static const char* const name;
  static constexpr bool half = true;
  double clip_value = 0;
  bool operator==(const Update&) const = default;
  std::array<Spec, kOutputs> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  std::uint32_t overwrites(int output) const { return 1u << (3 + output); }
  static constexpr bool once = true;  // an update is never run again
  template <class... O>
  void run(Ins in, O... out_and_scratch) const {
    const std::tuple<O...> all(out_and_scratch...);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const Out out[] = {std::get<I>(all)...};
      update(in, out, std::get<kOutputs>(all));
    }
    (std::make_index_sequence<kOutputs>{});
  }

 private:
  void update(Ins in, Outs out, Scratch scratch) const;
};

// Every rule with a number of slots, and the name of its op. The first ones take 16-bit parameters,
// with a master copy or without.
#define EBB_ELEMENT_UPDATES(X)                     \
  X(kernels::SgdRule, 0, "sgd")                    \
  X(kernels::SgdRule, 1, "sgd_momentum")           \
  X(kernels::AdamRule, 2, "adam")                  \
  X(kernels::LazyAdamRule, 2, "lazy_adam")         \
  X(kernels::RmspropRule, 1, "rmsprop")            \
  X(kernels::RmspropRule, 2, "rmsprop_momentum")   \
  X(kernels::AdagradRule, 1, "adagrad")            \
  X(kernels::LionRule, 1, "lion")                  \
  X(kernels::Adam8Rule, 1, "adam_8bit")
#define EBB_FACTORED_UPDATES(X)                    \
  X(kernels::AdafactorRule, 1, "adafactor")        \
  X(kernels::AdafactorRule, 2, "adafactor_factored")
#define EBB_UPDATE_NAME(Rule, slots, text) \
  template <>                              \
  const char* const Update<Rule, slots>::name;
#define EBB_MASTER_NAME(Rule, slots, text) \
  template <>                              \
  const char* const Update<Rule, slots, true>::name;
EBB_ELEMENT_UPDATES(EBB_UPDATE_NAME)
EBB_ELEMENT_UPDATES(EBB_MASTER_NAME)
EBB_FACTORED_UPDATES(EBB_UPDATE_NAME)
#undef EBB_UPDATE_NAME
#undef EBB_MASTER_NAME

// rule (the bytes of an EmaRule), values, their average → the average, in its place.
struct Ema {
  static constexpr auto name = "ema";
  bool operator==(const Ema&) const = default;
  Spec shape(const Spec& rule, const Spec& value, const Spec& average) const;
  Cost cost(const Spec& rule, const Spec& value, const Spec& average) const;
  std::uint32_t overwrites(int) const { return 0b100; }
  static constexpr bool half = true;
  static constexpr bool once = true;
  void run(In rule, In value, In average, Out out, Scratch) const;
};

// An update that takes every element by itself may be run on pieces of its arrays, one after the
// other, for the same bits: the first input to be cut, as all after it and all outputs are. None
// where it may not.
std::optional<std::size_t> cut_from(const OpType& update);

}  // namespace ebb::ops
