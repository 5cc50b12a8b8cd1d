// What stands behind a Trainer, for its source files: trainer.cpp (the loop), trainer_steps.cpp (one step, and bad
// ones), trainer_between.cpp (evaluations and samples), trainer_directory.cpp (what is written and taken up).
#pragma once

#include "ebb/base/memory/memory.hpp"
#include "ebb/train/run/live_line.hpp"
#include "ebb/train/run/metrics_log.hpp"
#include "ebb/train/run/pacer.hpp"
#include "ebb/train/run/progress.hpp"
#include "ebb/train/run/run_directory.hpp"
#include "ebb/train/run/run_log.hpp"
#include "ebb/train/run/stop_signal.hpp"
#include "ebb/train/trainer.hpp"

namespace ebb::train {

// Variables that a step moves without the optimizer, such as running means, as they were before it: a step that
// is not taken leaves them so.
class Statistics {
 public:
  Statistics() = default;
  // Those of a model that are vectors and not trained. Its memory is taken here.
  explicit Statistics(const std::vector<Variable>& model);
  void keep();
  void restore();

 private:
  std::vector<Variable> variables_;
  memory::Buffer before_;
};

struct Trainer::Run {
  Run(Model m, optim::Optimizer& o, Dataset d, TrainerOptions t)
      : model(std::move(m)), optimizer(o), data(std::move(d)), options(std::move(t)) {
    if (!part_of(options.compile).whole()) ranks = options.compile.world;
    first = !ranks || ranks->rank() == 0;
    if (ranks) data = data.part(*ranks);
  }

  // Where ranks share the run: all of them make the same calls in the same order, and decide alike. The first one
  // alone writes and shows.
  bool any(bool says) const { return ranks ? !ranks->agree(!says) : says; }
  bool of_first(bool says) const { return any(first && says); }
  template <class F>
  void by_first(const char* what, F&& f) const {
    together(ranks, what, [&] {
      if (first) f();
    });
  }

  // trainer.cpp
  void compile_test();
  void compile_all();
  void show_plan();
  LiveStatus status() const;
  Boundary boundary(const data::Position& at) const;
  bool finished() const;
  bool best_unsaved() const;
  void say(RunLog::Kind kind, const std::string& text);  // in the log
  Standing take_up();
  Outcome train(const StopSignal& stop);
  Outcome loop(const StopSignal& stop);
  static const Batch* next(BatchWalk& walk);
  bool due(Pacer& pacer, const Boundary& here) const;
  void end_of_run(const data::Position& at, const StopSignal& stop, bool stopped);
  Outcome outcome(const StopSignal& stop, bool stopped) const;

  // trainer_steps.cpp
  bool one_step(const Batch& batch, const data::Position& at);  // false: it was not taken
  void bad_step(const Batch& batch, const data::Position& at, const random::State& draws,
                double loss_scale);
  std::string bad_row(const Batch& batch, const data::Position& at) const;  // "": none is
  void log_step(const data::Position& at);

  // trainer_between.cpp
  bool higher_is_better(const std::string& metric) const;
  std::optional<Evaluation> measure();  // none: a signal came in between
  void evaluate_due();
  void evaluated(Evaluation now, bool due);
  void try_sample();
  void make_sample();

  // trainer_directory.cpp
  void claim();
  CheckpointParts parts();
  data::Position load_last();
  void check_same(const CheckpointInfo& info) const;
  void open_logs(std::int64_t from_step);
  void save(const data::Position& at);
  std::string write_checkpoint(const data::Position& at);
  std::string last_good() const;  // checkpoint, in words

  Ranks* ranks = nullptr;  // that share the run; null: this process alone
  bool first = true;       // of them
  Model model;
  optim::Optimizer& optimizer;
  Dataset data;
  TrainerOptions options;
  std::optional<Dataset> held_out;
  optim::Ema* ema = nullptr;
  std::shared_ptr<optim::Plateau> plateau;
  const Trainer* callbacks = nullptr;

  std::optional<Step<Loss>> step;
  std::optional<Step<std::vector<Loss>>> test;
  plan::Plan shown;  // of all that runs
  Statistics statistics;

  std::optional<RunDirectory> directory;  // these four: where there is one
  std::optional<Checkpoints> checkpoints;
  std::optional<RunLog> log;
  std::optional<MetricsLog> metrics;
  std::optional<LiveLine> live;
  std::optional<Progress> progress;

  std::optional<data::Position> from;  // where it was taken up, until it goes on
  bool from_checkpoint = false;
  std::int64_t per_epoch = 0, total = 0;
  std::int64_t done = 0;             // steps
  double loss = 0, logged_loss = 0;  // of the last step; of those since the last row of metrics
  std::int64_t since_logged = 0, bad_in_a_row = 0, without_progress = 0, not_taken = 0;
  std::string first_not_taken;
  std::int64_t saved_at = -1;
  bool samples = false;  // there is memory for them
  bool owed = false;     // an evaluation was due, and a signal came in between
  std::optional<Evaluation> last, best;
  std::optional<double> best_value;
};

std::string listed(const std::vector<Figure>& figures);  // "loss 0.231, accuracy 0.972"

}  // namespace ebb::train
