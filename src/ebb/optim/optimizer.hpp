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
#include <memory>
#include <span>
#include <vector>

#include "ebb/ops/loss.hpp"
#include "ebb/optim/groups.hpp"
#include "ebb/optim/loss_scale.hpp"
#include "ebb/optim/schedule.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

class Accumulator;
class OptimizerCore;

// One of the rules below. It may be moved; compiled steps and accumulators go on with the one it was
// moved to.
class Optimizer {
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
  // A gradient that is infinite or NaN is found, as with clip_norm, and nothing is clipped. All gradients
  // wait for each other then, which is memory that a step otherwise may do without.
  void check_gradients();
  double last_norm() const;  // before clipping; measured only with these two or a loss scale
  // What minimize does about a loss that is infinite or NaN. Unless this is called it throws; or, with
  // clip_norm or a loss scale, goes by the length of the gradient.
  void on_bad_loss(BadLoss bad);

  double loss_scale() const;   // of the next step; 1 where the loss is not scaled
  std::int64_t steps() const;  // taken so far
  // Not taken because the loss was infinite or NaN, with BadLoss::skip; or because the length of the
  // gradient was, with clip_norm, check_gradients or a loss scale.
  std::int64_t skipped() const;
  const std::vector<Variable>& params() const;  // without frozen ones
  // Everything a later run needs to go on: the rule's state, the rate, the loss scale, and the numbers
  // of steps. save() puts it into a file together with the weights and the place of random draws.
  std::vector<Variable> state() const;

 protected:
  explicit Optimizer(std::shared_ptr<OptimizerCore> core);
  Optimizer(Optimizer&& other) noexcept;
  Optimizer& operator=(Optimizer&& other) noexcept;

 private:
  friend class Accumulator;
  OptimizerCore& core() const;  // throws where it was moved from
  std::shared_ptr<OptimizerCore> core_;
};

struct SgdOptions {
  double lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  Half half = {};
  Groups groups = {};
};
class Sgd final : public Optimizer {
 public:
  explicit Sgd(std::vector<Variable> params, SgdOptions options = {});
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  // Another rule: a row (of the first axis, in parameters of two or more) whose gradient is zero is
  // left as it is, moments too. For embeddings: a step then costs what its rows cost. It does not
  // matter whether the gradient was kept as rows or whole.
  bool lazy = false;
  Half half = {};
  Groups groups = {};
};
class Adam final : public Optimizer {
 public:
  explicit Adam(std::vector<Variable> params, AdamOptions options = {});
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;  // decoupled from the gradient: taken off the weight itself
  bool lazy = false;           // see AdamOptions
  Half half = {};
  Groups groups = {};
};
class AdamW final : public Optimizer {
 public:
  explicit AdamW(std::vector<Variable> params, AdamWOptions options = {});
};

// AdamW with 2.03 bytes of state for each parameter. Approximate: its losses are those of AdamW to
// about 1%, its bits are not.
class AdamW8bit final : public Optimizer {
 public:
  explicit AdamW8bit(std::vector<Variable> params, AdamWOptions options = {});
};

struct RmspropOptions {
  double lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  Half half = {};
  Groups groups = {};
};
class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(std::vector<Variable> params, RmspropOptions options = {});
};

struct AdagradOptions {
  double lr = 0.01, eps = 1e-10, weight_decay = 0;
  Half half = {};
  Groups groups = {};
};
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(std::vector<Variable> params, AdagradOptions options = {});
};

struct LionOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  Half half = {};
  Groups groups = {};
};
class Lion final : public Optimizer {
 public:
  explicit Lion(std::vector<Variable> params, LionOptions options = {});
};

// A second moment in rows + columns numbers, no first one.
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
class Adafactor final : public Optimizer {
 public:
  explicit Adafactor(std::vector<Variable> params, AdafactorOptions options = {});
};

}  // namespace ebb::optim
