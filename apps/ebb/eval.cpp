#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/ebb/asked_budget.hpp"
#include "apps/ebb/asked_rows.hpp"
#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/runs.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/train/run/run_directory.hpp"

namespace ebb::app {
namespace {

struct Eval {
  std::string path, data, target, memory;
  bool json = false, last = false;

  // Of a config, the run that was begun with it last.
  std::string directory() const {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return path;
    return last_run(train::load_config(path), path);
  }

  std::optional<Dataset> rows_of(const train::Job& job) const {
    if (!data.empty()) return rows_with_targets(job, data, target);
    try {
      return train::open_data(job.config).validation;
    } catch (const FileError& e) {  // a model may be far from where it has learnt
      throw FileError(fmt::format("{}; name rows to measure by with --data", e.what()));
    }
  }

  static void refuse_too_little(train::Job& job, const Dataset& rows, AskedBudget& budget) {
    const nn::Evaluation quiet;
    budget.compiling(train::compile_options(job.config), [&](const CompileOptions& options) {
      return compile(rows.spec(), options, [&](const Batch& b) { return job.model.measure(b); });
    });
  }

  void run() const {
    const std::string from = directory();
    AskedBudget budget(memory);
    train::Job job = open_run(budget, from, memory, last ? train::Which::last : train::Which::best);
    const std::optional<Dataset> rows = budget.with_rows(job.config, [&] {
      std::optional<Dataset> read = budget.reading([&] { return rows_of(job); });
      if (!read)
        throw Error(fmt::format("{}: the run holds no data out; name some with --data", from));
      if (budget.bytes()) refuse_too_little(job, *read, budget);
      return read;
    });
    const std::vector<train::Figure> figures = job.evaluate(*rows);
    if (json) {
      nlohmann::json all = {{"run", from}, {"step", job.from.step}, {"rows", rows->size()}};
      for (const train::Figure& f : figures) all["figures"][f.name] = f.value;
      return print(all.dump() + "\n");
    }
    std::string line = fmt::format("{}: step {}, {} rows:", from, job.from.step, rows->size());
    for (const train::Figure& f : figures) line += fmt::format("  {} {:.6g}", f.name, f.value);
    print(line + "\n");
  }
};

}  // namespace

void add_eval(CLI::App& app) {
  auto eval = std::make_shared<Eval>();
  CLI::App* c = app.add_subcommand("eval",
                                   "figures of a trained model on data it has not seen\n\n"
                                   "Of a config, the run that ebb train made of it last is taken.");
  c->group(group::kUse);
  c->footer(
      "ebb eval runs/train\n"
      "ebb eval train.toml\n"
      "ebb eval runs/train --data test.csv --json\n");
  c->add_option("run", eval->path,
                "directory of a run, one of its checkpoints or its model; or a config")
      ->required()
      ->type_name(value::kPath);
  c->add_option("--data", eval->data,
                "a file like the one it was trained on; what was held out where it is not said")
      ->type_name(value::kFile);
  c->add_option("--target", eval->target, "the file of their targets, of npy and idx")
      ->type_name(value::kFile);
  add_memory(*c, eval->memory);
  c->add_flag("--last", eval->last, "the last checkpoint, not the best");
  add_json(*c, eval->json);
  c->callback([eval] { eval->run(); });
}

}  // namespace ebb::app
