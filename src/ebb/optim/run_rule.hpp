// An optimizer's arithmetic: entries, one for each parameter, to kernel calls. Eager steps and the
// update ops of compiled ones (ebb/optim/update_ops.hpp) call the same functions.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "ebb/kernels/update.hpp"
#include "ebb/kernels/update_8bit.hpp"
#include "ebb/kernels/update_factored.hpp"
#include "ebb/tensor/spec.hpp"

namespace ebb::optim {

// One parameter in a step: its bytes, and those of its gradient and state.
//
// A 16-bit parameter is widened as it is read and rounded as it is written; or, where it has a
// master copy in f32, that is what is updated, and the parameter is that copy rounded. Its gradient
// is of its own type or f32.
//
// With an `index_spec` the gradient is sparse: rows of the parameter's type, and `indices` say which row
// of the parameter each of them is part of.
struct Entry {
  const Spec* spec = nullptr;  // of the parameter
  DType grad_type = DType::f32;
  std::byte* param = nullptr;
  const std::byte* grad = nullptr;
  std::byte* master = nullptr;       // null: none
  std::byte* state[2] = {};          // null: none
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

// Whether a rule with so many slots takes a sparse gradient, for the bits of the whole one.
template <class Rule>
constexpr bool takes_sparse(std::size_t slots) {
  if (std::is_same_v<Rule, kernels::SgdRule>) return slots == 0;
  return std::is_same_v<Rule, kernels::AdamRule> || std::is_same_v<Rule, kernels::LazyAdamRule> ||
         std::is_same_v<Rule, kernels::AdagradRule>;
}
// Rows of gradient for this parameter above which the whole is as quick; 0 where it goes whole, as
// a vector does under the lazy rule, for which its elements are no rows.
std::int64_t most_sparse_rows(const Spec& param, bool lazy);

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

// The parts of it that go by rows of the parameter (run_sparse.cpp): sparse gradients, and whole ones
// under the lazy rule.
std::size_t row_width(const Spec& param);
void check_indices(const char* op, const Entry& entry);  // throws where an index is out of range
std::size_t sparse_scratch(std::span<const Entry> entries);
template <class Rule>
void run_sparse(const Entry& entry, const Rule& rule, kernels::GradientUse use,
                std::span<std::byte> scratch);
std::size_t sparse_squares_scratch(const Entry& entry);
double sparse_squares(const Entry& entry, std::span<std::byte> scratch);  // of the whole gradient
void run_lazy(const Entry& entry, const kernels::LazyAdamRule& rule, kernels::GradientUse use);

// Adafactor keeps rows and columns of what has two axes or more.
inline bool factored(const Spec& param) { return param.rank() >= 2; }

double sum_of_squares(const Entry& entry, std::span<std::byte> scratch);  // of the gradient
std::size_t sum_of_squares_scratch(const Spec& gradient);

}  // namespace ebb::optim
