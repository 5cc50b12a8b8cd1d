// A config with all that it names: data, model, optimizer; ready to be planned, trained, asked.
//
//   train::Job job(train::load_config("train.toml"));
//   const auto trainer = job.trainer("runs/one", true);
//   std::cout << trainer->plan();
//   trainer->run();
//
//   train::Job trained = train::open_run("runs/one");   // the best checkpoint of a run
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ebb/base/memory/budget.hpp"
#include "ebb/train/build/optimizer.hpp"
#include "ebb/train/build/run_data.hpp"
#include "ebb/train/trainer.hpp"

namespace ebb::train {

// What a checkpoint's `extra` holds under these names.
inline constexpr char kConfigExtra[] = "config", kReadingExtra[] = "reading";

// What a program that reads configs comes to when it starts, before anything of it has run: what the loader reads
// of the program and its libraries. However small the model, no smaller budget is kept.
inline constexpr std::uint64_t kAtStart = 6 << 20;

// What ranks that train together must have alike, a key a line: all but where each of them finds its data, and how
// much it may hold.
std::string of_all_ranks(const Config& config);

struct Job {
  // Takes the threads and the budget that the config says, seeds random draws, opens the data. Throws
  // BudgetTooSmall where that leaves no room to read it. Opening::shape: to be planned, and not to run.
  explicit Job(Config config, Opening how = Opening::rows);
  // Without data to train on: what a checkpoint needs to be asked.
  Job(Config config, Reading reading);
  Job(Job&&) = default;
  ~Job();

  Config config;
  Budget budget = {};  // before all that it is for
  std::optional<RunData> data;
  Reading reading;
  Model model;
  Length length;
  Rates rates;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;
  CheckpointInfo from = {};  // of an opened run
  Ranks* world = nullptr;    // that share its training; set before trainer() is asked for

  // What a checkpoint of this run holds beside weights and state: keys of the config and fingerprints of files that
  // must be the same for it to go on; config and reading.
  std::map<std::string, std::string> same() const;
  std::map<std::string, std::string> extra() const;
  // Planned, and ready to run. "": nothing is written. `live`: on stderr. The job outlives it, and stays where it is.
  // Where data.in_memory is "auto" and rows are held as it does not fit, the data is opened anew, held otherwise. Throws
  // BudgetTooSmall, with the smallest budget for all that will run.
  std::unique_ptr<Trainer> trainer(const std::string& directory, bool live);
  std::vector<Figure> evaluate(const Dataset& rows);           // within the config's budget
  CheckpointInfo load_weights(const std::string& checkpoint);  // and averages

 private:
  struct Opened;
  static Opened open(const Config& config, Opening how);
  static Opened open_at(const Config& config, Opening how, InMemory place);
  [[noreturn]] static void refuse_to_read(Config config);
  explicit Job(Opened opened);
  void take(Opened opened);
  // Whether rows of files may be in memory or not, as the budget decides.
  static bool may_move(const Config& config);
  std::optional<InMemory> other_place(const BudgetTooSmall& why) const;
  void open_anew(InMemory place);
  void say_other_ways();
  TrainerOptions options_for(const std::string& directory, bool live) const;
  std::unique_ptr<Trainer> make_trainer(TrainerOptions options);
  [[noreturn]] void refuse(const BudgetTooSmall& why);

  std::unique_ptr<LeastBudget> least_;  // that the data can be read in
  std::unique_ptr<HeldOtherwise> otherwise_;
  Opening opening_ = Opening::rows;
  InMemory place_ = InMemory::automatic;  // what the data was opened as
};

// The line of a refusal.
BudgetTooSmall too_small(std::uint64_t asked, const char* for_what, std::uint64_t smallest);

enum class Which { best, last };
// The run of a directory, one checkpoint's, or a model that was exported: its config, how its data is read, its
// weights, averaged where the run averages. Nothing of the data is opened.
Job open_run(const std::string& directory, Which which = Which::best);

// A model for others, and for open_run: model.safetensors (averaged weights where the run averages), config.toml,
// reading.json, vocabulary.txt. The job's weights are the checkpoint's afterwards.
void export_model(const std::string& checkpoint, Job& job, const std::string& folder);

}  // namespace ebb::train
