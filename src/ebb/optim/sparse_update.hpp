// The update of a table of which few rows have a gradient, such as an embedding's weight: the sum
// scatter_add(indices, rows) and the optimizer's update in one, in the same bits. An eager step
// takes the rows from the tape (SparseGradient); in a compiled one a pass over the trace puts this op
// in the place of the two (ebb/trace/sparse.hpp).
#pragma once

#include <optional>

#include "ebb/optim/update_ops.hpp"

namespace ebb::ops {

// SparseUpdateInputs, with indices (i…), rows (i…, width…) and a parameter (height, width…) →
// UpdateOutputs, without a master copy.
template <class Rule, int kSlots>
struct SparseUpdate {
  static constexpr int kOutputs = 1 + kSlots;
  static constexpr auto name = UpdateName<Rule, kSlots>::sparse;
  static constexpr bool once = true, unlisted = true;
  double clip_value = 0;
  bool operator==(const SparseUpdate&) const = default;
  std::array<Spec, kOutputs> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  std::uint32_t overwrites(int output) const { return SparseUpdateInputs::replaced_by(output); }
  void run(Ins in, Outs out, Scratch scratch) const;
};

#define EBB_SPARSE_UPDATES(X) \
  X(kernels::SgdRule, 0)      \
  X(kernels::AdamRule, 2)     \
  X(kernels::LazyAdamRule, 2) \
  X(kernels::AdagradRule, 1)

// indices (i…), rows (i…, width…) → Σ g², f64 (), of the whole gradient they add up to: as
// SumOfSquares has it.
struct SparseSumOfSquares {
  static constexpr auto name = "sparse_sum_of_squares";
  static constexpr bool unlisted = true;
  Shape table;  // of the parameter
  bool operator==(const SparseSumOfSquares&) const = default;
  Spec shape(const Spec& indices, const Spec& rows) const;
  Cost cost(const Spec& indices, const Spec& rows) const;
  std::size_t scratch(const Spec& indices, const Spec& rows) const;
  void run(In indices, In rows, Out sum, Scratch scratch) const;
};

// The sparse form of an optimizer's update of this parameter with so many rows of gradient; none
// where the rule has none, or where it would not be quicker.
std::optional<AnyOp> sparse_form(const AnyOp& update, const Spec& param, const Spec& indices);
bool is_sparse_update(const AnyOp& op);

}  // namespace ebb::ops
