// The update rules: what each of them keeps, and its numbers for a step.
#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <iterator>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/optim/optimizer.hpp"

namespace ebb::optim {
namespace {

void check_unit(const char* what, double value) {
  if (!(value >= 0 && value < 1))
    throw Error(fmt::format("optimizer: {} is {}, expected at least 0 and below 1", what, value));
}

void check_decay(double value) {
  if (!(value >= 0))
    throw Error(fmt::format("optimizer: weight_decay is {}, expected 0 or more", value));
}

auto always(std::vector<const char*> slots) {
  return [slots = std::move(slots)](const Spec&) { return slots; };
}

// The momentum buffer is there only where there is momentum.
auto with_momentum(std::vector<const char*> slots, double momentum) {
  if (momentum > 0) slots.push_back("momentum");
  return always(std::move(slots));
}

template <class Op>
std::vector<Tensor> updated(double clip_value, std::span<const Tensor* const> in) {
  auto out = ops::apply_all(Op{clip_value}, in);
  if constexpr (std::is_same_v<decltype(out), Tensor>) {
    return {std::move(out)};
  } else {
    return {std::make_move_iterator(out.begin()), std::make_move_iterator(out.end())};
  }
}

}  // namespace

template <class Rule>
RuleOptimizer<Rule>::RuleOptimizer(const char* name, std::vector<Variable> params,
                                   const Common& common,
                                   std::function<std::vector<const char*>(const Spec&)> slots)
    : Optimizer(name, std::move(params), common,
                {std::move(slots), &state_spec<Rule>, &takes<Rule>}) {}

template <class Rule>
std::int64_t RuleOptimizer<Rule>::most_rows(const Spec& param, std::size_t slots) const {
  return takes_rows<Rule>(slots) ? optim::most_rows(param, lazy_) : 0;
}

template <class Rule>
std::size_t RuleOptimizer<Rule>::scratch_bytes(std::span<const Entry> entries) const {
  return rule_scratch<Rule>(entries);
}

template <class Rule>
void RuleOptimizer<Rule>::update(std::span<const Entry> entries, kernels::GradientUse use,
                                 const Numbers& numbers, std::span<std::byte> scratch) const {
  if constexpr (std::is_same_v<Rule, kernels::AdamRule>)
    if (lazy_) return run_rule(entries, kernels::LazyAdamRule{rule(numbers)}, use, scratch);
  run_rule(entries, rule(numbers), use, scratch);
}

template <class Rule>
void RuleOptimizer<Rule>::write_rule(std::span<std::byte> to, const Numbers& numbers) const {
  const Rule now = rule(numbers);
  std::memcpy(to.data(), &now, sizeof now);
}

namespace {

// The op of a rule for these inputs.
template <class Rule>
std::vector<Tensor> updated_by(std::span<const Tensor* const> in, double clip_value, bool master) {
  constexpr bool kSgd = std::is_same_v<Rule, kernels::SgdRule>;
  constexpr bool kFactored = std::is_same_v<Rule, kernels::AdafactorRule>;
  constexpr int kLeast = kSgd ? 0 : std::is_base_of_v<kernels::AdamRule, Rule> ? 2 : 1;
  // These have one more with momentum, or with columns.
  constexpr bool kMore = kSgd || kFactored || std::is_same_v<Rule, kernels::RmspropRule>;
  const std::size_t slots = in.size() - 4 - (master ? 1 : 0);
  if constexpr (kMore)
    if (slots == kLeast + 1) {
      if constexpr (!kFactored)
        if (master) return updated<ops::Update<Rule, kLeast + 1, true>>(clip_value, in);
      return updated<ops::Update<Rule, kLeast + 1>>(clip_value, in);
    }
  if constexpr (!kFactored)
    if (master) return updated<ops::Update<Rule, kLeast, true>>(clip_value, in);
  return updated<ops::Update<Rule, kLeast>>(clip_value, in);
}

}  // namespace

template <class Rule>
std::vector<Tensor> RuleOptimizer<Rule>::update(std::span<const Tensor* const> in,
                                                double clip_value, bool master) const {
  if constexpr (std::is_same_v<Rule, kernels::AdamRule>)
    if (lazy_) return updated_by<kernels::LazyAdamRule>(in, clip_value, master);
  return updated_by<Rule>(in, clip_value, master);
}

template class RuleOptimizer<kernels::SgdRule>;
template class RuleOptimizer<kernels::AdamRule>;
template class RuleOptimizer<kernels::RmspropRule>;
template class RuleOptimizer<kernels::AdagradRule>;
template class RuleOptimizer<kernels::LionRule>;
template class RuleOptimizer<kernels::Adam8Rule>;
template class RuleOptimizer<kernels::AdafactorRule>;

Sgd::Sgd(std::vector<Variable> params, SgdOptions o)
    : RuleOptimizer("sgd", std::move(params),
                    {o.lr, o.weight_decay, o.half, o.groups}, with_momentum({}, o.momentum)),
      options_(o) {
  check_unit("momentum", o.momentum);
  check_decay(o.weight_decay);
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    throw Error("sgd: nesterov needs momentum above 0 and no dampening");
}

kernels::SgdRule Sgd::rule(const Numbers& n) const {
  return {n.lr,       options_.momentum, options_.dampening, n.weight_decay, options_.nesterov,
          n.step == 1};
}

namespace {

template <bool kDecoupled>
void check(const AdamOptionsOf<kDecoupled>& o) {
  check_unit("beta1", o.beta1);
  check_unit("beta2", o.beta2);
  check_decay(o.weight_decay);
}

template <bool kDecoupled>
kernels::AdamRule adam_rule(const AdamOptionsOf<kDecoupled>& o, double lr, double weight_decay,
                            std::int64_t step) {
  const auto t = static_cast<double>(step);
  return {lr,         o.beta1, o.beta2, o.eps, weight_decay, 1 - std::pow(o.beta1, t),
          1 - std::pow(o.beta2, t), kDecoupled};
}

}  // namespace

template <bool kDecoupled>
AdamOf<kDecoupled>::AdamOf(std::vector<Variable> params, AdamOptionsOf<kDecoupled> o)
    : RuleOptimizer(kDecoupled ? "adamw" : "adam", std::move(params),
                    {o.lr, o.weight_decay, o.half, o.groups}, always({"m", "v"})),
      options_(o) {
  check(o);
  lazy_ = o.lazy;
}

template <bool kDecoupled>
kernels::AdamRule AdamOf<kDecoupled>::rule(const Numbers& n) const {
  return adam_rule(options_, n.lr, n.weight_decay, n.step);
}

template class AdamOf<false>;
template class AdamOf<true>;

AdamW8bit::AdamW8bit(std::vector<Variable> params, AdamWOptions o)
    : RuleOptimizer("adamw_8bit", std::move(params),
                    {o.lr, o.weight_decay, o.half, o.groups}, always({"mv"})),
      options_(o) {
  check(o);
  if (o.lazy)
    throw Error("adamw_8bit: it has no lazy form; a block of its state holds more than one row");
}

kernels::Adam8Rule AdamW8bit::rule(const Numbers& n) const {
  return {adam_rule(options_, n.lr, n.weight_decay, n.step), n.step};
}

Rmsprop::Rmsprop(std::vector<Variable> params, RmspropOptions o)
    : RuleOptimizer("rmsprop", std::move(params),
                    {o.lr, o.weight_decay, o.half, o.groups}, with_momentum({"v"}, o.momentum)),
      options_(o) {
  check_unit("alpha", o.alpha);
  check_unit("momentum", o.momentum);
  check_decay(o.weight_decay);
}

kernels::RmspropRule Rmsprop::rule(const Numbers& n) const {
  return {n.lr, options_.alpha, options_.eps, n.weight_decay, options_.momentum};
}

Adagrad::Adagrad(std::vector<Variable> params, AdagradOptions o)
    : RuleOptimizer("adagrad", std::move(params),
                    {o.lr, o.weight_decay, o.half, o.groups}, always({"sum"})),
      options_(o) {
  check_decay(o.weight_decay);
}

kernels::AdagradRule Adagrad::rule(const Numbers& n) const {
  return {n.lr, options_.eps, n.weight_decay};
}

Lion::Lion(std::vector<Variable> params, LionOptions o)
    : RuleOptimizer("lion", std::move(params),
                    {o.lr, o.weight_decay, o.half, o.groups}, always({"m"})),
      options_(o) {
  check_unit("beta1", o.beta1);
  check_unit("beta2", o.beta2);
  check_decay(o.weight_decay);
}

kernels::LionRule Lion::rule(const Numbers& n) const {
  return {n.lr, options_.beta1, options_.beta2, n.weight_decay};
}

Adafactor::Adafactor(std::vector<Variable> params, AdafactorOptions o)
    : RuleOptimizer("adafactor", std::move(params), {o.lr, o.weight_decay, {}, o.groups},
                    [](const Spec& param) -> std::vector<const char*> {
                      if (factored(param)) return {"row", "col"};
                      return {"v"};
                    }),
      options_(o) {
  if (!(o.beta2_decay < 0))
    throw Error(fmt::format("adafactor: beta2_decay is {}, expected below 0", o.beta2_decay));
  if (!(o.eps1 > 0 && o.eps2 >= 0 && o.clip > 0))
    throw Error(fmt::format("adafactor: eps1, eps2 and clip are {}, {} and {}, expected above 0",
                            o.eps1, o.eps2, o.clip));
  check_decay(o.weight_decay);
}

kernels::AdafactorRule Adafactor::rule(const Numbers& n) const {
  const auto t = static_cast<double>(n.step);
  const double rate = options_.decaying ? std::min(n.lr, 1 / std::sqrt(t)) : n.lr;
  return {n.lr,
          rate,
          1 - std::pow(t, options_.beta2_decay),
          options_.eps1,
          options_.eps2,
          options_.clip,
          n.weight_decay,
          options_.relative};
}

}  // namespace ebb::optim
