#include "ebb/optim/optimizer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/tape/tape.hpp"

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

// One chain over the parameters, each by itself: so a compiled step can add them up as they come.
double squares(const Entry& entry) {
  const std::size_t bytes = entry.index_spec
                                ? rows_squares_scratch(entry)
                                : sum_of_squares_scratch({entry.spec->shape, entry.grad_type});
  memory::Buffer scratch(bytes, "clip_norm", Category::workspace);
  const std::span<std::byte> all(scratch.data(), bytes);
  return entry.index_spec ? rows_squares(entry, all) : sum_of_squares(entry, all);
}

// A master copy begins as the parameter does.
class Widened final : public InitialValue {
 public:
  explicit Widened(Variable from) : from_(std::move(from)) {}
  void fill(std::span<std::byte> to, std::uint64_t element) const override {
    const std::size_t count = to.size() / sizeof(float);
    const Tensor part = Tensor::uninitialized({{static_cast<std::int64_t>(count)},
                                               from_.spec().dtype}, "master");
    from_.read({const_cast<std::byte*>(part.raw()), part.spec().bytes()}, element * 2);
    const Tensor wide = cast(part, DType::f32);
    std::copy_n(wide.raw(), to.size(), to.data());
  }

 private:
  Variable from_;
};

std::optional<BadLoss>& told_of_bad_losses() {
  thread_local std::optional<BadLoss> bad;
  return bad;
}

}  // namespace

BadLossScope::BadLossScope(std::optional<BadLoss> bad) : outer_(told_of_bad_losses()) {
  if (bad) told_of_bad_losses() = bad;
}
BadLossScope::~BadLossScope() { told_of_bad_losses() = outer_; }

BadLoss Optimizer::bad_loss() const {
  if (told_of_bad_losses()) return *told_of_bad_losses();
  return bad_loss_.value_or(norm_ ? BadLoss::allow : BadLoss::stop);
}

Optimizer::Optimizer(const char* rule, std::vector<Variable> params, const Common& common,
                     const Keeps& keeps) {
  const auto& [lr, weight_decay, half, groups] = common;
  rule_ = rule;
  check_lr("lr", lr);
  check_distinct(rule, params);
  Grouped grouped = optim::grouped(rule, std::move(params), weight_decay, groups);
  params_ = std::move(grouped.trained);
  frozen_ = std::move(grouped.frozen);
  settings_ = std::move(grouped.settings);
  setting_of_ = std::move(grouped.setting_of);
  masters_.resize(params_.size());
  slots_.resize(params_.size());
  clip_value_ = clip_norm_ = kUnlimited;
  scale_ = ScaleState(rule_, half.loss_scale);
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Variable& p = params_[i];
    if (!keeps.takes(p.spec().dtype))
      throw Error(fmt::format("{}: parameter {} is {}, which it does not train", rule_, p.name(),
                              to_string(p.spec())));
    const auto state = [&](const char* slot, const Spec& spec, auto first) {
      return Variable(fmt::format("{}.{}.{}", rule_, slot, p.name()), spec, std::move(first), false,
                      Category::optimizer);
    };
    const Spec wide{p.shape(), DType::f32};
    if (half.master && is_half(p.spec().dtype))
      masters_[i] = state("master", wide, std::make_shared<const Widened>(p));
    const std::vector<const char*> slots = keeps.slots(p.spec());
    const auto count = static_cast<int>(slots.size());
    for (int k = 0; k < count; ++k)
      slots_[i].push_back(state(slots[static_cast<std::size_t>(k)], keeps.spec(p.spec(), k, count),
                                zeros_initially()));
  }
  const auto one = [&](const char* name, const Tensor& first) {
    return Variable(fmt::format("{}.{}", rule_, name), first, false, Category::optimizer);
  };
  steps_ = one("steps", Tensor::zeros({}, DType::i64));
  skipped_ = one("skipped", Tensor::zeros({}, DType::i64));
  lr_ = one("lr", Tensor::full({}, lr, DType::f64));
  if (scale_.used())
    norm_ = Variable(rule_ + ".norm", Tensor::zeros({}, DType::f64), false, Category::optimizer);
  entries_.reserve(params_.size());
  grouped_.reserve(params_.size());
  entry_setting_.reserve(params_.size());
  sources_.reserve(params_.size());
  gradients_.resize(params_.size());
  rows_.resize(params_.size());
  self_ = std::make_shared<Optimizer*>(this);
  for (const auto* all : {&params_, &frozen_})
    for (const Variable& p : *all) p.claim();
}

Optimizer::~Optimizer() {
  if (self_) *self_ = nullptr;
}

Optimizer::Optimizer(Optimizer&& other) noexcept : OptimizerFields(std::move(other)) {
  if (self_) *self_ = this;
}

Optimizer& Optimizer::operator=(Optimizer&& other) noexcept {
  if (this == &other) return *this;
  if (self_) *self_ = nullptr;
  OptimizerFields::operator=(std::move(other));
  if (self_) *self_ = this;
  return *this;
}

Optimizer& Optimizer::at(const std::shared_ptr<Optimizer*>& self) {
  if (!*self)
    throw Error("compiled step: its optimizer is gone; keep it for as long as the step is used");
  return **self;
}

void Optimizer::check_usable() const {
  if (!self_) throw Error("optimizer: this one was moved from; use the one it was moved to");
}

// Where it stands, also inside a function that is being traced.
double Optimizer::rate() const {
  double lr = 0;
  lr_.read(std::as_writable_bytes(std::span(&lr, 1)), 0);
  return lr;
}

void Optimizer::set_rate(double lr) {
  lr_.own();
  *reinterpret_cast<double*>(lr_.bytes()) = lr;
}

Optimizer::Numbers Optimizer::numbers(std::size_t setting, int turn) const {
  const Setting& s = settings_[setting];
  return {rate() * s.lr_scale, s.weight_decay, steps() + turn + 1};
}

void Optimizer::set_lr(double lr) {
  check_lr("lr", lr);
  check_usable();
  schedule_ = nullptr;
  set_rate(lr);
}

double Optimizer::lr() const { return schedule_ ? schedule_(steps()) : rate(); }

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

double Optimizer::loss_scale() const { return scale_.now(); }

std::int64_t Optimizer::steps() const { return steps_.value().item<std::int64_t>(); }

std::int64_t Optimizer::skipped() const {
  return scale_.used() ? scale_.skipped() : skipped_.value().item<std::int64_t>();
}

std::vector<Variable> Optimizer::state() const {
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

Loss Optimizer::minimize(const Loss& loss) {
  check_usable();
  loss.check(rule_.c_str());
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
    if (const BadLoss bad = bad_loss(); bad != BadLoss::allow) {
      const double sum = loss.sum.item();
      if (!std::isfinite(sum) && bad == BadLoss::stop)
        ops::StepScale::refuse(sum, loss.count.item(), steps() + 1);
      if (!std::isfinite(sum)) {
        scale_.own();
        skipped_.own();
        if (norm_) norm_.assign(Tensor::full({}, NAN, DType::f64));
        count_step(false);
        tape->commit();
        return loss;
      }
    }
    const double scale = static_cast<float>(scale_.now());  // as a compiled step reads it
    const Tensor seed = scale_.used() ? Tensor::full({}, scale, loss.sum.dtype()) : Tensor();
    const Tensor *ys[] = {&loss.sum}, *dys[] = {&seed};
    sources_.clear();
    for (const Variable& p : params_) sources_.push_back(&p.value());
    ask_for_rows();
    tape->gradient_into(ys, dys, sources_, gradients_, rows_);
    step(gradients_, rows_, loss.count.item(), scale);
  } catch (...) {
    gradients_.assign(params_.size(), Tensor());
    rows_.assign(params_.size(), {});
    tape->discard();
    throw;
  }
  gradients_.assign(params_.size(), Tensor());
  rows_.assign(params_.size(), {});
  tape->commit();
  return loss;
}

void Optimizer::ask_for_rows() {
  for (std::size_t i = 0; i < params_.size(); ++i)
    rows_[i].most = masters_[i] ? 0 : most_rows(params_[i].spec(), slots_[i].size());
}

void Optimizer::step(Accumulator& gathered) {
  const std::span<const Tensor> sums = gathered.sums();
  if (!gathered.is_for(*this)) refuse_loss_scale();
  if (ops::tracer())
    step_traced(sums, gathered.traced_count());
  else
    step(sums, {}, gathered.count(), gathered.scale());
  gathered.clear();
}

void Optimizer::step(std::span<const Tensor> gradients, double count) {
  refuse_loss_scale();
  if (ops::tracer()) return step_traced(gradients, Tensor::scalar(count, DType::f64));
  step(gradients, {}, count, 1);
}

void Optimizer::refuse_loss_scale() const {
  if (scale_.used())
    throw Error(fmt::format("{}: step() was given gradients that are not scaled, but .loss_scale "
                            "is in use; call minimize(), or gather them in an Accumulator of this "
                            "optimizer",
                            rule_));
}

// First everything that can fail, then the update, which cannot.
void Optimizer::step(std::span<const Tensor> gradients, std::span<const SparseGradient> rows,
                     double count, double loss_scale) {
  check_usable();
  if (gradients.size() != params_.size())
    throw Error(fmt::format("{}: {} gradients were given for {} parameters", rule_,
                            gradients.size(), params_.size()));
  if (!(count > 0))
    throw Error(fmt::format("{}: the loss counts {} examples; there is nothing to learn from",
                            rule_, count));
  entries_.clear();
  entry_setting_.clear();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const bool as_rows = !rows.empty() && rows[i].rows;
    if (!gradients[i] && !as_rows) continue;
    Variable& p = params_[i];
    const Spec& spec = p.spec();
    const Tensor& gradient = as_rows ? rows[i].rows : gradients[i];
    if (!as_rows && gradient.spec() != spec &&
        !(is_half(spec.dtype) && gradient.spec() == Spec{spec.shape, DType::f32}))
      throw Error(fmt::format("{}: the gradient of {} is {}, the parameter {}", rule_, p.name(),
                              to_string(gradient.spec()), to_string(spec)));
    p.own();
    Entry e{&spec, gradient.dtype(), p.bytes(), gradient.raw(), nullptr, {}};
    if (as_rows) {
      e.index_spec = &rows[i].indices.spec();
      e.indices = rows[i].indices.raw();
    }
    if (masters_[i]) {
      masters_[i].own();
      e.master = masters_[i].bytes();
    }
    for (std::size_t k = 0; k < slots_[i].size(); ++k) {
      slots_[i][k].own();
      e.state[k] = slots_[i][k].bytes();
    }
    entries_.push_back(e);
    entry_setting_.push_back(setting_of_[i]);
  }
  if (entries_.empty())
    throw Error(fmt::format("{}: the loss depends on none of the parameters", rule_));
  const std::size_t scratch_size = scratch_bytes(entries_);
  memory::Buffer scratch(scratch_size, rule_.c_str(), Category::workspace);
  steps_.own();
  skipped_.own();
  lr_.own();
  scale_.own();
  if (norm_) norm_.own();

  double sum = 0;
  if (norm_)
    for (const Entry& e : entries_) sum += squares(e);
  const auto [scale, norm] =
      ops::StepScale{clip_norm_, scale_.used()}.of(sum, count, loss_scale);
  ask_schedule(0);
  if (norm_) *reinterpret_cast<double*>(norm_.bytes()) = norm;
  for (std::size_t s = 0; scale != 0 && s < settings_.size(); ++s) {
    grouped_.clear();
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (entry_setting_[i] == s) grouped_.push_back(entries_[i]);
    if (!grouped_.empty())
      update(grouped_, {scale, clip_value_}, numbers(s, 0), {scratch.data(), scratch_size});
  }
  count_step(!norm_ || std::isfinite(norm));
}

void Optimizer::count_step(bool taken) {
  if (taken) {
    ++*reinterpret_cast<std::int64_t*>(steps_.bytes());
  } else {
    ++*reinterpret_cast<std::int64_t*>(skipped_.bytes());
  }
  scale_.record(taken);
  random::next_step();
}

void Optimizer::ask_schedule(int turn) {
  if (!schedule_) return;
  const double lr = schedule_(steps() + turn);
  check_lr("the lr of the schedule", lr);
  set_rate(lr);
}

// The rule of the step that begins, after so many others of this function, and the certainty that
// it can be counted.
void Optimizer::prepare(std::span<std::byte> rule, std::size_t setting, int turn) {
  steps_.own();
  skipped_.own();
  scale_.own();
  ask_schedule(turn);
  write_rule(rule, numbers(setting, turn));
}

// A layer that the model calls, and that its each() does not list, would silently not be trained.
void Optimizer::check_none_forgotten(const Loss& loss, const Tape& tape) const {
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
      rule_, forgotten[0].name(),
      forgotten.size() > 1 ? fmt::format(" and {} more", forgotten.size() - 1) : ""));
}

// Gradients that somebody has walked back to: this part's, added to those of the parts before.
void Optimizer::step_traced(std::span<const Tensor> gradients, const Tensor& count) {
  check_usable();
  ops::Tracer& tracer = *ops::tracer();
  if (gradients.size() != params_.size())
    throw Error(fmt::format("{}: {} gradients were given for {} parameters", rule_,
                            gradients.size(), params_.size()));
  const Tape::Pause nobody;
  std::vector<Tensor> sums(gradients.begin(), gradients.end());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Tensor so_far = tracer.carried(params_[i].spec());
    if (!sums[i]) continue;
    const Spec& spec = params_[i].spec();
    if (sums[i].spec() != spec &&
        !(is_half(spec.dtype) && sums[i].spec() == Spec{spec.shape, DType::f32}))
      throw Error(fmt::format("{}: the gradient of {} is {}, the parameter {}", rule_,
                              params_[i].name(), to_string(sums[i].spec()), to_string(spec)));
    const CategoryScope category(Category::gradients);
    if (so_far) sums[i] = so_far + sums[i];
  }
  const Tensor examples = tracer.total(count);
  tracer.carry(sums);
  take_traced(sums, {examples, {}, {}});
  if (Tape* tape = Tape::innermost()) tape->commit();
}

Loss Optimizer::minimize_traced(const Loss& loss, Tape& tape) {
  ops::Tracer& tracer = *ops::tracer();
  check_none_forgotten(loss, tape);
  const std::size_t count = params_.size();
  std::vector<Tensor> sums(count);  // gradients
  for (std::size_t i = 0; i < count; ++i) sums[i] = tracer.carried(params_[i].spec());

  Tensor seed;
  if (scale_.used())
    seed = tracer.before_step((rule_ + ".loss_scale").c_str(), {{}, DType::f32},
                              [self = self_](std::span<std::byte> to) {
                                const auto now = static_cast<float>(at(self).scale_.now());
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

void Optimizer::take_traced(std::span<const Tensor> sums, const Traced& of) {
  ops::Tracer& tracer = *ops::tracer();
  const std::size_t count = params_.size();
  const int turn = tracer.stepped(this);
  const BadLoss bad = of.loss ? bad_loss() : BadLoss::allow;
  if (turn > 0 && (norm_ || bad == BadLoss::skip))
    throw Error(fmt::format(
        "{}: two steps in a compiled function, where one may be skipped (by clip_norm, a loss scale "
        "or BadLoss::skip), so that the other is not known; compile a function for each",
        rule_));
  if (bad == BadLoss::skip && !outcome())
    outcome_ = Variable(rule_ + ".outcome", Tensor::zeros({}, DType::f64), false,
                        Category::optimizer);
  Tensor step, loss;
  std::vector<Tensor> squares;
  std::vector<const Tensor*> scaled = {&of.count};
  if (of.seed) scaled.push_back(&of.seed);
  if (bad != BadLoss::allow) {
    step = tracer.before_step((rule_ + ".step").c_str(), {{}, DType::i64},
                              [self = self_, turn](std::span<std::byte> to) {
                                const std::int64_t next = at(self).steps() + turn + 1;
                                std::memcpy(to.data(), &next, sizeof next);
                              });
    loss = is_half(of.loss.dtype()) ? cast(of.loss, DType::f32) : of.loss;
    scaled.push_back(&loss);
    scaled.push_back(&step);
  }
  if (norm_)
    for (std::size_t i = 0; i < count; ++i)
      if (sums[i]) squares.push_back(ops::apply(ops::SumOfSquares{}, sums[i]));
  for (const Tensor& s : squares) scaled.push_back(&s);
  const auto [scale, norm] =
      ops::apply_all(ops::StepScale{clip_norm_, static_cast<bool>(of.seed), bad}, scaled);

  std::vector<Tensor> rules;  // one for each setting of the groups
  for (std::size_t k = 0; k < settings_.size(); ++k)
    rules.push_back(tracer.before_step(
        (k ? fmt::format("{} {}", rule_, k) : rule_).c_str(),
        {{static_cast<std::int64_t>(rule_bytes())}, DType::u8},
        [self = self_, k, turn, value = clip_value_, norm = clip_norm_](std::span<std::byte> to) {
          Optimizer& now = at(self);
          if (now.clip_value_ != value || now.clip_norm_ != norm)
            throw Error(fmt::format(
                "{}: clipping was changed after the step was compiled, which does "
                "not know of it; set it before, or compile anew",
                now.rule_));
          now.prepare(to, k, turn);
        }));
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!sums[i]) continue;
    any = true;
    std::vector<const Tensor*> in = {&rules[setting_of_[i]], &scale, &sums[i],
                                     &params_[i].value()};
    std::vector<Variable> kept = {params_[i]};  // what is updated, in the order of the results
    if (masters_[i]) kept.push_back(masters_[i]);
    kept.insert(kept.end(), slots_[i].begin(), slots_[i].end());
    for (std::size_t k = 1; k < kept.size(); ++k) in.push_back(&kept[k].value());
    const CategoryScope category(Category::parameters);
    std::vector<Tensor> out = update(in, clip_value_, static_cast<bool>(masters_[i]));
    for (std::size_t k = 0; k < kept.size(); ++k) kept[k].adopt(std::move(out[k]));
  }
  if (!any) throw Error(fmt::format("{}: the loss depends on none of the parameters", rule_));
  Variable told = norm_ || bad == BadLoss::skip ? outcome() : Variable();
  if (told) told.adopt(norm);
  tracer.after_step([self = self_, told] {
    at(self).count_step(!told || std::isfinite(told.value().item<double>()));
  });
}

}  // namespace ebb::optim
