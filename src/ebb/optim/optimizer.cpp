#include "ebb/optim/optimizer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/optim/bad_loss.hpp"
#include "ebb/optim/optimizer_core.hpp"

namespace ebb::optim {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

void check_positive(const char* what, double value) {
  if (!(value > 0 && value < kUnlimited))
    throw Error(fmt::format("optimizer: {} is {}, expected a number above 0", what, value));
}

void check_lr(const char* what, double value) {  // 0: a step that changes no parameter
  if (!(value >= 0 && value < kUnlimited))
    throw Error(fmt::format("optimizer: {} is {}, expected a number from 0 on", what, value));
}

// A master copy begins as the parameter does.
class Widened final : public InitialValue {
 public:
  explicit Widened(Variable from) : from_(std::move(from)) {}
  void fill(std::span<std::byte> to, std::uint64_t element) const override {
    const std::size_t count = to.size() / sizeof(float);
    const Tensor part =
        Tensor::uninitialized({{static_cast<std::int64_t>(count)}, from_.spec().dtype}, "master");
    from_.read({const_cast<std::byte*>(part.raw()), part.spec().bytes()}, element * 2);
    const Tensor wide = cast(part, DType::f32);
    std::copy_n(wide.raw(), to.size(), to.data());
  }

 private:
  Variable from_;
};

}  // namespace

// What users call.

Optimizer::Optimizer(std::shared_ptr<OptimizerCore> core) : core_(std::move(core)) {}
Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&& other) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&& other) noexcept = default;

OptimizerCore& Optimizer::core() const {
  if (!core_) throw Error("optimizer: this one was moved from; use the one it was moved to");
  return *core_;
}

Loss Optimizer::minimize(const Loss& loss) { return core().minimize(loss); }

void Optimizer::step(Accumulator& gathered) {
  const std::span<const Tensor> sums = gathered.sums();
  if (!gathered.is_for(*this)) core().refuse_loss_scale();
  if (ops::tracer())
    core().step_traced(sums, gathered.traced_count());
  else
    core().step_eager(sums, {}, gathered.count(), gathered.scale());
  gathered.clear();
}

void Optimizer::step(std::span<const Tensor> gradients, double count) {
  core().refuse_loss_scale();
  if (ops::tracer()) return core().step_traced(gradients, Tensor::scalar(count, DType::f64));
  core().step_eager(gradients, {}, count, 1);
}

double Optimizer::lr() const { return core().lr(); }
void Optimizer::set_lr(double lr) { core().set_lr(lr); }
void Optimizer::set_schedule(Schedule schedule) { core().set_schedule(std::move(schedule)); }
void Optimizer::clip_value(double limit) { core().clip_value(limit); }
void Optimizer::clip_norm(double limit) { core().clip_norm(limit); }
void Optimizer::check_gradients() { core().check_gradients(); }
double Optimizer::last_norm() const { return core().last_norm(); }
void Optimizer::on_bad_loss(BadLoss bad) { core().on_bad_loss(bad); }
double Optimizer::loss_scale() const { return core().loss_scale(); }
std::int64_t Optimizer::steps() const { return core().steps(); }
std::int64_t Optimizer::skipped() const { return core().skipped(); }
const std::vector<Variable>& Optimizer::params() const { return core().params(); }
std::vector<Variable> Optimizer::state() const { return core().state(); }

// What stands behind it: parameters and their groups, state, numbers.

OptimizerCore::OptimizerCore(const char* name, std::unique_ptr<const Rule> rule,
                             std::vector<Variable> params, const Common& common)
    : name_(name), rule_(std::move(rule)), clip_value_(kUnlimited), clip_norm_(kUnlimited) {
  const auto& [lr, weight_decay, half, groups] = common;
  check_lr("lr", lr);
  check_distinct(name, params);
  Grouped grouped = optim::grouped(name, std::move(params), weight_decay, groups);
  params_ = std::move(grouped.trained);
  frozen_ = std::move(grouped.frozen);
  settings_ = std::move(grouped.settings);
  setting_of_ = std::move(grouped.setting_of);
  scale_ = ScaleState(name_, half.loss_scale);
  for (const Variable& p : params_) add_state(p, half.master);
  steps_ = number("steps", Tensor::zeros({}, DType::i64));
  skipped_ = number("skipped", Tensor::zeros({}, DType::i64));
  lr_ = number("lr", Tensor::full({}, lr, DType::f64));
  if (scale_.used()) norm_ = number("norm", Tensor::zeros({}, DType::f64));
  entries_.reserve(params_.size());
  grouped_.reserve(params_.size());
  entry_setting_.reserve(params_.size());
  sources_.reserve(params_.size());
  gradients_.resize(params_.size());
  sparse_.resize(params_.size());
  for (const auto* all : {&params_, &frozen_})
    for (const Variable& p : *all) p.claim();
}

void OptimizerCore::add_state(const Variable& p, bool master) {
  if (!rule_->takes(p.spec().dtype))
    throw Error(fmt::format("{}: parameter {} is {}, which it does not train", name_, p.name(),
                            to_string(p.spec())));
  const auto state = [&](const char* slot, const Spec& spec, auto first) {
    return Variable(fmt::format("{}.{}.{}", name_, slot, p.name()), spec, std::move(first), false,
                    Category::optimizer);
  };
  const Spec wide{p.shape(), DType::f32};
  masters_.push_back(master && is_half(p.spec().dtype)
                         ? state("master", wide, std::make_shared<const Widened>(p))
                         : Variable());
  const std::vector<const char*> slots = rule_->slots(p.spec());
  const auto count = static_cast<int>(slots.size());
  slots_.emplace_back();
  for (int k = 0; k < count; ++k)
    slots_.back().push_back(state(slots[static_cast<std::size_t>(k)],
                                  rule_->slot_spec(p.spec(), k, count), zeros_initially()));
}

Variable OptimizerCore::number(const char* name, const Tensor& first) const {
  return Variable(fmt::format("{}.{}", name_, name), first, false, Category::optimizer);
}

std::shared_ptr<OptimizerCore> OptimizerCore::alive(const std::weak_ptr<OptimizerCore>& core) {
  std::shared_ptr<OptimizerCore> now = core.lock();
  if (!now)
    throw Error("compiled step: its optimizer is gone; keep it for as long as the step is used");
  return now;
}

BadLoss OptimizerCore::bad_loss() const {
  if (BadLossScope::now()) return *BadLossScope::now();
  return bad_loss_.value_or(norm_ ? BadLoss::allow : BadLoss::stop);
}

// Where it stands, also inside a function that is being traced.
double OptimizerCore::rate() const {
  double lr = 0;
  lr_.read(std::as_writable_bytes(std::span(&lr, 1)), 0);
  return lr;
}

void OptimizerCore::set_rate(double lr) {
  lr_.own();
  *reinterpret_cast<double*>(lr_.bytes()) = lr;
}

void OptimizerCore::set_lr(double lr) {
  check_lr("lr", lr);
  schedule_ = nullptr;
  set_rate(lr);
}

void OptimizerCore::ask_schedule(int turn) {
  if (!schedule_) return;
  const double lr = schedule_(steps() + turn);
  check_lr("the lr of the schedule", lr);
  set_rate(lr);
}

Rule::Numbers OptimizerCore::numbers(std::size_t setting, int turn) const {
  const Setting& s = settings_[setting];
  return {rate() * s.lr_scale, s.weight_decay, steps() + turn + 1};
}

void OptimizerCore::clip_value(double limit) {
  check_positive("clip_value", limit);
  clip_value_ = limit;
}

void OptimizerCore::clip_norm(double limit) {
  check_positive("clip_norm", limit);
  clip_norm_ = limit;
  check_gradients();
}

void OptimizerCore::check_gradients() {
  if (!norm_) norm_ = number("norm", Tensor::zeros({}, DType::f64));
}

std::int64_t OptimizerCore::skipped() const {
  return scale_.used() ? scale_.skipped() : skipped_.value().item<std::int64_t>();
}

std::vector<Variable> OptimizerCore::state() const {
  std::vector<Variable> all;
  std::size_t most = 0;
  for (const auto& slots : slots_) most = std::max(most, slots.size());
  for (std::size_t k = 0; k < most; ++k)
    for (const auto& slots : slots_)
      if (k < slots.size()) all.push_back(slots[k]);
  for (const Variable& master : masters_)
    if (master) all.push_back(master);
  if (scale_.used()) all.push_back(scale_.state());
  for (const Variable& v : {lr_, skipped_, steps_}) all.push_back(v);
  return all;
}

void OptimizerCore::refuse_loss_scale() const {
  if (scale_.used())
    throw Error(
        fmt::format("{}: step() was given gradients that are not scaled, but .loss_scale "
                    "is in use; call minimize(), or gather them in an Accumulator of this "
                    "optimizer",
                    name_));
}

void OptimizerCore::check_gradient_count(std::size_t given) const {
  if (given != params_.size())
    throw Error(
        fmt::format("{}: {} gradients were given for {} parameters", name_, given, params_.size()));
}

// It is of the parameter's spec, or in f32 where that is of 16 bits.
void OptimizerCore::check_gradient(std::size_t param, const Spec& gradient) const {
  const Spec& spec = params_[param].spec();
  if (gradient != spec && !(is_half(spec.dtype) && gradient == Spec{spec.shape, DType::f32}))
    throw Error(fmt::format("{}: the gradient of {} is {}, the parameter {}", name_,
                            params_[param].name(), to_string(gradient), to_string(spec)));
}

void OptimizerCore::count_step(bool taken) {
  if (taken) {
    ++*reinterpret_cast<std::int64_t*>(steps_.bytes());
  } else {
    ++*reinterpret_cast<std::int64_t*>(skipped_.bytes());
  }
  scale_.record(taken);
  random::next_step();
}

Loss OptimizerCore::minimize(const Loss& loss) {
  loss.check(name_.c_str());
  Tape* tape = Tape::innermost();
  if (tape && tape->used_up())
    throw Error(fmt::format(
        "{}: the tape was used up by an earlier gradient; make one for each step", name_));
  if (!tape || !tape->recorded(loss.sum))
    throw Error(
        fmt::format("{}: no tape has recorded this loss; make a Tape before the forward pass, "
                    "and let the loss depend on a trainable variable",
                    name_));
  return ops::tracer() ? minimize_traced(loss, *tape) : minimize_eager(loss, *tape);
}

}  // namespace ebb::optim
