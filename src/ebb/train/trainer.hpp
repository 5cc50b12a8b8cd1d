// A training loop: planned first, then run, with evaluation, checkpoints, metrics and a live line.
//
//   Mlp net(nn::Init(1));                                   // a plain struct of layers with each()
//   auto model = train::Model::of(net, [](const Mlp& m, const Batch& b) {
//     return sparse_cross_entropy(m(b["image"]), b["label"]);
//   });
//   optim::AdamW adam(params(net), {.lr = 1e-3});
//   train::Trainer trainer(model, adam, data::digits(4096, 1).shuffle(1).batch(128),
//                          {.epochs = 10, .compile = {.memory = 64_MiB}, .directory = "runs/digits"});
//   trainer.evaluate_on(data::digits(512, 2).batch(128));
//   std::cout << trainer.plan();                            // fits, how, at what cost
//   const train::Outcome outcome = trainer.run();           // goes on where the directory says it stopped
//
// A run that is killed, or stopped by Ctrl-C, goes on from its last checkpoint with the bits of one that never
// stopped, also in another budget or with other threads. A step whose loss or gradient is NaN or infinite is not
// taken; after too many of them in a row the run ends with a NotFinite that names the op which made the first such
// number. Where a save fails, as on a full disk, it ends too, and the last good checkpoint is in place.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/optim/ema.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/train/build/model.hpp"
#include "ebb/train/checkpoint/checkpoints.hpp"

namespace ebb::train {

class StopSignal;

struct Stopping {                 // early, where a figure has stopped getting better
  std::string metric = "loss";    // of the evaluation; the best one is kept by it, too
  std::optional<Mode> mode = {};  // which of its values is best; not set: the metric's own
  std::int64_t patience = 0;  // evaluations without progress that are borne; 0: it runs to its end
  double min_change = 0;      // less is no progress
};

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;       // ends the run where that is earlier; 0: all of the epochs
  CompileOptions compile = {};  // .memory is the budget of the process
  std::string directory = {};   // of the run; "": nothing is written
  Period log = Period::steps(10), eval = Period::epochs(1), save = Period::epochs(1);
  Period sample = Period::never();  // of texts: see Trainer::sample
  Stopping stopping = {};
  int keep_last = 2, keep_best = 1;  // checkpoints
  bool csv = true, tensorboard = true, live = true;
  // What the live line counts a second, and how many of it an example has: tokens, of a text.
  std::string unit = "examples";
  double units = 1;
  // So many seconds after a signal a step that still runs is left, as if it had not begun: with what
  // saving takes, the run then ends within ten. Once it updates, a step is taken to its end.
  double patience = 3;
  std::int64_t bad_steps = 10;  // in a row whose loss or gradient is bad, before the run stops
  bool check_gradient = true;   // see Optimizer::check_gradients
  // What a later run is to find in a checkpoint as it is here, or refuse, by name: keys of a config, say.
  std::map<std::string, std::string> same = {};
  std::map<std::string, std::string> extra = {};  // what else it holds
};

struct Figure {
  std::string name;  // "loss", "accuracy"
  double value = 0;
};

struct Evaluation {
  std::int64_t step = 0;
  std::vector<Figure> figures;
  bool best = false;  // so far, by the metric that counts
};

struct Outcome {
  enum class Why { finished, stopped_early, signal };
  Why why = Why::finished;
  int signal = 0;
  std::int64_t step = 0;             // so many are done, with those that were not taken
  double loss = 0;                   // of the last step, a mean; of a run that was over, as it was
  std::int64_t not_taken = 0;        // steps of this process whose loss or gradient was no number
  std::string first_not_taken = {};  // what was wrong with the first of them
  std::optional<Evaluation> last, best;  // evaluations
  double seconds = 0;                    // of this process
  std::uint64_t forecast = 0, peak = 0;  // of the process's memory, in bytes
};

// Where a run stands before this process does anything to it.
struct Standing {
  std::int64_t step = 0, steps = 0;       // done, and of all of it
  bool saved = false;                     // it goes on from a checkpoint
  std::optional<Outcome::Why> over = {};  // nothing is left to do, and why
};

// A run ends with it where its loss, its gradient or its weights are no numbers any more.
class NotFinite : public Error {
 public:
  using Error::Error;
};

class Trainer {
 public:
  // The model's variables and the optimizer outlive it.
  Trainer(Model model, optim::Optimizer& optimizer, Dataset data, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Said before plan() or run().
  void evaluate_on(Dataset data);
  void average(optim::Ema& ema);  // updated each step; evaluations and samples use the averages
  void observe(std::shared_ptr<optim::Plateau> plateau);  // is shown the metric of each evaluation
  std::function<void(const Evaluation&)> on_evaluation;
  std::function<void(std::int64_t step, double loss)> on_step;
  std::function<void(std::int64_t step, const std::string& checkpoint)> on_save;
  std::function<void(std::int64_t step, const std::string& text)> on_sample;
  // A text of the model as it is, for the log, the terminal and TensorBoard. It is called between steps, may take
  // the memory that they do not need then, and changes nothing of the training. Before the first step it is asked
  // once with `trial`, for something that takes as much memory as any other; where there is too little, that is
  // said, and no text is made.
  std::function<std::string(std::int64_t step, bool trial)> sample;

  // Compiles what will run, if that is not done yet, and says how the step fits. Throws BudgetTooSmall. Where
  // another process is at work in the directory, an Error names it.
  const plan::Plan& plan();
  const plan::Plan& step_plan();  // of a step alone, with its programs: what runs

  // Takes up the last checkpoint of the directory, where there is one. What may not differ from the run that was
  // begun there is refused. run() does this where it was not done.
  bool holds_directory() const;  // no other process may write there
  Standing take_up();

  // Trains, from the last checkpoint of the directory where there is one. Throws what a step throws, when the
  // last good checkpoint is in place. Ctrl-C and SIGTERM are heeded while it runs; those of a program that has a
  // StopSignal of its own, also before and after.
  Outcome run();
  Outcome run(const StopSignal& stop);

  // Of the run that is under way, as the live line shows it: steps, evaluations, saves and samples still to come.
  std::optional<double> seconds_left() const;

  Evaluation evaluate();  // now; compiles nothing that trains

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace ebb::train
