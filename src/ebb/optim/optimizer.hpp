// Update rules. An optimizer owns its state, divides by the count of the loss once, and either
// takes a whole step or changes nothing.
//
//   optim::AdamW adam(params(model), {.lr = 1e-3f});
//   Tape tape;
//   adam.minimize(sparse_cross_entropy(model(x), labels));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ebb/kernels/update.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/optim/schedule.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb {
class Tape;
}

namespace ebb::optim {

class Accumulator;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step down the loss, which the innermost tape of this thread has recorded. Gives it back.
  Loss minimize(const Loss& loss);

  // One step with gradients of sums over `count` examples; empty handles leave their parameter be.
  void step(std::span<const Tensor> gradients, double count = 1);
  // One step with what the accumulator has gathered, which is then empty.
  void step(Accumulator& gathered);

  double lr() const;  // of the next step
  void set_lr(double lr);
  void set_schedule(Schedule schedule);  // asked before every step
  void clip_value(double limit);         // each element of the gradient to [-limit, limit]
  void clip_norm(double limit);          // all gradients together to this length at most
  double last_norm() const;              // before clipping; measured only with clip_norm

  std::int64_t steps() const;  // taken so far
  const std::vector<Variable>& params() const { return params_; }
  // Everything a later run needs to go on: the rule's state and the number of steps.
  std::vector<Variable> state() const;

 protected:
  // `slots` names what the rule keeps for each element, such as {"m", "v"}.
  Optimizer(const char* rule, std::vector<Variable> params, double lr,
            const std::vector<const char*>& slots);

  virtual void update(std::span<const kernels::Update<float>> tensors, kernels::GradientUse use,
                      double lr, std::int64_t step) const = 0;
  virtual void update(std::span<const kernels::Update<double>> tensors, kernels::GradientUse use,
                      double lr, std::int64_t step) const = 0;

  // The same as ops: the bytes of the rule for a step, and the update of one parameter. `in` is
  // rule, scale, gradient, parameter, state …; the results are the new parameter and state.
  virtual std::size_t rule_bytes() const = 0;
  virtual void write_rule(std::span<std::byte> to, double lr, std::int64_t step) const = 0;
  virtual std::vector<Tensor> update(std::span<const Tensor* const> in,
                                     double clip_value) const = 0;

 private:
  Loss minimize_traced(const Loss& loss, Tape& tape);
  void prepare(std::span<std::byte> rule);
  void finish();
  std::string rule_;
  std::vector<Variable> params_;
  std::vector<std::vector<Variable>> slots_;  // per slot, per parameter
  Variable steps_;
  double lr_;
  Schedule schedule_;
  double clip_value_, clip_norm_;
  Variable norm_;  // of the last step's gradient, with clip_norm
  // Reused from step to step.
  std::vector<kernels::Update<float>> floats_;
  std::vector<kernels::Update<double>> doubles_;
  std::vector<const Tensor*> sources_;
  std::vector<Tensor> gradients_;
};

struct SgdOptions {
  double lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
template <bool kDecoupled>
struct AdamOptionsOf {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = kDecoupled ? 0.01 : 0;
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
struct RmspropOptions {
  double lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
};
struct AdagradOptions {
  double lr = 0.01, eps = 1e-10, weight_decay = 0;
};

// The kernel's rule, filled in for one step.
template <class Rule>
class RuleOptimizer : public Optimizer {
 protected:
  using Optimizer::Optimizer;
  virtual Rule rule(double lr, std::int64_t step) const = 0;
  void update(std::span<const kernels::Update<float>> tensors, kernels::GradientUse use, double lr,
              std::int64_t step) const final;
  void update(std::span<const kernels::Update<double>> tensors, kernels::GradientUse use, double lr,
              std::int64_t step) const final;
  std::size_t rule_bytes() const final { return sizeof(Rule); }
  void write_rule(std::span<std::byte> to, double lr, std::int64_t step) const final;
  std::vector<Tensor> update(std::span<const Tensor* const> in, double clip_value) const final;
};

class Sgd final : public RuleOptimizer<kernels::SgdRule> {
 public:
  explicit Sgd(std::vector<Variable> params, SgdOptions options = {});

 private:
  kernels::SgdRule rule(double lr, std::int64_t step) const override;
  SgdOptions options_;
};

// Weight decay is added to the gradient, or decoupled from it: taken off the weight itself.
template <bool kDecoupled>
class AdamOf final : public RuleOptimizer<kernels::AdamRule> {
 public:
  explicit AdamOf(std::vector<Variable> params, AdamOptionsOf<kDecoupled> options = {});

 private:
  kernels::AdamRule rule(double lr, std::int64_t step) const override;
  AdamOptionsOf<kDecoupled> options_;
};
using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

class Rmsprop final : public RuleOptimizer<kernels::RmspropRule> {
 public:
  explicit Rmsprop(std::vector<Variable> params, RmspropOptions options = {});

 private:
  kernels::RmspropRule rule(double lr, std::int64_t step) const override;
  RmspropOptions options_;
};

class Adagrad final : public RuleOptimizer<kernels::AdagradRule> {
 public:
  explicit Adagrad(std::vector<Variable> params, AdagradOptions options = {});

 private:
  kernels::AdagradRule rule(double lr, std::int64_t step) const override;
  AdagradOptions options_;
};

}  // namespace ebb::optim
