#include "ebb/optim/sparse_update.hpp"

#include <fmt/core.h>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"

namespace ebb::ops {

using At = SparseUpdateInputs;

template <class Rule, int kSlots>
std::array<Spec, SparseUpdate<Rule, kSlots>::kOutputs> SparseUpdate<Rule, kSlots>::shape(
    Specs in) const {
  constexpr const char* kApart = "{}: indices, rows and parameter do not go together";
  if (in.size() != At::param + kOutputs) throw Error(fmt::format(kApart, name));
  const Spec &indices = in[At::indices], &rows = in[At::rows], &param = in[At::param];
  if (param.rank() == 0 || rows.dtype != param.dtype ||
      rows.size() != indices.size() * static_cast<std::int64_t>(optim::row_width(param)))
    throw Error(fmt::format(kApart, name));
  std::array<Spec, kOutputs> out;
  out.fill(param);
  return out;
}

template <class Rule, int kSlots>
Cost SparseUpdate<Rule, kSlots>::cost(Specs in) const {
  const double all = static_cast<double>(in[At::param].size());
  const double some = static_cast<double>(in[At::rows].size());
  const double touched = std::is_same_v<Rule, kernels::AdamRule> ? all : some;
  const auto element = static_cast<double>(size_of(in[At::param].dtype));
  return {12 * touched, (2.0 * kOutputs * touched + 3 * some) * element};
}

template <class Rule, int kSlots>
std::size_t SparseUpdate<Rule, kSlots>::scratch(Specs in) const {
  const optim::Entry entry{
      .spec = &in[At::param], .grad_type = in[At::rows].dtype, .index_spec = &in[At::indices]};
  return optim::sparse_scratch({&entry, 1});
}

template <class Rule, int kSlots>
void SparseUpdate<Rule, kSlots>::run(Ins in, Outs out, Scratch scratch) const {
  optim::Entry entry{.spec = in[At::param].spec,
                     .grad_type = in[At::rows].dtype(),
                     .param = out[UpdateOutputs::param].as<std::byte>(),
                     .grad = in[At::rows].as<std::byte>(),
                     .index_spec = in[At::indices].spec,
                     .indices = in[At::indices].as<std::byte>()};
  optim::check_indices(name, entry);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (const In& old = in[At::param + i]; out[i].data != old.data)
      std::memcpy(out[i].data, old.data, out[i].spec->bytes());
  const double scale = *in[At::scale].as<double>();
  if (scale == 0) return;
  Rule rule;
  std::memcpy(&rule, in[At::rule].data, sizeof rule);
  for (std::size_t k = 0; k < kSlots; ++k)
    entry.state[k] = out[UpdateOutputs::state(false, k)].as<std::byte>();
  optim::run_rule({&entry, 1}, rule, {scale, clip_value}, scratch);
}

#define EBB_SPARSE_OP(Rule, slots)                 \
  static_assert(optim::takes_sparse<Rule>(slots)); \
  template struct SparseUpdate<Rule, slots>;
EBB_SPARSE_UPDATES(EBB_SPARSE_OP)
#undef EBB_SPARSE_OP

namespace {

optim::Entry sparse_only(const Spec& table, const Spec& indices, const std::byte* ids,
                         const std::byte* rows) {
  return {.spec = &table,
          .grad_type = table.dtype,
          .grad = rows,
          .index_spec = &indices,
          .indices = ids};
}

}  // namespace

Spec SparseSumOfSquares::shape(const Spec& indices, const Spec& rows) const {
  const Spec whole{table, rows.dtype};
  if (table.rank() == 0 ||
      rows.size() != indices.size() * static_cast<std::int64_t>(optim::row_width(whole)))
    throw Error(fmt::format("{}: indices {} and rows {} do not go with a table {}", name,
                            to_string(indices), to_string(rows), to_string(whole)));
  return {{}, DType::f64};
}

Cost SparseSumOfSquares::cost(const Spec&, const Spec& rows) const {
  return {3.0 * static_cast<double>(rows.size()), 3.0 * static_cast<double>(rows.bytes())};
}

std::size_t SparseSumOfSquares::scratch(const Spec& indices, const Spec& rows) const {
  const Spec whole{table, rows.dtype};
  return optim::sparse_squares_scratch(sparse_only(whole, indices, nullptr, nullptr));
}

void SparseSumOfSquares::run(In indices, In rows, Out sum, Scratch scratch) const {
  const Spec whole{table, rows.dtype()};
  const optim::Entry entry =
      sparse_only(whole, *indices.spec, indices.as<std::byte>(), rows.as<std::byte>());
  optim::check_indices(name, entry);
  *sum.as<double>() = optim::sparse_squares(entry, scratch);
}

std::optional<AnyOp> sparse_form(const AnyOp& update, const Spec& param, const Spec& indices) {
#define EBB_SPARSE_FORM(Rule, slots)                                               \
  if (&update.type() == &op_type<Update<Rule, slots>>()) {                         \
    constexpr bool kLazy = std::is_same_v<Rule, kernels::LazyAdamRule>;            \
    if (indices.size() > optim::most_sparse_rows(param, kLazy)) return {};         \
    const SparseUpdate<Rule, slots> op{                                            \
        static_cast<const Update<Rule, slots>*>(update.attributes())->clip_value}; \
    return AnyOp(op_type<SparseUpdate<Rule, slots>>(), &op);                       \
  }
  EBB_SPARSE_UPDATES(EBB_SPARSE_FORM)
#undef EBB_SPARSE_FORM
  return {};
}

bool is_sparse_update(const AnyOp& op) {
#define EBB_IS_SPARSE(Rule, slots) \
  if (&op.type() == &op_type<SparseUpdate<Rule, slots>>()) return true;
  EBB_SPARSE_UPDATES(EBB_IS_SPARSE)
#undef EBB_IS_SPARSE
  return false;
}

}  // namespace ebb::ops
