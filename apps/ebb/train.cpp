#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/interrupted.hpp"
#include "apps/ebb/processes.hpp"
#include "apps/ebb/runs.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/train/run/run_directory.hpp"
#include "ebb/train/run/stop_signal.hpp"

namespace ebb::app {
namespace {

std::string held_out(const train::Outcome& out) {
  const auto& e = out.best ? out.best : out.last;
  if (!e || e->figures.empty()) return "";
  std::string text = "; held out:";
  for (const train::Figure& f : e->figures) text += fmt::format("  {} {:.4g}", f.name, f.value);
  return text;
}

std::string not_taken(const train::Outcome& out) {
  if (out.not_taken == 0) return "";
  return fmt::format("{} step{} not taken; the first: {}\n", out.not_taken,
                     out.not_taken == 1 ? " was" : "s were", out.first_not_taken);
}

std::string summary(const train::Outcome& out) {
  return fmt::format("step {}, loss {:.4g}, {}{}\n{}memory: forecast {}, measured peak {}{}\n",
                     out.step, out.loss, readable_time(out.seconds), held_out(out), not_taken(out),
                     to_string(ByteSize{out.forecast}), to_string(ByteSize{out.peak}),
                     Budget::now() ? ", budget " + to_string(ByteSize{Budget::now()}) : "");
}

// Of a run that was over before this process came.
std::string nothing_to_do(const std::string& directory, const train::Job& job,
                          const train::Outcome& out) {
  const bool finished = out.why == train::Outcome::Why::finished;
  const char* key = !finished                    ? "train.patience"
                    : job.config.train.steps > 0 ? "train.steps"
                                                 : "train.epochs";
  return fmt::format(
      "{}: {} at step {}, loss {:.4g}{}\nnothing is left to do; a larger {} (--set) goes on\n",
      directory, finished ? "finished" : "stopped early", out.step, out.loss, held_out(out), key);
}

// Whatever fails from the first step on is no mistake in what was asked for.
train::Outcome run_steps(train::Trainer& trainer, const train::StopSignal& stop,
                         const std::string& directory) {
  bool stepped = false;
  trainer.on_step = [&](std::int64_t, double) { stepped = true; };
  const auto failed = [&](const Error& e) {
    const std::string_view what = e.what();
    return Exit{complain(
        fmt::format("{}; ebb resume {} {}", what.substr(0, what.find('\n')), directory,
                    train::RunDirectory::has_saved_nothing(directory)
                        ? "--set KEY=VALUE begins it again, as does ebb train --out with that name"
                        : "goes on from there"),
        1)};
  };
  try {
    return trainer.run(stop);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const dist::RankLost&) {
    throw;
  } catch (const train::NotFinite& e) {
    throw failed(e);
  } catch (const Error& e) {
    if (!stepped) throw;
    throw failed(e);
  }
}

constexpr char kAsItWas[] = "before it went on; the run is as it was";

// The exit code: not 0 where a signal has stopped it, on all ranks alike.
int train_in(dist::World& world, train::Job& job, train::Trainer& trainer,
             const train::StopSignal& stop, const std::string& directory,
             const train::Standing& standing, train::TimelineFile* timeline) {
  const bool over = standing.over.has_value();
  const train::Outcome out = run_steps(trainer, stop, directory);
  if (timeline) timeline->write();
  const train::RunDirectory run = train::RunDirectory::open(directory);
  by_first(world, "the model", [&] {
    const train::Checkpoints checkpoints(run.checkpoints());
    try {
      if (const auto best = checkpoints.best() ? checkpoints.best() : checkpoints.latest())
        export_model(best->path, job, run.model());
    } catch (const FileError& e) {
      throw Exit{complain(fmt::format("{}; all steps are saved, and ebb resume {} writes the model",
                                      e.what(), directory),
                          1)};
    }
  });
  say(over ? nothing_to_do(directory, job, out) : summary(out));
  say(fmt::format("model: {}\n", run.model()));
  if (out.why != train::Outcome::Why::signal) return 0;
  const int code = 128 + (out.signal ? out.signal : SIGTERM);  // another rank's
  if (!world.first()) return code;
  return complain(fmt::format("stopped by a signal and saved; ebb resume {} goes on", directory),
                  code);
}

struct Train {
  ConfigFlags flags;
  std::string out, trace;
  int processes = 0;

  void run() const {
    in_world(
        "train", processes, [this] { return flags.load(); },
        [this](dist::World& world) { return run(world); });
  }

  int run(dist::World& world) const {
    train::Config config;
    std::string directory;
    together(&world, "the config", [&] { config = flags.load(); });
    if (world.first()) mind_limit(config);
    world.check_same("config", train::of_all_ranks(config));
    by_first(world, "the run's directory", [&] {
      directory = !out.empty() ? out : config.output.directory;
      if (directory.empty())
        directory = train::RunDirectory::next_free(usual_run(flags.config));
      else
        train::RunDirectory::check_free(directory);
    });
    directory = world.broadcast(directory);
    const bool again = train::RunDirectory::is_run(directory);
    std::optional<train::Job> job;
    std::unique_ptr<train::TimelineFile> timeline;
    std::unique_ptr<train::Trainer> trainer;
    {
      // Until all is known to fit nothing is written, so that nothing is left behind.
      const Interrupted before("before the first step; nothing was written");
      together(&world, "the data", [&] {
        job.emplace(config);
        check_rows("train", world, *job);
      });
      job->world = &world;
      timeline = timeline_in(trace, world);
      trainer = job->trainer(directory, !quiet());
      warn(job->data->notes);
      say(to_string(trainer->plan()) + place_of_rows(*job));
    }
    const train::StopSignal stop;  // from here on all that was begun is written
    const std::string text = train::to_toml(config);
    if (again) say(fmt::format("{}: the run there has saved nothing; it begins anew\n", directory));
    by_first(world, "the run's directory", [&] {
      again ? train::RunDirectory::begin_anew(directory, text)
            : train::RunDirectory::create(directory, text);
    });
    bool seen = false;
    try {
      check_seen(world, directory, text);
      seen = true;
      return train_in(world, *job, *trainer, stop, directory, {}, timeline.get());
    } catch (
        const dist::RankLost&) {  // also before its first save a run is there, to go on from step 0
      throw;
    } catch (const Error&) {  // no step was taken: the name is free for another try
      std::error_code left_as_it_is;
      if (world.first() && !again && (trainer->holds_directory() || !seen) &&
          train::RunDirectory::has_saved_nothing(directory))
        std::filesystem::remove_all(directory, left_as_it_is);
      throw;
    }
  }
};

struct Resume {
  std::string directory, memory, trace;
  std::vector<std::string> set;
  int processes = 0;

  void run() const {
    in_world(
        "resume", processes, [this] { return load(); },
        [this](dist::World& world) { return run(world); });
  }

  std::vector<std::string> overrides() const {
    std::vector<std::string> all = set;
    if (!memory.empty()) all.push_back(budget_override(memory));
    return all;
  }
  train::Config load() const {
    return train::load_config(train::RunDirectory::open(directory).config(), overrides());
  }

  int run(dist::World& world) const {
    train::Config config;
    together(&world, "the run", [&] { config = load(); });
    world.check_same("config", train::of_all_ranks(config));
    std::optional<train::Job> job;
    std::unique_ptr<train::TimelineFile> timeline;
    std::unique_ptr<train::Trainer> trainer;
    train::Standing standing;
    {
      const Interrupted before(kAsItWas);
      together(&world, "the data", [&] {
        job.emplace(config);
        check_rows("resume", world, *job);
      });
      job->world = &world;
      timeline = timeline_in(trace, world);
      if (world.first()) mind_limit(job->config);
      trainer = job->trainer(directory, !quiet());
      standing = trainer->take_up();
    }
    const train::StopSignal stop;
    if (!standing.saved)
      say(fmt::format("{}: nothing was saved there; it begins at step 0\n", directory));
    if (!standing.over) say(to_string(trainer->plan()) + place_of_rows(*job));
    // It was not refused: who goes on later goes on with it.
    by_first(world, "the run's config", [&] {
      if (!overrides().empty())
        write_file(train::RunDirectory::open(directory).config(), train::to_toml(job->config));
    });
    return train_in(world, *job, *trainer, stop, directory, standing, timeline.get());
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
      "ebb train train.toml --set train.lr=0.01 --out runs/slow\n"
      "ebb train train.toml --processes 4          # the same bits on four processes\n");
  train->flags.add(*c);
  c->add_option("--out", train->out,
                "directory of the run; runs/ and the config's name where it is not said")
      ->type_name(value::kFolder);
  add_processes(*c, train->processes);
  add_trace(*c, train->trace);
  add_quiet(*c);
  c->callback([train] { train->run(); });

  auto resume = std::make_shared<Resume>();
  CLI::App* r = app.add_subcommand("resume",
                                   "go on from a run's last checkpoint, to the bit\n\n"
                                   "The budget and the number of threads may be others; model, "
                                   "data and way of training are the run's own. What is said here "
                                   "is kept in the run's config.toml.");
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
  add_processes(*r, resume->processes);
  add_trace(*r, resume->trace);
  add_quiet(*r);
  r->callback([resume] { resume->run(); });
}

}  // namespace ebb::app
