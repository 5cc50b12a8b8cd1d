// An optimizer's step as ops, so that a compiled step plans it with everything else: each parameter
// can be updated as soon as its gradient is there. The arithmetic is that of the eager step.
#pragma once

#include "ebb/kernels/update.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

// gradient → Σ g², f64 (): one for each parameter, added up in the order of the parameters.
struct SumOfSquares {
  static constexpr auto name = "sum_of_squares";
  bool operator==(const SumOfSquares&) const = default;
  Spec shape(const Spec& gradient) const;
  Cost cost(const Spec& gradient) const;
  std::size_t scratch(const Spec& gradient) const;
  void run(In gradient, Out sum, Scratch scratch) const;
};

// count i64 (), sums of squares f64 () … → scale: what every gradient is multiplied by (1 / count
// and the factor of the clip by global norm), and that norm before clipping. Refuses a count of 0.
struct StepScale {
  static constexpr auto name = "step_scale";
  double clip_norm = 0;  // infinity: none, and no sums
  bool operator==(const StepScale&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  void run(Ins in, Out scale, Out norm, Scratch) const;
};

// rule (the bytes of a Rule, filled in for this step), scale, gradient, parameter, state … →
// parameter, state …, each in the place of the old one.
template <class Rule, int kSlots>
struct Update {
  static const char* const name;
  double clip_value = 0;
  bool operator==(const Update&) const = default;
  std::array<Spec, 1 + kSlots> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::uint32_t overwrites(int output) const { return 1u << (3 + output); }
  static constexpr bool once = true;  // an update is never run again
  template <class... O>
  void run(Ins in, O... out_and_scratch) const {
    const std::tuple<O...> all(out_and_scratch...);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      const Out out[] = {std::get<I>(all)...};
      update(in, out);
    }
    (std::make_index_sequence<1 + kSlots>{});
  }

 private:
  void update(Ins in, Outs out) const;
};

template <>
const char* const Update<kernels::SgdRule, 0>::name;
template <>
const char* const Update<kernels::SgdRule, 1>::name;
template <>
const char* const Update<kernels::AdamRule, 2>::name;
template <>
const char* const Update<kernels::RmspropRule, 1>::name;
template <>
const char* const Update<kernels::RmspropRule, 2>::name;
template <>
const char* const Update<kernels::AdagradRule, 1>::name;

}  // namespace ebb::ops
