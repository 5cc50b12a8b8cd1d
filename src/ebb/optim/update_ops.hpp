// An optimizer's step as ops, so that a compiled step plans it with everything else: each parameter
// can be updated as soon as its gradient is there. The arithmetic is that of the eager step
// (ebb/optim/run_rule.hpp).
#pragma once

#include <optional>

#include "ebb/ops/loss.hpp"
#include "ebb/ops/op.hpp"
#include "ebb/optim/run_rule.hpp"
#include "ebb/optim/update_inputs.hpp"

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

// count i64 or f64 (), sums of squares f64 () … → scale: what every gradient is multiplied by (1 / count
// and the factor of the clip by global norm), and that norm before clipping. Refuses a count of 0.
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

// Every rule with a number of slots, and the name of its op. The first ones take 16-bit parameters,
// with a master copy or without.
#define EBB_ELEMENT_UPDATES(X)                   \
  X(kernels::SgdRule, 0, "sgd")                  \
  X(kernels::SgdRule, 1, "sgd_momentum")         \
  X(kernels::AdamRule, 2, "adam")                \
  X(kernels::LazyAdamRule, 2, "lazy_adam")       \
  X(kernels::RmspropRule, 1, "rmsprop")          \
  X(kernels::RmspropRule, 2, "rmsprop_momentum") \
  X(kernels::AdagradRule, 1, "adagrad")          \
  X(kernels::LionRule, 1, "lion")                \
  X(kernels::Adam8Rule, 1, "adam_8bit")
#define EBB_FACTORED_UPDATES(X)             \
  X(kernels::AdafactorRule, 1, "adafactor") \
  X(kernels::AdafactorRule, 2, "adafactor_factored")
template <class Rule, int kSlots>
struct UpdateName;
#define EBB_UPDATE_NAME(Rule, slots, text)                                         \
  template <>                                                                      \
  struct UpdateName<Rule, slots> {                                                 \
    static constexpr const char *plain = text, *with_master = text "_with_master", \
                                *sparse = "sparse_" text;                          \
  };
EBB_ELEMENT_UPDATES(EBB_UPDATE_NAME)
EBB_FACTORED_UPDATES(EBB_UPDATE_NAME)
#undef EBB_UPDATE_NAME

// UpdateInputs → UpdateOutputs, with a master copy if kMaster. The rule is the bytes of a Rule, filled in
// for this step; a scale of 0 leaves all as it is.
template <class Rule, int kSlots, bool kMaster = false>
struct Update {
  static constexpr int kOutputs = 1 + kMaster + kSlots;
  static constexpr auto name =
      kMaster ? UpdateName<Rule, kSlots>::with_master : UpdateName<Rule, kSlots>::plain;
  static constexpr bool half = true;
  double clip_value = 0;
  bool operator==(const Update&) const = default;
  std::array<Spec, kOutputs> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  std::uint32_t overwrites(int output) const { return UpdateInputs::replaced_by(output); }
  static constexpr bool once = true;  // an update is never run again
  void run(Ins in, Outs out, Scratch scratch) const;
};

// EmaInputs → the average, in its place. The rule is the bytes of an EmaRule.
struct Ema {
  static constexpr auto name = "ema";
  bool operator==(const Ema&) const = default;
  Spec shape(const Spec& rule, const Spec& value, const Spec& average) const;
  Cost cost(const Spec& rule, const Spec& value, const Spec& average) const;
  std::uint32_t overwrites(int) const { return 1u << EmaInputs::average; }
  static constexpr bool half = true;
  static constexpr bool once = true;
  void run(In rule, In value, In average, Out out, Scratch) const;
};

// An update that takes every element by itself may be run on pieces of its arrays, one after the
// other, for the same bits: the first input to be cut, as all after it and all outputs are. None
// where it may not.
std::optional<std::size_t> cut_from(const OpType& update);

}  // namespace ebb::ops
