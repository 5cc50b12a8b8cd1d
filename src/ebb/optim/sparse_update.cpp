#include "ebb/optim/sparse_update.hpp"

#include <fmt/core.h>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/kernels/index.hpp"
#include "ebb/kernels/update_rows.hpp"
#include "ebb/ops/apply.hpp"

namespace ebb::ops {
namespace {

// Rows of gradient for each row of the table above which the whole gradient is as quick.
constexpr std::int64_t kSparse = 4;

std::size_t width_of(const Spec& param) {
  return param.shape[0] == 0 ? 0 : static_cast<std::size_t>(param.size() / param.shape[0]);
}

template <class F>
void with_index(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i32:
      return f(std::int32_t{});
    case DType::u8:
      return f(std::uint8_t{});
    default:
      return f(std::int64_t{});
  }
}

}  // namespace

#define EBB_SPARSE_NAME(Rule, slots, text) \
  template <>                              \
  const char* const SparseUpdate<Rule, slots>::name = text;
EBB_SPARSE_UPDATES(EBB_SPARSE_NAME)
#undef EBB_SPARSE_NAME

template <class Rule, int kSlots>
std::array<Spec, SparseUpdate<Rule, kSlots>::kOutputs> SparseUpdate<Rule, kSlots>::shape(
    Specs in) const {
  if (in.size() != 4u + kOutputs || in[4].rank() == 0 || in[3].dtype != in[4].dtype ||
      in[3].size() != in[2].size() * static_cast<std::int64_t>(width_of(in[4])))
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
  return kernels::update_rows_scratch(static_cast<std::size_t>(in[2].size()), width_of(in[4]),
                                      size_of(in[4].dtype));
}

template <class Rule, int kSlots>
void SparseUpdate<Rule, kSlots>::update(Ins in, Outs out, Scratch scratch) const {
  const Spec& param = *in[4].spec;
  const auto count = static_cast<std::size_t>(in[2].size());
  with_index(in[2].dtype(), [&](auto zero) {
    using I = decltype(zero);
    const I* indices = in[2].as<I>();
    const std::int64_t bad = kernels::first_out_of_range(indices, count, param.shape[0]);
    if (bad >= 0)
      throw Error(fmt::format("{}: index {} at position {} is out of range for {}", name,
                              static_cast<std::int64_t>(indices[bad]), bad, to_string(param)));
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i].data != in[4 + i].data)
        std::memcpy(out[i].data, in[4 + i].data, out[i].spec->bytes());
    const double scale = *in[1].as<double>();
    if (scale == 0) return;
    Rule rule;
    std::memcpy(&rule, in[0].data, sizeof rule);
    const auto run = [&](auto element) {
      using T = decltype(element);
      kernels::RowsUpdate<T, I> table{out[0].as<T>(), {}, indices, in[3].as<T>(), count,
                                      static_cast<std::size_t>(param.shape[0]), width_of(param)};
      for (std::size_t k = 1; k < out.size(); ++k) table.state[k - 1] = out[k].as<T>();
      kernels::update_rows(table, rule, {scale, clip_value}, scratch);
    };
    param.dtype == DType::f64 ? run(double{}) : run(float{});
  });
}

#define EBB_SPARSE_OP(Rule, slots, text) template struct SparseUpdate<Rule, slots>;
EBB_SPARSE_UPDATES(EBB_SPARSE_OP)
#undef EBB_SPARSE_OP

std::optional<AnyOp> sparse_form(const AnyOp& update, const Spec& param, const Spec& indices) {
  const bool floats = param.dtype == DType::f32 || param.dtype == DType::f64;
  if (!floats || param.rank() == 0 || param.shape[0] >> 32 != 0 ||
      indices.size() * kSparse > param.shape[0])
    return {};
#define EBB_SPARSE_FORM(Rule, slots, text)                                                   \
  if (&update.type() == &op_type<Update<Rule, slots>>()) {                                   \
    const SparseUpdate<Rule, slots> op{                                                      \
        static_cast<const Update<Rule, slots>*>(update.attributes())->clip_value};           \
    return AnyOp(op_type<SparseUpdate<Rule, slots>>(), &op);                                 \
  }
  EBB_SPARSE_UPDATES(EBB_SPARSE_FORM)
#undef EBB_SPARSE_FORM
  return {};
}

}  // namespace ebb::ops
