// A step of a function that is traced: gradients are sums that go on from part to part of a batch,
// updates are ops.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/optim/optimizer_core.hpp"
#include "ebb/optim/update_ops.hpp"

namespace ebb::optim {

// A layer that the model calls, and that its each() does not list, would silently not be trained.
void OptimizerCore::check_none_forgotten(const Loss& loss, const Tape& tape) const {
  const std::span<const Variable> read = ops::tracer()->variables();
  std::vector<Variable> forgotten;
  for (const Variable& v : std::vector<Variable>(read.begin(), read.end()))
    if (v.watched() && !v.claimed() && tape.depends(loss.sum, v.value())) forgotten.push_back(v);
  if (forgotten.empty()) return;
  std::sort(forgotten.begin(), forgotten.end(),
            [](const Variable& a, const Variable& b) { return a.name() < b.name(); });
  throw Error(fmt::format(
      "{}: the loss depends on {}{}, trainable and given to no optimizer; list it in the model's "
      "each(), or say that it stays as it is: freeze() that part, or give it to the optimizer in a "
      "group with .frozen = true",
      name_, forgotten[0].name(),
      forgotten.size() > 1 ? fmt::format(" and {} more", forgotten.size() - 1) : ""));
}

// Gradients that somebody has walked back to: this part's, added to those of the parts before.
void OptimizerCore::step_traced(std::span<const Tensor> gradients, const Tensor& count) {
  ops::Tracer& tracer = *ops::tracer();
  check_gradient_count(gradients.size());
  const Tape::Pause nobody;
  std::vector<Tensor> sums(gradients.begin(), gradients.end());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Tensor so_far = tracer.sum_so_far(params_[i].spec());
    if (!sums[i]) continue;
    check_gradient(i, sums[i].spec());
    const CategoryScope category(Category::gradients);
    if (so_far) sums[i] = so_far + sums[i];
  }
  const Tensor examples = tracer.total(count);
  tracer.carry(sums);
  take_traced(sums, {examples, {}, {}});
  if (Tape* tape = Tape::innermost()) tape->commit();
}

Loss OptimizerCore::minimize_traced(const Loss& loss, Tape& tape) {
  ops::Tracer& tracer = *ops::tracer();
  check_none_forgotten(loss, tape);
  const std::size_t count = params_.size();
  std::vector<Tensor> sums(count);  // gradients
  for (std::size_t i = 0; i < count; ++i) sums[i] = tracer.sum_so_far(params_[i].spec());

  Tensor seed;
  if (scale_.used())
    seed = tracer.before_step((name_ + ".loss_scale").c_str(), {{}, DType::f32},
                              [self = weak_from_this()](std::span<std::byte> to) {
                                const auto now = static_cast<float>(alive(self)->scale_.now());
                                std::memcpy(to.data(), &now, sizeof now);
                              });
  const Tensor dy = seed ? cast(seed, loss.sum.dtype()) : Tensor();
  const Tensor *ys[] = {&loss.sum}, *dys[] = {&dy};
  sources_.clear();
  for (const Variable& p : params_) sources_.push_back(&p.value());
  {
    const CategoryScope category(Category::gradients);
    tape.gradient_into(ys, dys, sources_, sums);
  }
  const Loss whole{tracer.total(loss.sum), tracer.total(loss.count)};
  tracer.carry(sums);
  take_traced(sums, {whole.count, seed, whole.sum});
  tape.commit();
  return whole;
}

void OptimizerCore::take_traced(std::span<const Tensor> sums, const Traced& of) {
  ops::Tracer& tracer = *ops::tracer();
  const int turn = tracer.stepped(this);
  const BadLoss bad = of.loss ? bad_loss() : BadLoss::allow;
  if (turn > 0 && (norm_ || bad == BadLoss::skip))
    throw Error(fmt::format(
        "{}: two steps in a compiled function, where one may be skipped (by clip_norm, a loss "
        "scale "
        "or BadLoss::skip), so that the other is not known; compile a function for each",
        name_));
  if (bad == BadLoss::skip && !outcome())
    outcome_ = number("outcome", Tensor::zeros({}, DType::f64));
  const auto [scale, norm] = trace_scale(sums, of, bad, turn);
  const std::vector<Tensor> rules = trace_rules(turn);
  bool any = false;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (!sums[i]) continue;
    any = true;
    trace_update(i, rules[setting_of_[i]], scale, sums[i]);
  }
  if (!any) throw Error(fmt::format("{}: the loss depends on none of the parameters", name_));
  Variable told = norm_ || bad == BadLoss::skip ? outcome() : Variable();
  if (told) told.adopt(norm);
  tracer.after_step([self = weak_from_this(), told] {
    alive(self)->count_step(!told || std::isfinite(told.value().item<double>()));
  });
}

// What all gradients are multiplied by, and their length where it is measured (ops::StepScale).
OptimizerCore::Scale OptimizerCore::trace_scale(std::span<const Tensor> sums, const Traced& of,
                                                BadLoss bad, int turn) {
  ops::Tracer& tracer = *ops::tracer();
  Tensor step, loss;
  std::vector<Tensor> squares;
  std::vector<const Tensor*> in = {&of.count};
  if (of.seed) in.push_back(&of.seed);
  if (bad != BadLoss::allow) {
    step = tracer.before_step((name_ + ".step").c_str(), {{}, DType::i64},
                              [self = weak_from_this(), turn](std::span<std::byte> to) {
                                const std::int64_t next = alive(self)->steps() + turn + 1;
                                std::memcpy(to.data(), &next, sizeof next);
                              });
    loss = is_half(of.loss.dtype()) ? cast(of.loss, DType::f32) : of.loss;
    in.push_back(&loss);
    in.push_back(&step);
  }
  if (norm_)
    for (const Tensor& sum : sums)
      if (sum) squares.push_back(ops::apply(ops::SumOfSquares{}, sum));
  for (const Tensor& s : squares) in.push_back(&s);
  auto [scale, norm] =
      ops::apply_all(ops::StepScale{clip_norm_, static_cast<bool>(of.seed), bad}, in);
  return {std::move(scale), std::move(norm)};
}

std::vector<Tensor> OptimizerCore::trace_rules(int turn) {
  std::vector<Tensor> rules;
  for (std::size_t k = 0; k < settings_.size(); ++k)
    rules.push_back(ops::tracer()->before_step(
        (k ? fmt::format("{} {}", name_, k) : name_).c_str(),
        {{static_cast<std::int64_t>(rule_->bytes())}, DType::u8},
        [self = weak_from_this(), k, turn, value = clip_value_,
         norm = clip_norm_](std::span<std::byte> to) {
          const auto now = alive(self);
          if (now->clip_value_ != value || now->clip_norm_ != norm)
            throw Error(
                fmt::format("{}: clipping was changed after the step was compiled, which does "
                            "not know of it; set it before, or compile anew",
                            now->name_));
          now->prepare(to, k, turn);
        }));
  return rules;
}

// The rule of the step that begins, after so many others of this function, and the certainty that
// it can be counted.
void OptimizerCore::prepare(std::span<std::byte> rule, std::size_t setting, int turn) {
  steps_.own();
  skipped_.own();
  scale_.own();
  ask_schedule(turn);
  rule_->write(rule, numbers(setting, turn));
}

void OptimizerCore::trace_update(std::size_t param, const Tensor& rule, const Tensor& scale,
                                 const Tensor& sum) {
  using At = ops::UpdateInputs;
  std::vector<Variable> kept = {params_[param]};  // what is updated: ops::UpdateOutputs
  if (masters_[param]) kept.push_back(masters_[param]);
  kept.insert(kept.end(), slots_[param].begin(), slots_[param].end());
  std::vector<const Tensor*> in(At::param + kept.size());
  in[At::rule] = &rule;
  in[At::scale] = &scale;
  in[At::gradient] = &sum;
  for (std::size_t k = 0; k < kept.size(); ++k) in[At::param + k] = &kept[k].value();
  const CategoryScope category(Category::parameters);
  std::vector<Tensor> out = rule_->trace(in, clip_value_, static_cast<bool>(masters_[param]));
  for (std::size_t k = 0; k < kept.size(); ++k) kept[k].adopt(std::move(out[k]));
}

}  // namespace ebb::optim
