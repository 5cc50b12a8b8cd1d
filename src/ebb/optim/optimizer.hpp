// Update rules. An optimizer owns its state, divides by the count of the loss once, and either
// takes a whole step or changes nothing.
//
//   optim::AdamW adam(params(model), {.lr = 1e-3f});
//   Tape tape;
//   adam.minimize(sparse_cross_entropy(model(x), labels));
//
// Steps are taken in compiled functions as well, also several of them: those of a GAN's two
// optimizers, or one optimizer's one after the other. A batch is taken in parts there where no step
// needs what another one made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ebb/ops/loss.hpp"
#include "ebb/optim/groups.hpp"
#include "ebb/optim/loss_scale.hpp"
#include "ebb/optim/schedule.hpp"
#include "ebb/optim/update_ops.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

class Accumulator;
class Optimizer;

// What an optimizer holds, apart from its rule: it moves as it is.
struct OptimizerFields {
  std::string rule_;
  std::vector<Variable> params_, masters_;    // empty handles where a parameter has none
  std::vector<Variable> frozen_;              // by groups: told of, and left alone
  std::vector<Setting> settings_;             // of the groups …
  std::vector<std::size_t> setting_of_;       // … and which of them is a parameter's
  std::vector<std::vector<Variable>> slots_;  // per parameter
  Variable steps_;
  Variable lr_;  // of the last step, or as it was set
  Schedule schedule_;
  double clip_value_, clip_norm_;
  Variable norm_;     // of the last step's gradient, where it is measured
  Variable outcome_;  // instead, where steps may be skipped: finite if it was taken
  std::optional<BadLoss> bad_loss_;
  Variable skipped_;  // without a loss scale, which counts them itself
  ScaleState scale_;
  // Reused from step to step.
  std::vector<Entry> entries_, grouped_;
  std::vector<std::size_t> entry_setting_;
  std::vector<const Tensor*> sources_;
  std::vector<Tensor> gradients_;
  std::vector<SparseGradient> rows_;  // instead of a gradient, where the tape gave it so
  // Where the optimizer is now, for compiled steps and accumulators; null when it is gone.
  std::shared_ptr<Optimizer*> self_;
};

class Optimizer : private OptimizerFields {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step down the loss, which the innermost tape of this thread has recorded. Gives it back.
  Loss minimize(const Loss& loss);

  // One step with gradients of sums over `count` examples; empty handles leave their parameter be.
  // Not with a loss scale, of which they know nothing: an Accumulator of this optimizer does.
  void step(std::span<const Tensor> gradients, double count = 1);
  // One step with what the accumulator has gathered, which is then empty.
  void step(Accumulator& gathered);

  double lr() const;  // of the next step
  void set_lr(double lr);
  void set_schedule(Schedule schedule);  // asked before every step
  void clip_value(double limit);         // each element of the gradient to [-limit, limit]
  // All gradients together to this length at most. A step whose length is infinite or NaN is not
  // taken: parameters and state stay as they are, and skipped() counts it, not steps().
  void clip_norm(double limit);
  double last_norm() const;  // before clipping; measured only with clip_norm or a loss scale
  // What minimize does about a loss that is infinite or NaN. Without a word it stops; or, with
  // clip_norm or a loss scale, goes by the length of the gradient.
  void on_bad_loss(BadLoss bad) { bad_loss_ = bad; }

  double loss_scale() const;  // of the next step; 1 where the loss is not scaled
  std::int64_t steps() const;    // taken so far
  // Not taken because the loss was infinite or NaN, with BadLoss::skip; or because the length of the
  // gradient was, with clip_norm or a loss scale.
  std::int64_t skipped() const;
  const std::vector<Variable>& params() const { return params_; }  // without frozen ones
  // Everything a later run needs to go on: the rule's state, the rate, the loss scale, and the numbers
  // of steps. save() puts it into a file together with the weights and the place of random draws.
  std::vector<Variable> state() const;

 protected:
  // What a rule keeps: the names of its slots for a parameter, such as m and v, what each of them
  // holds, and which types of parameters it takes.
  struct Keeps {
    std::function<std::vector<const char*>(const Spec& param)> slots;
    Spec (*spec)(const Spec& param, int slot, int slots);
    bool (*takes)(DType param);
  };
  // What the options of every rule have.
  struct Common {
    double lr, weight_decay;
    Half half;
    const Groups& groups;
  };
  Optimizer(const char* rule, std::vector<Variable> params, const Common& common,
            const Keeps& keeps);
  // Compiled steps and accumulators of the one go on with the other.
  Optimizer(Optimizer&& other) noexcept;
  Optimizer& operator=(Optimizer&& other) noexcept;

  // What a rule is filled in with for a step: its numbers for one group of parameters.
  struct Numbers {
    double lr, weight_decay;
    std::int64_t step;  // 1 is the first
  };

  // The step for all parameters at once. What it needs besides is taken before: it cannot fail.
  virtual std::size_t scratch_bytes(std::span<const Entry> entries) const = 0;
  // Rows of gradient that it takes for a parameter with so many slots; 0: it takes them whole.
  virtual std::int64_t most_rows(const Spec& param, std::size_t slots) const = 0;
  virtual void update(std::span<const Entry> entries, kernels::GradientUse use,
                      const Numbers& numbers, std::span<std::byte> scratch) const = 0;

  // The same as ops: the bytes of the rule for a step, and the update of one parameter. `in` is
  // rule, scale, gradient, parameter, master copy if any, state …; the results are the new
  // parameter, copy and state.
  virtual std::size_t rule_bytes() const = 0;
  virtual void write_rule(std::span<std::byte> to, const Numbers& numbers) const = 0;
  virtual std::vector<Tensor> update(std::span<const Tensor* const> in, double clip_value,
                                     bool master) const = 0;

 private:
  Loss minimize_traced(const Loss& loss, Tape& tape);
  void check_none_forgotten(const Loss& loss, const Tape& tape) const;
  // What is called from here on happens once, after the last part of the batch.
  struct Traced {
    Tensor count, seed, loss;  // the last two may be empty
  };
  void step_traced(std::span<const Tensor> gradients, const Tensor& count);
  void take_traced(std::span<const Tensor> sums, const Traced& of);
  BadLoss bad_loss() const;
  const Variable& outcome() const { return norm_ ? norm_ : outcome_; }
  void ask_for_rows();
  void refuse_loss_scale() const;
  void step(std::span<const Tensor> gradients, std::span<const SparseGradient> rows, double count,
            double loss_scale);
  void count_step(bool taken);
  // `turn`: how many steps of this optimizer the function that is running takes before this one.
  void prepare(std::span<std::byte> rule, std::size_t setting, int turn);
  void check_usable() const;
  double rate() const;  // as it was set, or as the schedule last said
  void set_rate(double lr);
  void ask_schedule(int turn);
  Numbers numbers(std::size_t setting, int turn) const;
  static Optimizer& at(const std::shared_ptr<Optimizer*>& self);
  friend class Accumulator;
};

// For as long as it lives, the word of this thread about bad losses, whatever optimizers were told.
class BadLossScope {
 public:
  explicit BadLossScope(std::optional<BadLoss> bad);
  ~BadLossScope();
  BadLossScope(const BadLossScope&) = delete;
  BadLossScope& operator=(const BadLossScope&) = delete;

 private:
  std::optional<BadLoss> outer_;
};

struct SgdOptions {
  double lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  Half half = {};
  Groups groups = {};
};
template <bool kDecoupled>
struct AdamOptionsOf {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = kDecoupled ? 0.01 : 0;
  // Another rule: a row (of the first axis, in parameters of two or more) whose gradient is zero is
  // left as it is, moments too. For embeddings: a step then costs what its rows cost. It does not
  // matter whether the gradient was kept as rows or whole.
  bool lazy = false;
  Half half = {};
  Groups groups = {};
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;
struct RmspropOptions {
  double lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  Half half = {};
  Groups groups = {};
};
struct AdagradOptions {
  double lr = 0.01, eps = 1e-10, weight_decay = 0;
  Half half = {};
  Groups groups = {};
};
struct LionOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  Half half = {};
  Groups groups = {};
};
struct AdafactorOptions {
  double lr = 1e-2;           // of a step, where it is not relative
  double beta2_decay = -0.8;  // beta2 of step t is 1 - t^beta2_decay
  double eps1 = 1e-30, eps2 = 1e-3;
  double clip = 1;       // an update's root mean square is at most this
  bool relative = true;  // steps are relative to the parameter's root mean square (eps2 at least) …
  bool decaying = true;  // … and at most 1 / sqrt(t)
  double weight_decay = 0;
  Groups groups = {};
};

// The kernel's rule, filled in for one step.
template <class Rule>
class RuleOptimizer : public Optimizer {
 protected:
  RuleOptimizer(const char* name, std::vector<Variable> params, const Common& common,
                std::function<std::vector<const char*>(const Spec&)> slots);
  virtual Rule rule(const Numbers& numbers) const = 0;
  bool lazy_ = false;  // for AdamRule: LazyAdamRule in its place
  std::int64_t most_rows(const Spec& param, std::size_t slots) const final;
  std::size_t scratch_bytes(std::span<const Entry> entries) const final;
  void update(std::span<const Entry> entries, kernels::GradientUse use, const Numbers& numbers,
              std::span<std::byte> scratch) const final;
  std::size_t rule_bytes() const final { return sizeof(Rule); }
  void write_rule(std::span<std::byte> to, const Numbers& numbers) const final;
  std::vector<Tensor> update(std::span<const Tensor* const> in, double clip_value,
                             bool master) const final;
};
extern template class RuleOptimizer<kernels::SgdRule>;
extern template class RuleOptimizer<kernels::AdamRule>;
extern template class RuleOptimizer<kernels::RmspropRule>;
extern template class RuleOptimizer<kernels::AdagradRule>;
extern template class RuleOptimizer<kernels::LionRule>;
extern template class RuleOptimizer<kernels::Adam8Rule>;
extern template class RuleOptimizer<kernels::AdafactorRule>;

class Sgd final : public RuleOptimizer<kernels::SgdRule> {
 public:
  explicit Sgd(std::vector<Variable> params, SgdOptions options = {});

 private:
  kernels::SgdRule rule(const Numbers& n) const override;
  SgdOptions options_;
};

// Weight decay is added to the gradient, or decoupled from it: taken off the weight itself.
template <bool kDecoupled>
class AdamOf final : public RuleOptimizer<kernels::AdamRule> {
 public:
  explicit AdamOf(std::vector<Variable> params, AdamOptionsOf<kDecoupled> options = {});

 private:
  kernels::AdamRule rule(const Numbers& n) const override;
  AdamOptionsOf<kDecoupled> options_;
};
using Adam = AdamOf<false>;
using AdamW = AdamOf<true>;

class Rmsprop final : public RuleOptimizer<kernels::RmspropRule> {
 public:
  explicit Rmsprop(std::vector<Variable> params, RmspropOptions options = {});

 private:
  kernels::RmspropRule rule(const Numbers& n) const override;
  RmspropOptions options_;
};

class Adagrad final : public RuleOptimizer<kernels::AdagradRule> {
 public:
  explicit Adagrad(std::vector<Variable> params, AdagradOptions options = {});

 private:
  kernels::AdagradRule rule(const Numbers& n) const override;
  AdagradOptions options_;
};

class Lion final : public RuleOptimizer<kernels::LionRule> {
 public:
  explicit Lion(std::vector<Variable> params, LionOptions options = {});

 private:
  kernels::LionRule rule(const Numbers& n) const override;
  LionOptions options_;
};

// AdamW with 2.03 bytes of state for each parameter (ebb/kernels/update_8bit.hpp). Approximate:
// its losses are those of AdamW to about 1%, its bits are not.
class AdamW8bit final : public RuleOptimizer<kernels::Adam8Rule> {
 public:
  explicit AdamW8bit(std::vector<Variable> params, AdamWOptions options = {});

 private:
  kernels::Adam8Rule rule(const Numbers& n) const override;
  AdamWOptions options_;
};

// A second moment in rows + cols numbers (ebb/kernels/update_factored.hpp), no first one.
class Adafactor final : public RuleOptimizer<kernels::AdafactorRule> {
 public:
  explicit Adafactor(std::vector<Variable> params, AdafactorOptions options = {});

 private:
  kernels::AdafactorRule rule(const Numbers& n) const override;
  AdafactorOptions options_;
};

}  // namespace ebb::optim
