#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/interrupted.hpp"
#include "apps/ebb/runs.hpp"
#include "ebb/base/budget.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/file.hpp"
#include "ebb/train/run/run_directory.hpp"

namespace ebb::app {
namespace {

std::string summary(const train::Outcome& out) {
  std::string figures;
  if (const auto& e = out.best ? out.best : out.last)
    for (const train::Figure& f : e->figures)
      figures += fmt::format("  {} {:.4g}", f.name, f.value);
  return fmt::format("step {}, loss {:.4g}, {}{}{}\nmemory: forecast {}, measured peak {}{}\n",
                     out.step, out.loss, readable_time(out.seconds),
                     figures.empty() ? "" : "; held out:", figures,
                     to_string(ByteSize{out.forecast}), to_string(ByteSize{out.peak}),
                     Budget::now() ? ", budget " + to_string(ByteSize{Budget::now()}) : "");
}

// Whatever fails from the first step on is no mistake in what was asked for.
train::Outcome run_steps(train::Trainer& trainer, const std::string& directory) {
  bool stepped = false, saved = false;
  trainer.on_step = [&](std::int64_t, double) { stepped = true; };
  trainer.on_save = [&](std::int64_t, const std::string&) { saved = true; };
  try {
    return trainer.run();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    if (!stepped) throw;
    const std::string_view what = e.what();
    throw Exit{complain(
        fmt::format("{}{}", what.substr(0, what.find('\n')),
                    saved ? fmt::format("; ebb resume {} goes on from there", directory) : ""),
        1)};
  }
}

void train_in(train::Job& job, train::Trainer& trainer, const std::string& directory) {
  say(to_string(trainer.plan()));
  const train::Outcome out = run_steps(trainer, directory);
  const train::RunDirectory run = train::RunDirectory::open(directory);
  const train::Checkpoints checkpoints(run.checkpoints());
  if (const auto best = checkpoints.best() ? checkpoints.best() : checkpoints.latest())
    export_model(best->path, job, run.model());
  say(summary(out));
  say(fmt::format("model: {}\n", run.model()));
  if (out.why == train::Outcome::Why::signal)
    throw Exit{
        complain(fmt::format("stopped by a signal and saved; ebb resume {} goes on", directory),
                 128 + out.signal)};
}

struct Train {
  ConfigFlags flags;
  std::string out;

  void run() const {
    check_alone("train");
    train::Config config = flags.load();
    std::string directory = !out.empty() ? out : config.output.directory;
    if (directory.empty())
      directory = train::RunDirectory::next_free(usual_run(flags.config));
    else
      train::RunDirectory::check_free(directory);
    std::optional<train::Job> job;
    std::unique_ptr<train::Trainer> trainer;
    {
      // Until all is known to fit nothing is written, so that nothing is left behind.
      const Interrupted before("before the first step; nothing was written");
      job.emplace(config);
      trainer = job->trainer(directory, !quiet());
      trainer->plan();
    }
    const train::RunDirectory made = train::RunDirectory::create(directory, train::to_toml(config));
    try {
      train_in(*job, *trainer, directory);
    } catch (const Error&) {  // no step was taken: the name is free for another try
      if (train::Checkpoints(made.checkpoints()).list().empty())
        std::filesystem::remove_all(made.path());
      throw;
    }
  }
};

struct Resume {
  std::string directory, memory;
  std::vector<std::string> set;

  void run() const {
    check_alone("resume");
    const train::RunDirectory run = train::RunDirectory::open(directory);
    std::vector<std::string> all = set;
    if (!memory.empty()) all.push_back(budget_override(memory));
    std::optional<train::Job> job;
    std::unique_ptr<train::Trainer> trainer;
    {
      const Interrupted before("before it went on; the run is as it was");
      job.emplace(train::load_config(run.config(), all));
      trainer = job->trainer(directory, !quiet());
      trainer->plan();
    }
    train_in(*job, *trainer, directory);
  }
};

}  // namespace

void add_train(CLI::App& app) {
  auto train = std::make_shared<Train>();
  CLI::App* c = app.add_subcommand("train",
                                   "train what a config says\n\n"
                                   "Prints the plan first, then one live line. Ctrl-C saves and "
                                   "ends; ebb resume goes on from there, to the "
                                   "bit. The directory of the run holds metrics (csv, jsonl, "
                                   "TensorBoard), checkpoints and the model.");
  c->group(group::kTrain);
  c->footer(
      "ebb train train.toml --memory 64MiB\n"
      "ebb train train.toml --set train.lr=0.01 --out runs/slow\n");
  train->flags.add(*c);
  c->add_option("--out", train->out,
                "directory of the run; runs/ and the config's name where it is not said")
      ->type_name(value::kFolder);
  add_quiet(*c);
  c->callback([train] { train->run(); });

  auto resume = std::make_shared<Resume>();
  CLI::App* r = app.add_subcommand("resume",
                                   "go on from a run's last checkpoint, to the bit\n\n"
                                   "The budget and the number of threads may be others; model, "
                                   "data and way of training are the run's own.");
  r->group(group::kTrain);
  r->footer(
      "ebb resume runs/train\n"
      "ebb resume runs/train --memory 2GiB         # the same bits in another budget\n"
      "ebb resume runs/train --set train.epochs=20 # longer\n");
  r->add_option("run", resume->directory, "directory of the run")
      ->required()
      ->type_name(value::kRun);
  add_memory(*r, resume->memory);
  r->add_option("--set", resume->set,
                "section.key=value: epochs, threads, what is printed and kept; may be repeated")
      ->allow_extra_args(false)
      ->type_name(value::kSetting);
  add_quiet(*r);
  r->callback([resume] { resume->run(); });
}

}  // namespace ebb::app
