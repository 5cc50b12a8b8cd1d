#include "ebb/optim/sparse_update.hpp"

#include <fmt/core.h>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"

namespace ebb::ops {

#define EBB_SPARSE_NAME(Rule, slots, text) \
  template <>                              \
  const char* const SparseUpdate<Rule, slots>::name = text;
EBB_SPARSE_UPDATES(EBB_SPARSE_NAME)
#undef EBB_SPARSE_NAME

template <class Rule, int kSlots>
std::array<Spec, SparseUpdate<Rule, kSlots>::kOutputs> SparseUpdate<Rule, kSlots>::shape(
    Specs in) const {
  if (in.size() != 4u + kOutputs || in[4].rank() == 0 || in[3].dtype != in[4].dtype ||
      in[3].size() != in[2].size() * static_cast<std::int64_t>(optim::row_width(in[4])))
    throw Error(fmt::format("{}: indices, rows and parameter do not go together", name));
  std::array<Spec, kOutputs> out;
  out.fill(in[4]);
  return out;
}

template <class Rule, int kSlots>
Cost SparseUpdate<Rule, kSlots>::cost(Specs in) const {
  const double all = static_cast<double>(in[4].size()), some = static_cast<double>(in[3].size());
  const double touched = std::is_same_v<Rule, kernels::AdamRule> ? all : some;
  const auto element = static_cast<double>(size_of(in[4].dtype));
  return {12 * touched, (2.0 * kOutputs * touched + 3 * some) * element};
}

template <class Rule, int kSlots>
std::size_t SparseUpdate<Rule, kSlots>::scratch(Specs in) const {
  const optim::Entry entry{&in[4], in[3].dtype, nullptr, nullptr, nullptr, {}, &in[2], nullptr};
  return optim::rows_scratch({&entry, 1});
}

template <class Rule, int kSlots>
void SparseUpdate<Rule, kSlots>::update(Ins in, Outs out, Scratch scratch) const {
  optim::Entry entry{in[4].spec, in[3].dtype(), out[0].as<std::byte>(), in[3].as<std::byte>(),
                     nullptr,    {},            in[2].spec,             in[2].as<std::byte>()};
  optim::check_rows(name, entry);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].data != in[4 + i].data)
      std::memcpy(out[i].data, in[4 + i].data, out[i].spec->bytes());
  const double scale = *in[1].as<double>();
  if (scale == 0) return;
  Rule rule;
  std::memcpy(&rule, in[0].data, sizeof rule);
  for (std::size_t k = 1; k < out.size(); ++k) entry.state[k - 1] = out[k].as<std::byte>();
  optim::run_rule({&entry, 1}, rule, {scale, clip_value}, scratch);
}

#define EBB_SPARSE_OP(Rule, slots, text)        \
  static_assert(optim::takes_rows<Rule>(slots)); \
  template struct SparseUpdate<Rule, slots>;
EBB_SPARSE_UPDATES(EBB_SPARSE_OP)
#undef EBB_SPARSE_OP

namespace {

optim::Entry rows_only(const Spec& table, const Spec& indices, const std::byte* ids,
                       const std::byte* rows) {
  return {&table, table.dtype, nullptr, rows, nullptr, {}, &indices, ids};
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
  return optim::rows_squares_scratch(rows_only(whole, indices, nullptr, nullptr));
}

void SparseSumOfSquares::run(In indices, In rows, Out sum, Scratch scratch) const {
  const Spec whole{table, rows.dtype()};
  const optim::Entry entry =
      rows_only(whole, *indices.spec, indices.as<std::byte>(), rows.as<std::byte>());
  optim::check_rows(name, entry);
  *sum.as<double>() = optim::rows_squares(entry, scratch);
}

std::optional<AnyOp> sparse_form(const AnyOp& update, const Spec& param, const Spec& indices) {
#define EBB_SPARSE_FORM(Rule, slots, text)                                                   \
  if (&update.type() == &op_type<Update<Rule, slots>>()) {                                   \
    constexpr bool kLazy = std::is_same_v<Rule, kernels::LazyAdamRule>;                      \
    if (indices.size() > optim::most_rows(param, kLazy)) return {};                          \
    const SparseUpdate<Rule, slots> op{                                                      \
        static_cast<const Update<Rule, slots>*>(update.attributes())->clip_value};           \
    return AnyOp(op_type<SparseUpdate<Rule, slots>>(), &op);                                 \
  }
  EBB_SPARSE_UPDATES(EBB_SPARSE_FORM)
#undef EBB_SPARSE_FORM
  return {};
}

}  // namespace ebb::ops
