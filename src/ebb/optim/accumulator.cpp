#include "ebb/optim/accumulator.hpp"

#include <fmt/core.h>

#include <cstdio>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/optim/optimizer_core.hpp"

namespace ebb::optim {
namespace {

// f(x), in f32 where x is of 16 bits: a scale or a count may be beyond them.
template <class F>
Tensor widely(const Tensor& x, F&& f) {
  return is_half(x.dtype()) ? cast(f(cast(x, DType::f32)), x.dtype()) : f(x);
}

}  // namespace

Accumulator::Accumulator(std::vector<Variable> params, int window)
    : params_(std::move(params)), sums_(params_.size()), window_(window) {
  check_distinct("accumulator", params_);
  if (window < 0)
    throw Error(fmt::format("accumulator: a window of {} parts; expected 0 or more", window));
}

Accumulator::Accumulator(const Optimizer& optimizer, int window)
    : Accumulator(optimizer.params(), window) {
  optimizer_ = optimizer.core_;
}

bool Accumulator::is_for(const Optimizer& optimizer) const {
  return optimizer_ && optimizer_->lock() == optimizer.core_;
}

Accumulator::~Accumulator() {
  if (parts_ > 0 && !torn_)
    fmt::print(stderr,
               "ebb: an accumulator ended with {} parts ({} examples) that no step has used\n",
               parts_, count_);
}

void Accumulator::check_room() const {
  if (torn_)
    throw Error("accumulator: an earlier part failed half way; discard() and begin the batch anew");
  if (full())
    throw Error(
        fmt::format("accumulator: its window of {} parts is full; take a step first", window_));
}

// The scale of the first part is that of all: a step in between may change the optimizer's.
void Accumulator::begin(const random::State& draws) {
  draws_ = draws;
  // As minimize() has it.
  scale_ = optimizer_ ? static_cast<float>(OptimizerCore::alive(*optimizer_)->loss_scale()) : 1;
  if (scale_ != 1 && ops::tracer())
    throw Error(
        "accumulator: a loss scale changes from step to step, which a compiled function cannot "
        "follow; call minimize() there");
}

void Accumulator::add_count(const Tensor& count) {
  if (!ops::tracer()) {
    count_ += count.item();
    return;
  }
  const Tape::Pause nobody;
  const Tensor more = cast(count, DType::f64);
  traced_count_ = traced_count_ ? traced_count_ + more : more;
}

void check_distinct(const char* who, std::span<const Variable> params) {
  for (std::size_t i = 0; i < params.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (params[i] == params[k])
        throw Error(fmt::format("{}: parameter {} is listed twice", who, params[i].name()));
}

void Accumulator::add(Tape& tape, const Loss& loss) {
  check_room();
  loss.check("accumulator");
  if (!tape.recorded(loss.sum))
    throw Error(
        "accumulator: this tape has not recorded the loss, or was used up; make a Tape before "
        "each part's forward pass");
  sources_.clear();
  for (const Variable& p : params_) sources_.push_back(p.value());
  if (parts_ == 0) begin(tape.draws());
  try {
    const Tensor seed = scale_ == 1 ? Tensor() : Tensor::full({}, scale_, loss.sum.dtype());
    tape.gradient_into({&loss.sum, 1}, {&seed, 1}, sources_, sums_);
    sources_.clear();
    add_count(loss.count);
    ++parts_;
    tape.commit();
  } catch (...) {
    // The sums went on in place; what they hold now is neither before nor after.
    torn_ = parts_ > 0;
    sources_.clear();
    sums_.assign(params_.size(), Tensor());
    throw;
  }
}

void Accumulator::add(std::span<const Tensor> gradients, double count) {
  check_room();
  if (gradients.size() != params_.size())
    throw Error(fmt::format("accumulator: {} gradients were given for {} parameters",
                            gradients.size(), params_.size()));
  if (parts_ == 0) begin(random::state());
  if (!(count >= 0))
    throw Error(fmt::format("accumulator: a count of {}; expected 0 or more", count));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i] && gradients[i].spec() != params_[i].spec())
      throw Error(fmt::format("accumulator: the gradient of {} is {}, the parameter {}",
                              params_[i].name(), to_string(gradients[i].spec()),
                              to_string(params_[i].spec())));
  CategoryScope category(Category::gradients);
  std::vector<Tensor> sums(sums_);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    const auto times = [this](const Tensor& g) { return g * scale_; };
    const Tensor scaled = scale_ == 1 ? gradients[i] : widely(gradients[i], times);
    sums[i] = sums[i] ? sums[i] + scaled : scaled;
  }
  sums_ = std::move(sums);
  add_count(Tensor::scalar(count, DType::f64));
  ++parts_;
}

std::span<const Tensor> Accumulator::sums() const {
  if (torn_)
    throw Error("accumulator: an earlier part failed half way; discard() and begin the batch anew");
  if (parts_ == 0) throw Error("accumulator: nothing was added since the last step");
  return sums_;
}

std::vector<Tensor> Accumulator::mean() const {
  std::vector<Tensor> means(sums().begin(), sums().end());
  if (!(count_ > 0)) throw Error("accumulator: the parts count no examples, so they have no mean");
  for (Tensor& m : means)
    if (m) m = widely(m, [this](const Tensor& sum) { return sum / (count_ * scale_); });
  return means;
}

void Accumulator::reset() {
  if (parts_ > 0 && !torn_)
    throw Error(fmt::format(
        "accumulator: {} parts ({} examples) are in it that no step has used; step() with them, or "
        "discard() them",
        parts_, count_));
  clear();
}

void Accumulator::discard() {
  random::State now = random::state();
  if (parts_ > 0 && now.seed == draws_.seed && now.step == draws_.step) {
    now.draw = draws_.draw;
    random::restore(now);
  }
  clear();
}

void Accumulator::clear() {
  sums_.assign(params_.size(), Tensor());
  count_ = 0;
  traced_count_ = {};
  parts_ = 0;
  torn_ = false;
}

}  // namespace ebb::optim
