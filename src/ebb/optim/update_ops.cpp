#include "ebb/optim/update_ops.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"

namespace ebb::ops {
namespace {

const Spec kNumber{Shape{}, DType::f64};

optim::Entry gradient_only(const Spec& spec, const void* data) {
  return {.spec = &spec, .grad_type = spec.dtype, .grad = static_cast<const std::byte*>(data)};
}

}  // namespace

Spec SumOfSquares::shape(const Spec& g) const {
  if (!is_float(g.dtype))
    throw Error(fmt::format("{}: the gradient is {}; expected floats", name, to_string(g)));
  return kNumber;
}

Cost SumOfSquares::cost(const Spec& g) const {
  return {2.0 * static_cast<double>(g.size()), static_cast<double>(g.bytes())};
}

std::size_t SumOfSquares::scratch(const Spec& g) const { return optim::sum_of_squares_scratch(g); }

void SumOfSquares::run(In g, Out sum, Scratch scratch) const {
  *sum.as<double>() = optim::sum_of_squares(gradient_only(*g.spec, g.data), scratch);
}

std::array<Spec, 2> StepScale::shape(Specs in) const {
  if (in.empty() || (in[0] != Spec{{}, DType::i64} && in[0] != kNumber))
    throw Error(fmt::format("{}: the first input is {}, expected the count, i64()", name,
                            in.empty() ? "missing" : to_string(in[0])));
  if (loss_scaled && (in.size() < 2 || in[1] != Spec{{}, DType::f32}))
    throw Error(fmt::format("{}: the second input is {}, expected the loss scale, f32()", name,
                            in.size() < 2 ? "missing" : to_string(in[1])));
  const std::size_t first = before_squares();
  if (in.size() < first ||
      (bad != BadLoss::allow && (in[first - 2].rank() > 0 || !is_float(in[first - 2].dtype) ||
                                 in[first - 1] != Spec{{}, DType::i64})))
    throw Error(fmt::format("{}: expected a loss's sum and the number of the step", name));
  for (const Spec& s : in.subspan(first))
    if (s != kNumber)
      throw Error(fmt::format("{}: a sum of squares is {}, expected f64()", name, to_string(s)));
  return {kNumber, kNumber};
}

Cost StepScale::cost(Specs in) const {
  return {static_cast<double>(in.size()), 8.0 * static_cast<double>(in.size())};
}

StepScale::Result StepScale::of(double sum, double count, double loss_scale) const {
  const double norm = std::sqrt(sum) / count / loss_scale;
  if (!std::isfinite(norm)) return {0, norm};
  const double scale = 1 / count / loss_scale;
  return {norm > clip_norm ? scale * (clip_norm / norm) : scale, norm};
}

void StepScale::refuse(double sum, double count, std::int64_t step) {
  throw Error(fmt::format(
      "optimizer: the loss of step {} is {} (a sum of {} over {}); nothing has changed. Look at "
      "the "
      "batch, lower the rate or clip the gradient; BadLoss::skip leaves such steps out, "
      "BadLoss::allow takes them",
      step, sum / count, sum, count));
}

void StepScale::run(Ins in, Out scale, Out norm, Scratch) const {
  const double count = in[0].dtype() == DType::f64 ? *in[0].as<double>()
                                                   : static_cast<double>(*in[0].as<std::int64_t>());
  if (bad != BadLoss::allow) {
    const In& loss = in[before_squares() - 2];
    const double sum = loss.dtype() == DType::f64 ? *loss.as<double>() : double{*loss.as<float>()};
    if (!std::isfinite(sum) && bad == BadLoss::stop)
      refuse(sum, count, *in[before_squares() - 1].as<std::int64_t>());
    if (!std::isfinite(sum)) {
      *norm.as<double>() = std::numeric_limits<double>::quiet_NaN();
      *scale.as<double>() = 0;
      return;
    }
  }
  if (!(count > 0))
    throw Error(fmt::format(
        "optimizer: the loss counts {} examples; there is nothing to learn from", count));
  double sum = 0;
  for (const In& s : in.subspan(before_squares())) sum += *s.as<double>();
  const Result r = of(sum, count, loss_scaled ? *in[1].as<float>() : 1);
  *norm.as<double>() = r.norm;
  *scale.as<double>() = r.scale;
}

template <class Rule, int kSlots, bool kMaster>
std::array<Spec, Update<Rule, kSlots, kMaster>::kOutputs> Update<Rule, kSlots, kMaster>::shape(
    Specs in) const {
  using At = UpdateInputs;
  constexpr std::size_t kInputs = At::param + kOutputs;
  if (in.size() != kInputs)
    throw Error(fmt::format("{}: {} inputs were given, expected {}", name, in.size(), kInputs));
  const Spec rule{{sizeof(Rule)}, DType::u8};
  if (in[At::rule] != rule || in[At::scale] != kNumber)
    throw Error(fmt::format("{}: rule and scale are {} and {}, expected {} and {}", name,
                            to_string(in[At::rule]), to_string(in[At::scale]), to_string(rule),
                            to_string(kNumber)));
  const Spec& param = in[At::param];
  if (!optim::takes<Rule>(param.dtype) || (kMaster && !is_half(param.dtype)))
    throw Error(
        fmt::format("{}: the parameter is {}, which it does not take", name, to_string(param)));
  const Spec wide{param.shape, optim::working_type(param.dtype)};
  if (in[At::gradient] != param && in[At::gradient] != wide)
    throw Error(fmt::format("{}: gradient or state is {}, the parameter {}", name,
                            to_string(in[At::gradient]), to_string(param)));
  std::array<Spec, kOutputs> out;
  out[UpdateOutputs::param] = param;
  if constexpr (kMaster) out[UpdateOutputs::master] = wide;
  for (int k = 0; k < kSlots; ++k)
    out[UpdateOutputs::state(kMaster, static_cast<std::size_t>(k))] =
        optim::state_spec<Rule>(param, k, kSlots);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (in[At::param + i] != out[i])
      throw Error(fmt::format("{}: gradient or state is {}, the parameter {}", name,
                              to_string(in[At::param + i]), to_string(param)));
  return out;
}

template <class Rule, int kSlots, bool kMaster>
Cost Update<Rule, kSlots, kMaster>::cost(Specs in) const {
  double bytes = static_cast<double>(in[UpdateInputs::gradient].bytes());
  for (const Spec& s : in.subspan(UpdateInputs::param))
    bytes += 2.0 * static_cast<double>(s.bytes());
  return {12.0 * static_cast<double>(in[UpdateInputs::param].size()), bytes};
}

template <class Rule, int kSlots, bool kMaster>
std::size_t Update<Rule, kSlots, kMaster>::scratch(Specs in) const {
  const optim::Entry entry{.spec = &in[UpdateInputs::param],
                           .grad_type = in[UpdateInputs::gradient].dtype};
  return optim::rule_scratch<Rule>({&entry, 1});
}

template <class Rule, int kSlots, bool kMaster>
void Update<Rule, kSlots, kMaster>::run(Ins in, Outs out, Scratch scratch) const {
  const In &param = in[UpdateInputs::param], &gradient = in[UpdateInputs::gradient];
  for (std::size_t i = 0; i < out.size(); ++i)
    if (const In& old = in[UpdateInputs::param + i]; out[i].data != old.data)
      std::memcpy(out[i].data, old.data, out[i].spec->bytes());
  const double scale = *in[UpdateInputs::scale].as<double>();
  if (scale == 0) return;
  Rule rule;
  std::memcpy(&rule, in[UpdateInputs::rule].data, sizeof rule);
  optim::Entry entry{.spec = param.spec,
                     .grad_type = gradient.dtype(),
                     .param = out[UpdateOutputs::param].as<std::byte>(),
                     .grad = gradient.as<std::byte>()};
  if constexpr (kMaster) entry.master = out[UpdateOutputs::master].as<std::byte>();
  for (std::size_t k = 0; k < kSlots; ++k)
    entry.state[k] = out[UpdateOutputs::state(kMaster, k)].as<std::byte>();
  optim::run_rule({&entry, 1}, rule, {scale, clip_value}, scratch);
}

#define EBB_UPDATE_OP(Rule, slots, text) template struct Update<Rule, slots>;
#define EBB_MASTER_OP(Rule, slots, text) template struct Update<Rule, slots, true>;
EBB_ELEMENT_UPDATES(EBB_UPDATE_OP)
EBB_ELEMENT_UPDATES(EBB_MASTER_OP)
EBB_FACTORED_UPDATES(EBB_UPDATE_OP)
#undef EBB_UPDATE_OP
#undef EBB_MASTER_OP

Spec Ema::shape(const Spec& rule, const Spec& value, const Spec& average) const {
  if (rule != Spec{{sizeof(kernels::EmaRule)}, DType::u8} || !is_float(value.dtype) ||
      average != Spec{value.shape, optim::working_type(value.dtype)})
    throw Error(fmt::format("{}: rule, value and average are {}, {} and {}", name, to_string(rule),
                            to_string(value), to_string(average)));
  return average;
}

Cost Ema::cost(const Spec&, const Spec& value, const Spec& average) const {
  return {3.0 * static_cast<double>(value.size()),
          static_cast<double>(value.bytes() + 2 * average.bytes())};
}

void Ema::run(In rule_bytes, In value, In average, Out out, Scratch) const {
  if (out.data != average.data) std::memcpy(out.data, average.data, out.spec->bytes());
  kernels::EmaRule rule;
  std::memcpy(&rule, rule_bytes.data, sizeof rule);
  const optim::Entry entry{.spec = out.spec,
                           .grad_type = value.dtype(),
                           .param = out.as<std::byte>(),
                           .grad = value.as<std::byte>()};
  optim::run_rule({&entry, 1}, rule, {}, {});
}

std::optional<std::size_t> cut_from(const OpType& update) {
  if (&update == &op_type<Ema>()) return EmaInputs::value;
    // 8 bits of state are packed: a piece of it is not a piece of each of its arrays. The lazy rule
    // looks at whole rows.
#define EBB_CUT(Rule, slots, text)                                                                 \
  if (!std::is_same_v<Rule, kernels::Adam8Rule> && !std::is_same_v<Rule, kernels::LazyAdamRule> && \
      (&update == &op_type<Update<Rule, slots>>() ||                                               \
       &update == &op_type<Update<Rule, slots, true>>()))                                          \
    return UpdateInputs::gradient;
  EBB_ELEMENT_UPDATES(EBB_CUT)
#undef EBB_CUT
  return {};
}

}  // namespace ebb::ops
