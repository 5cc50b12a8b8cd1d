#include "ebb/optim/optimizer.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/optim/update_ops.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::optim {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

void check_positive(const char* what, double value) {
  if (!(value > 0 && value < kUnlimited))
    throw Error(fmt::format("optimizer: {} is {}, expected a number above 0", what, value));
}

void check_unit(const char* what, double value) {
  if (!(value >= 0 && value < 1))
    throw Error(fmt::format("optimizer: {} is {}, expected at least 0 and below 1", what, value));
}

void check_decay(double value) {
  if (!(value >= 0))
    throw Error(fmt::format("optimizer: weight_decay is {}, expected 0 or more", value));
}

// The momentum buffer is there only where there is momentum.
std::vector<const char*> momentum_slots(std::vector<const char*> slots, double momentum) {
  if (momentum > 0) slots.push_back("momentum");
  return slots;
}

// One chain over the parameters, each by itself: so a compiled step can add them up as they come.
template <class T>
double squares(const kernels::Update<T>& tensor) {
  const std::span<const kernels::Update<T>> one(&tensor, 1);
  const std::size_t bytes = kernels::sum_of_squares_scratch(one);
  memory::Buffer scratch(bytes, "clip_norm", Category::workspace);
  return kernels::sum_of_squares(one, {scratch.data(), bytes});
}

}  // namespace

Optimizer::Optimizer(const char* rule, std::vector<Variable> params, double lr,
                     const std::vector<const char*>& slots)
    : rule_(rule),
      params_(std::move(params)),
      lr_(lr),
      clip_value_(kUnlimited),
      clip_norm_(kUnlimited) {
  check_positive("lr", lr);
  if (params_.empty()) throw Error(fmt::format("{}: there are no parameters to train", rule_));
  check_distinct(rule_.c_str(), params_);
  for (const Variable& p : params_)
    if (p.spec().dtype != DType::f32 && p.spec().dtype != DType::f64)
      throw Error(fmt::format("{}: parameter {} is {}; expected f32 or f64", rule_, p.name(),
                              to_string(p.spec())));
  for (const char* slot : slots) {
    std::vector<Variable>& all = slots_.emplace_back();
    for (const Variable& p : params_)
      all.emplace_back(fmt::format("{}.{}.{}", rule_, slot, p.name()), p.spec(), zeros_first(),
                       false, Category::optimizer);
  }
  steps_ = Variable(rule_ + ".steps", Tensor::zeros({}, DType::i64), false, Category::optimizer);
  floats_.reserve(params_.size());
  doubles_.reserve(params_.size());
  sources_.reserve(params_.size());
  gradients_.resize(params_.size());
}

void Optimizer::set_lr(double lr) {
  check_positive("lr", lr);
  schedule_ = nullptr;
  lr_ = lr;
}

double Optimizer::lr() const { return schedule_ ? schedule_(steps()) : lr_; }

void Optimizer::set_schedule(Schedule schedule) { schedule_ = std::move(schedule); }

void Optimizer::clip_value(double limit) {
  check_positive("clip_value", limit);
  clip_value_ = limit;
}

void Optimizer::clip_norm(double limit) {
  check_positive("clip_norm", limit);
  clip_norm_ = limit;
  if (!norm_)
    norm_ = Variable(rule_ + ".norm", Tensor::zeros({}, DType::f64), false, Category::optimizer);
}

double Optimizer::last_norm() const { return norm_ ? norm_.value().item<double>() : 0; }

std::int64_t Optimizer::steps() const { return steps_.value().item<std::int64_t>(); }

std::vector<Variable> Optimizer::state() const {
  std::vector<Variable> all;
  for (const auto& slot : slots_) all.insert(all.end(), slot.begin(), slot.end());
  all.push_back(steps_);
  return all;
}

Loss Optimizer::minimize(const Loss& loss) {
  Tape* tape = Tape::innermost();
  if (tape && tape->used_up())
    throw Error(fmt::format(
        "{}: the tape was used up by an earlier gradient; make one for each step", rule_));
  if (!tape || !tape->recorded(loss.sum))
    throw Error(
        fmt::format("{}: no tape has recorded this loss; make a Tape before the forward pass, "
                    "and let the loss depend on a trainable variable",
                    rule_));
  if (ops::tracer()) return minimize_traced(loss, *tape);
  try {
    const Tensor ones, *ys[] = {&loss.sum}, *dys[] = {&ones};
    sources_.clear();
    for (const Variable& p : params_) sources_.push_back(&p.value());
    tape->gradient_into(ys, dys, sources_, gradients_);
    step(gradients_, loss.count.item());
  } catch (...) {
    gradients_.assign(params_.size(), Tensor());
    tape->discard();
    throw;
  }
  gradients_.assign(params_.size(), Tensor());
  tape->commit();
  return loss;
}

void Optimizer::step(Accumulator& gathered) {
  step(gathered.sums(), gathered.count());
  gathered.clear();
}

// First everything that can fail, then the update, which cannot.
void Optimizer::step(std::span<const Tensor> gradients, double count) {
  if (gradients.size() != params_.size())
    throw Error(fmt::format("{}: {} gradients were given for {} parameters", rule_,
                            gradients.size(), params_.size()));
  if (!(count > 0))
    throw Error(fmt::format("{}: the loss counts {} examples; there is nothing to learn from",
                            rule_, count));
  floats_.clear();
  doubles_.clear();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (!gradients[i]) continue;
    Variable& p = params_[i];
    if (gradients[i].spec() != p.spec())
      throw Error(fmt::format("{}: the gradient of {} is {}, the parameter {}", rule_, p.name(),
                              to_string(gradients[i].spec()), to_string(p.spec())));
    p.own();
    std::byte* state[2] = {nullptr, nullptr};
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      slots_[k][i].own();
      state[k] = slots_[k][i].bytes();
    }
    const auto size = static_cast<std::size_t>(p.spec().size());
    const auto entry = [&](auto zero) {
      using T = decltype(zero);
      return kernels::Update<T>{reinterpret_cast<T*>(p.bytes()),
                                gradients[i].template data<T>().data(),
                                {reinterpret_cast<T*>(state[0]), reinterpret_cast<T*>(state[1])},
                                size};
    };
    if (p.spec().dtype == DType::f32) {
      floats_.push_back(entry(float{}));
    } else {
      doubles_.push_back(entry(double{}));
    }
  }
  if (floats_.empty() && doubles_.empty())
    throw Error(fmt::format("{}: the loss depends on none of the parameters", rule_));
  steps_.own();

  if (norm_) norm_.own();

  kernels::GradientUse use{1 / count, clip_value_};
  if (norm_) {
    double sum = 0;
    std::size_t f = 0, d = 0;
    for (std::size_t i = 0; i < params_.size(); ++i)
      if (gradients[i])
        sum +=
            params_[i].spec().dtype == DType::f32 ? squares(floats_[f++]) : squares(doubles_[d++]);
    const double norm = std::sqrt(sum) / count;
    if (norm > clip_norm_) use.scale *= clip_norm_ / norm;
    *reinterpret_cast<double*>(norm_.bytes()) = norm;
  }
  auto& taken = *reinterpret_cast<std::int64_t*>(steps_.bytes());
  if (schedule_) {
    lr_ = schedule_(taken);
    check_positive("the lr of the schedule", lr_);
  }
  const std::int64_t now = taken + 1;
  if (!floats_.empty()) update(floats_, use, lr_, now);
  if (!doubles_.empty()) update(doubles_, use, lr_, now);
  taken = now;
  random::next_step();
}

// The rule of the step that begins, and the certainty that it can be counted.
void Optimizer::prepare(std::span<std::byte> rule) {
  steps_.own();
  if (schedule_) {
    lr_ = schedule_(steps());
    check_positive("the lr of the schedule", lr_);
  }
  write_rule(rule, lr_, steps() + 1);
}

void Optimizer::finish() {
  ++*reinterpret_cast<std::int64_t*>(steps_.bytes());
  random::next_step();
}

Loss Optimizer::minimize_traced(const Loss& loss, Tape& tape) {
  ops::Tracer& tracer = *ops::tracer();
  const std::size_t count = params_.size();
  std::vector<Tensor> sums(count + 2);  // gradients, then the loss's sum and count
  for (std::size_t i = 0; i < count; ++i) sums[i] = tracer.carried(params_[i].spec());
  const Tensor sum = tracer.carried(loss.sum.spec()), examples = tracer.carried(loss.count.spec());

  const Tensor ones, *ys[] = {&loss.sum}, *dys[] = {&ones};
  sources_.clear();
  for (const Variable& p : params_) sources_.push_back(&p.value());
  {
    const CategoryScope category(Category::gradients);
    tape.gradient_into(ys, dys, sources_, {sums.data(), count});
    sums[count] = sum ? sum + loss.sum : loss.sum;
    sums[count + 1] = examples ? examples + loss.count : loss.count;
  }
  tracer.carry(sums);

  std::vector<Tensor> squares;
  std::vector<const Tensor*> scaled = {&sums[count + 1]};
  if (norm_)
    for (std::size_t i = 0; i < count; ++i)
      if (sums[i]) squares.push_back(ops::apply(ops::SumOfSquares{}, sums[i]));
  for (const Tensor& s : squares) scaled.push_back(&s);
  const auto [scale, norm] =
      ops::apply_all(ops::StepScale{norm_ ? clip_norm_ : kUnlimited}, scaled);

  const Tensor rule =
      tracer.before_step(rule_.c_str(), {{static_cast<std::int64_t>(rule_bytes())}, DType::u8},
                         [this](std::span<std::byte> to) { prepare(to); });
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!sums[i]) continue;
    any = true;
    std::vector<const Tensor*> in = {&rule, &scale, &sums[i], &params_[i].value()};
    for (auto& slot : slots_) in.push_back(&slot[i].value());
    const CategoryScope category(Category::parameters);
    std::vector<Tensor> out = update(in, clip_value_);
    params_[i].adopt(std::move(out[0]));
    for (std::size_t k = 0; k < slots_.size(); ++k) slots_[k][i].adopt(std::move(out[k + 1]));
  }
  if (!any) throw Error(fmt::format("{}: the loss depends on none of the parameters", rule_));
  if (norm_) norm_.adopt(norm);
  tracer.after_step([this] { finish(); });
  tape.commit();
  return {sums[count], sums[count + 1]};
}

template <class Rule>
void RuleOptimizer<Rule>::update(std::span<const kernels::Update<float>> tensors,
                                 kernels::GradientUse use, double lr, std::int64_t step) const {
  kernels::update(tensors, rule(lr, step), use);
}
template <class Rule>
void RuleOptimizer<Rule>::update(std::span<const kernels::Update<double>> tensors,
                                 kernels::GradientUse use, double lr, std::int64_t step) const {
  kernels::update(tensors, rule(lr, step), use);
}

template <class Rule>
void RuleOptimizer<Rule>::write_rule(std::span<std::byte> to, double lr, std::int64_t step) const {
  const Rule now = rule(lr, step);
  std::memcpy(to.data(), &now, sizeof now);
}

namespace {
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
std::vector<Tensor> RuleOptimizer<Rule>::update(std::span<const Tensor* const> in,
                                                double clip_value) const {
  constexpr bool kSgd = std::is_same_v<Rule, kernels::SgdRule>;
  constexpr bool kRmsprop = std::is_same_v<Rule, kernels::RmspropRule>;
  constexpr int kLeast = kSgd ? 0 : std::is_same_v<Rule, kernels::AdamRule> ? 2 : 1;
  if constexpr (kSgd || kRmsprop)  // these have one more with momentum
    if (in.size() == 4 + kLeast + 1) return updated<ops::Update<Rule, kLeast + 1>>(clip_value, in);
  return updated<ops::Update<Rule, kLeast>>(clip_value, in);
}

Sgd::Sgd(std::vector<Variable> params, SgdOptions o)
    : RuleOptimizer("sgd", std::move(params), o.lr, momentum_slots({}, o.momentum)), options_(o) {
  check_unit("momentum", o.momentum);
  check_decay(o.weight_decay);
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    throw Error("sgd: nesterov needs momentum above 0 and no dampening");
}

kernels::SgdRule Sgd::rule(double lr, std::int64_t step) const {
  return {lr,       options_.momentum, options_.dampening, options_.weight_decay, options_.nesterov,
          step == 1};
}

template <bool kDecoupled>
AdamOf<kDecoupled>::AdamOf(std::vector<Variable> params, AdamOptionsOf<kDecoupled> o)
    : RuleOptimizer(kDecoupled ? "adamw" : "adam", std::move(params), o.lr, {"m", "v"}),
      options_(o) {
  check_unit("beta1", o.beta1);
  check_unit("beta2", o.beta2);
  check_decay(o.weight_decay);
}

template <bool kDecoupled>
kernels::AdamRule AdamOf<kDecoupled>::rule(double lr, std::int64_t step) const {
  const auto t = static_cast<double>(step);
  return {lr,
          options_.beta1,
          options_.beta2,
          options_.eps,
          options_.weight_decay,
          1 - std::pow(options_.beta1, t),
          1 - std::pow(options_.beta2, t),
          kDecoupled};
}

template class AdamOf<false>;
template class AdamOf<true>;

Rmsprop::Rmsprop(std::vector<Variable> params, RmspropOptions o)
    : RuleOptimizer("rmsprop", std::move(params), o.lr, momentum_slots({"v"}, o.momentum)),
      options_(o) {
  check_unit("alpha", o.alpha);
  check_unit("momentum", o.momentum);
  check_decay(o.weight_decay);
}

kernels::RmspropRule Rmsprop::rule(double lr, std::int64_t) const {
  return {lr, options_.alpha, options_.eps, options_.weight_decay, options_.momentum};
}

Adagrad::Adagrad(std::vector<Variable> params, AdagradOptions o)
    : RuleOptimizer("adagrad", std::move(params), o.lr, {"sum"}), options_(o) {
  check_decay(o.weight_decay);
}

kernels::AdagradRule Adagrad::rule(double lr, std::int64_t) const {
  return {lr, options_.eps, options_.weight_decay};
}

}  // namespace ebb::optim
