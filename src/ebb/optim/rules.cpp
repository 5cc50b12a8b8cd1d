// The update rules: what each of them keeps, and its numbers for a step.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/optim/optimizer_core.hpp"
#include "ebb/optim/update_ops.hpp"

namespace ebb::optim {
namespace {

using Numbers = Rule::Numbers;
using Slots = std::function<std::vector<const char*>(const Spec& param)>;

template <class Op>
std::vector<Tensor> updated(double clip_value, std::span<const Tensor* const> in) {
  auto out = ops::apply_all(Op{clip_value}, in);
  if constexpr (std::is_same_v<decltype(out), Tensor>) {
    return {std::move(out)};
  } else {
    return {std::make_move_iterator(out.begin()), std::make_move_iterator(out.end())};
  }
}

// The op of a kernel's rule for these inputs.
template <class Kernel>
std::vector<Tensor> updated_by(std::span<const Tensor* const> in, double clip_value, bool master) {
  constexpr bool kSgd = std::is_same_v<Kernel, kernels::SgdRule>;
  constexpr bool kFactored = std::is_same_v<Kernel, kernels::AdafactorRule>;
  constexpr int kLeast = kSgd ? 0 : std::is_base_of_v<kernels::AdamRule, Kernel> ? 2 : 1;
  // These have one more with momentum, or with columns.
  constexpr bool kMore = kSgd || kFactored || std::is_same_v<Kernel, kernels::RmspropRule>;
  const std::size_t slots =
      in.size() - ops::UpdateInputs::param - ops::UpdateOutputs::state(master, 0);
  if constexpr (kMore)
    if (slots == kLeast + 1) {
      if constexpr (!kFactored)
        if (master) return updated<ops::Update<Kernel, kLeast + 1, true>>(clip_value, in);
      return updated<ops::Update<Kernel, kLeast + 1>>(clip_value, in);
    }
  if constexpr (!kFactored)
    if (master) return updated<ops::Update<Kernel, kLeast, true>>(clip_value, in);
  return updated<ops::Update<Kernel, kLeast>>(clip_value, in);
}

// A kernel's rule, which `fill` fills in for a step. AdamRule may be lazy: LazyAdamRule in its place.
template <class Kernel>
class KernelRule final : public Rule {
 public:
  using Fill = std::function<Kernel(const Numbers&)>;
  KernelRule(Slots slots, Fill fill, bool lazy)
      : slots_(std::move(slots)), fill_(std::move(fill)), lazy_(lazy) {}

  bool takes(DType param) const override { return optim::takes<Kernel>(param); }
  std::vector<const char*> slots(const Spec& param) const override { return slots_(param); }
  Spec slot_spec(const Spec& param, int index, int slots) const override {
    return state_spec<Kernel>(param, index, slots);
  }
  std::int64_t most_sparse_rows(const Spec& param, std::size_t slots) const override {
    return takes_sparse<Kernel>(slots) ? optim::most_sparse_rows(param, lazy_) : 0;
  }

  std::size_t scratch_bytes(std::span<const Entry> entries) const override {
    return rule_scratch<Kernel>(entries);
  }
  void run(std::span<const Entry> entries, kernels::GradientUse use, const Numbers& numbers,
           std::span<std::byte> scratch) const override {
    if constexpr (std::is_same_v<Kernel, kernels::AdamRule>)
      if (lazy_) return run_rule(entries, kernels::LazyAdamRule{fill_(numbers)}, use, scratch);
    run_rule(entries, fill_(numbers), use, scratch);
  }

  std::size_t bytes() const override { return sizeof(Kernel); }
  void write(std::span<std::byte> to, const Numbers& numbers) const override {
    const Kernel now = fill_(numbers);
    std::memcpy(to.data(), &now, sizeof now);
  }
  std::vector<Tensor> trace(std::span<const Tensor* const> in, double clip_value,
                            bool master) const override {
    if constexpr (std::is_same_v<Kernel, kernels::AdamRule>)
      if (lazy_) return updated_by<kernels::LazyAdamRule>(in, clip_value, master);
    return updated_by<Kernel>(in, clip_value, master);
  }

 private:
  Slots slots_;
  Fill fill_;
  bool lazy_;
};

template <class Kernel>
std::unique_ptr<const Rule> rule_of(Slots slots, typename KernelRule<Kernel>::Fill fill,
                                    bool lazy = false) {
  return std::make_unique<KernelRule<Kernel>>(std::move(slots), std::move(fill), lazy);
}

template <class Options>
std::shared_ptr<OptimizerCore> core_of(const char* name, std::unique_ptr<const Rule> rule,
                                       std::vector<Variable> params, const Options& o) {
  Half half;
  if constexpr (requires { o.half; }) half = o.half;
  return std::make_shared<OptimizerCore>(
      name, std::move(rule), std::move(params),
      OptimizerCore::Common{o.lr, o.weight_decay, half, o.groups});
}

Slots always(std::vector<const char*> slots) {
  return [slots = std::move(slots)](const Spec&) { return slots; };
}

// The momentum buffer is there only where there is momentum.
Slots with_momentum(std::vector<const char*> slots, double momentum) {
  if (momentum > 0) slots.push_back("momentum");
  return always(std::move(slots));
}

void check_unit(const char* what, double value) {
  if (!(value >= 0 && value < 1))
    throw Error(fmt::format("optimizer: {} is {}, expected at least 0 and below 1", what, value));
}

void check_decay(double value) {
  if (!(value >= 0))
    throw Error(fmt::format("optimizer: weight_decay is {}, expected 0 or more", value));
}

template <class Options>
void check_adam(const Options& o) {
  check_unit("beta1", o.beta1);
  check_unit("beta2", o.beta2);
  check_decay(o.weight_decay);
}

// Weight decay is added to the gradient, or decoupled from it.
template <class Options>
kernels::AdamRule adam_rule(const Options& o, const Numbers& n) {
  constexpr bool kDecoupled = std::is_same_v<Options, AdamWOptions>;
  const auto t = static_cast<double>(n.step);
  return {n.lr,
          o.beta1,
          o.beta2,
          o.eps,
          n.weight_decay,
          1 - std::pow(o.beta1, t),
          1 - std::pow(o.beta2, t),
          kDecoupled};
}

template <class Options>
std::unique_ptr<const Rule> adam(const Options& o) {
  return rule_of<kernels::AdamRule>(
      always({"m", "v"}), [o](const Numbers& n) { return adam_rule(o, n); }, o.lazy);
}

kernels::AdafactorRule adafactor_rule(const AdafactorOptions& o, const Numbers& n) {
  const auto t = static_cast<double>(n.step);
  const double rate = o.decaying ? std::min(n.lr, 1 / std::sqrt(t)) : n.lr;
  return {n.lr,           rate,      1 - std::pow(t, o.beta2_decay), o.eps1, o.eps2, o.clip,
          n.weight_decay, o.relative};
}

}  // namespace

Sgd::Sgd(std::vector<Variable> params, SgdOptions o)
    : Optimizer(core_of("sgd",
                        rule_of<kernels::SgdRule>(with_momentum({}, o.momentum),
                                                  [o](const Numbers& n) -> kernels::SgdRule {
                                                    return {n.lr,        o.momentum,
                                                            o.dampening, n.weight_decay,
                                                            o.nesterov,  n.step == 1};
                                                  }),
                        std::move(params), o)) {
  check_unit("momentum", o.momentum);
  check_decay(o.weight_decay);
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    throw Error("sgd: nesterov needs momentum above 0 and no dampening");
}

Adam::Adam(std::vector<Variable> params, AdamOptions o)
    : Optimizer(core_of("adam", adam(o), std::move(params), o)) {
  check_adam(o);
}

AdamW::AdamW(std::vector<Variable> params, AdamWOptions o)
    : Optimizer(core_of("adamw", adam(o), std::move(params), o)) {
  check_adam(o);
}

AdamW8bit::AdamW8bit(std::vector<Variable> params, AdamWOptions o)
    : Optimizer(core_of("adamw_8bit",
                        rule_of<kernels::Adam8Rule>(always({"mv"}),
                                                    [o](const Numbers& n) -> kernels::Adam8Rule {
                                                      return {adam_rule(o, n), n.step};
                                                    }),
                        std::move(params), o)) {
  check_adam(o);
  if (o.lazy)
    throw Error("adamw_8bit: it has no lazy form; a block of its state holds more than one row");
}

Rmsprop::Rmsprop(std::vector<Variable> params, RmspropOptions o)
    : Optimizer(core_of(
          "rmsprop",
          rule_of<kernels::RmspropRule>(with_momentum({"v"}, o.momentum),
                                        [o](const Numbers& n) -> kernels::RmspropRule {
                                          return {n.lr, o.alpha, o.eps, n.weight_decay, o.momentum};
                                        }),
          std::move(params), o)) {
  check_unit("alpha", o.alpha);
  check_unit("momentum", o.momentum);
  check_decay(o.weight_decay);
}

Adagrad::Adagrad(std::vector<Variable> params, AdagradOptions o)
    : Optimizer(
          core_of("adagrad",
                  rule_of<kernels::AdagradRule>(always({"sum"}),
                                                [o](const Numbers& n) -> kernels::AdagradRule {
                                                  return {n.lr, o.eps, n.weight_decay};
                                                }),
                  std::move(params), o)) {
  check_decay(o.weight_decay);
}

Lion::Lion(std::vector<Variable> params, LionOptions o)
    : Optimizer(
          core_of("lion",
                  rule_of<kernels::LionRule>(always({"m"}),
                                             [o](const Numbers& n) -> kernels::LionRule {
                                               return {n.lr, o.beta1, o.beta2, n.weight_decay};
                                             }),
                  std::move(params), o)) {
  check_unit("beta1", o.beta1);
  check_unit("beta2", o.beta2);
  check_decay(o.weight_decay);
}

Adafactor::Adafactor(std::vector<Variable> params, AdafactorOptions o)
    : Optimizer(core_of("adafactor",
                        rule_of<kernels::AdafactorRule>(
                            [](const Spec& param) -> std::vector<const char*> {
                              if (factored(param)) return {"row", "col"};
                              return {"v"};
                            },
                            [o](const Numbers& n) { return adafactor_rule(o, n); }),
                        std::move(params), o)) {
  if (!(o.beta2_decay < 0))
    throw Error(fmt::format("adafactor: beta2_decay is {}, expected below 0", o.beta2_decay));
  if (!(o.eps1 > 0 && o.eps2 >= 0 && o.clip > 0))
    throw Error(fmt::format("adafactor: eps1, eps2 and clip are {}, {} and {}, expected above 0",
                            o.eps1, o.eps2, o.clip));
  check_decay(o.weight_decay);
}

}  // namespace ebb::optim
