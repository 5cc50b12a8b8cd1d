// What stands behind an Optimizer: parameters, state, and the two ways to take a step, eagerly
// (eager_step.cpp) and as ops of a function that is traced (traced_step.cpp). It stays where it is when
// the Optimizer is moved; compiled steps and accumulators know it by a weak pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ebb/ops/loss.hpp"
#include "ebb/optim/grouped.hpp"
#include "ebb/optim/rule.hpp"
#include "ebb/optim/scale_state.hpp"
#include "ebb/optim/schedule.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

class OptimizerCore : public std::enable_shared_from_this<OptimizerCore> {
 public:
  // What the options of every rule have.
  struct Common {
    double lr, weight_decay;
    Half half;
    const Groups& groups;
  };
  OptimizerCore(const char* name, std::unique_ptr<const Rule> rule, std::vector<Variable> params,
                const Common& common);

  // The one that compiled steps and accumulators were told of. Throws where it is gone.
  static std::shared_ptr<OptimizerCore> alive(const std::weak_ptr<OptimizerCore>& core);

  Loss minimize(const Loss& loss);
  // With gradients of sums over `count` examples, times the loss scale.
  void step_eager(std::span<const Tensor> gradients, std::span<const SparseGradient> sparse,
                  double count, double loss_scale);
  void step_traced(std::span<const Tensor> gradients, const Tensor& count);
  void refuse_loss_scale() const;

  double lr() const { return schedule_ ? schedule_(steps()) : rate(); }
  void set_lr(double lr);
  void set_schedule(Schedule schedule) { schedule_ = std::move(schedule); }
  void clip_value(double limit);
  void clip_norm(double limit);
  void check_gradients();
  double last_norm() const { return norm_ ? norm_.value().item<double>() : 0; }
  void on_bad_loss(BadLoss bad) { bad_loss_ = bad; }
  double loss_scale() const { return scale_.now(); }
  std::int64_t steps() const { return steps_.value().item<std::int64_t>(); }
  std::int64_t skipped() const;
  const std::vector<Variable>& params() const { return params_; }
  std::vector<Variable> state() const;

 private:
  void add_state(const Variable& param, bool master);
  Variable number(const char* name, const Tensor& first) const;  // one of its own state

  BadLoss bad_loss() const;
  void check_gradient(std::size_t param, const Spec& gradient) const;
  void check_gradient_count(std::size_t given) const;
  double rate() const;  // as it was set, or as the schedule last said
  void set_rate(double lr);
  // `turn`: how many steps of this optimizer the function that is running takes before this one.
  void ask_schedule(int turn);
  Rule::Numbers numbers(std::size_t setting, int turn) const;
  void count_step(bool taken);

  // Eagerly.
  Loss minimize_eager(const Loss& loss, Tape& tape);
  void skip_step();
  void ask_for_sparse();
  void drop_gradients();
  void gather_entries(std::span<const Tensor> gradients, std::span<const SparseGradient> sparse);
  double squared_norm() const;
  void update_all(double scale, std::span<std::byte> scratch);

  // Traced. What is called from take_traced on happens once, after the last part of the batch.
  struct Traced {
    Tensor count, seed, loss;  // the last two may be empty
  };
  Loss minimize_traced(const Loss& loss, Tape& tape);
  void check_none_forgotten(const Loss& loss, const Tape& tape) const;
  void take_traced(std::span<const Tensor> sums, const Traced& of);
  struct Scale {
    Tensor scale, norm;
  };
  Scale trace_scale(std::span<const Tensor> sums, const Traced& of, BadLoss bad, int turn);
  std::vector<Tensor> trace_rules(int turn);  // one for each setting of the groups
  void trace_update(std::size_t param, const Tensor& rule, const Tensor& scale, const Tensor& sum);
  void prepare(std::span<std::byte> rule, std::size_t setting, int turn);
  const Variable& outcome() const { return norm_ ? norm_ : outcome_; }

  std::string name_;
  std::unique_ptr<const Rule> rule_;
  std::vector<Variable> params_, masters_;    // empty handles where a parameter has none
  std::vector<Variable> frozen_;              // by groups: told of, and left alone
  std::vector<Setting> settings_;             // of the groups …
  std::vector<std::size_t> setting_of_;       // … and which of them is a parameter's
  std::vector<std::vector<Variable>> slots_;  // per parameter
  Variable steps_;
  Variable lr_;  // of the last step, or as it was set
  Schedule schedule_;
  double clip_value_, clip_norm_;  // infinity: none
  Variable norm_;                  // of the last step's gradient, where it is measured
  Variable outcome_;               // instead, where steps may be skipped: finite if it was taken
  std::optional<BadLoss> bad_loss_;
  Variable skipped_;  // without a loss scale, which counts them itself
  ScaleState scale_;
  // Reused from step to step.
  std::vector<Entry> entries_, grouped_;
  std::vector<std::size_t> entry_setting_;
  std::vector<const Tensor*> sources_;
  std::vector<Tensor> gradients_;
  std::vector<SparseGradient> sparse_;  // instead of a gradient, where the tape gave it so
};

}  // namespace ebb::optim
