#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/frontier_svg.hpp"
#include "apps/ebb/interrupted.hpp"
#include "apps/ebb/plan_processes.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/process.hpp"

namespace ebb::app {
namespace {

// The frontier is the step's, and begins with its smallest budget; what runs beside it takes some more.
std::vector<plan::FrontierPoint> from_minimum(std::vector<plan::FrontierPoint> frontier,
                                              std::uint64_t minimum) {
  if (frontier.empty() || frontier.front().budget >= minimum) return frontier;
  const std::uint64_t more = minimum - frontier.front().budget;
  for (plan::FrontierPoint& p : frontier) p.budget += more;
  return frontier;
}

struct PlanCommand {
  ConfigFlags flags;
  AskedProcesses processes;
  std::string svg;
  bool json = false;

  void run() const {
    const Interrupted quiet("while planning; nothing was run");
    if (!processes.counts.empty()) return plan_processes(flags, processes, json);
    const train::Config config = flags.load();
    mind_limit(config);
    try {
      train::Job job(config, train::Opening::shape);
      const auto trainer = job.trainer("", false);
      warn(job.data->notes);
      // The step shares the budget with what evaluates: the smallest is of both.
      plan::Plan plan = trainer->plan();
      plan.minimum = smallest_budget();
      plan.frontier = from_minimum(plan.frontier, plan.minimum);
      fits(job, plan);
    } catch (const BudgetTooSmall& e) {
      does_not_fit(config, e);
    }
  }

  static double seconds_of(const train::Job& job, const plan::Plan& plan) {
    return plan.forecast.seconds * static_cast<double>(job.length.steps);
  }

  // Rows of text files are known to nobody who has not looked.
  static std::string scanned(const train::RunData& data) {
    if (data.scanned == 0) return "";
    return fmt::format(
        "  data looked through   {:>10}   for its rows and columns; none of it is held\n",
        to_string(ByteSize{data.scanned}));
  }

  void fits(const train::Job& job, const plan::Plan& plan) const {
    const double seconds = seconds_of(job, plan);
    if (!svg.empty())
      write_file(svg, frontier_svg({.frontier = plan.frontier,
                                    .budget = plan.budget,
                                    .chosen_seconds = plan.forecast.seconds,
                                    .minimum = plan.minimum,
                                    .title = flags.config}));
    if (json) {
      nlohmann::json all = nlohmann::json::parse(plan.json());
      all["fits"] = true;
      all["smallest_budget"] = plan.minimum;
      all["steps"] = job.length.steps;
      all["steps_per_epoch"] = job.length.per_epoch;
      all["run_seconds"] = seconds;
      all["data_scanned"] = job.data->scanned;
      all["data_in_memory"] = job.data->held.in_memory + job.data->drawn;
      all["data_in_files"] = job.data->held.in_files;
      return print(all.dump() + "\n");
    }
    print(to_string(plan) +
          fmt::format("  time of the run       {:>10}   {} steps, {} an epoch; evaluations and "
                      "saving come on top\n",
                      readable_time(seconds), job.length.steps, job.length.per_epoch) +
          place_of_rows(job) + scanned(*job.data));
    if (!svg.empty()) say(fmt::format("wrote {}\n", svg));
  }

  // Data may be more than memory has addresses for: then it is left in its files.
  static void open_without_budget(train::Config config, std::optional<train::Job>& job) {
    using train::InMemory;
    config.memory.budget = {.kind = train::BudgetConfig::Kind::none};
    try {
      job.emplace(config, train::Opening::shape);
      return;
    } catch (const OutOfMemory&) {
      if (config.data.in_memory != InMemory::automatic) throw;
    }
    config.data.in_memory = InMemory::no;
    job.emplace(config, train::Opening::shape);
  }

  // The menu is the answer; the line on stderr says that it is a refusal. A plan without a budget knows the
  // smallest for all that will run, where the refusal may have come before all of it was seen.
  [[noreturn]] void does_not_fit(const train::Config& config, const BudgetTooSmall& e) const {
    std::optional<train::Job> free;
    open_without_budget(config, free);
    train::Job& job = *free;
    const auto trainer = job.trainer("", false);
    plan::Plan plan = trainer->plan();
    const std::uint64_t minimum = std::max(e.minimum, smallest_budget());
    plan.frontier = from_minimum(plan.frontier, minimum);
    const bool automatic = config.memory.budget.kind == train::BudgetConfig::Kind::automatic;
    const std::uint64_t budget =
        automatic ? process::safe_budget(process::available()) : config.memory.budget.bytes;
    if (!svg.empty())
      write_file(svg, frontier_svg({.frontier = plan.frontier,
                                    .budget = budget,
                                    .minimum = minimum,
                                    .title = flags.config}));
    if (json) {
      nlohmann::json all = {{"fits", false},
                            {"budget", budget},
                            {"smallest_budget", minimum},
                            {"steps", job.length.steps},
                            {"steps_per_epoch", job.length.per_epoch},
                            {"frontier", nlohmann::json::parse(plan.json())["frontier"]}};
      print(all.dump() + "\n");
    } else {
      print("what does fit:\n" + menu(plan));
    }
    throw Exit{complain(
        fmt::format(
            "{}: the budget of {} ({} bytes) is too small: the smallest that does is {} ({} bytes)",
            flags.config, to_string(ByteSize{budget}), budget, plan::enough(minimum), minimum),
        3)};
  }

  static std::string menu(const plan::Plan& plan) {
    std::string text = "      budget  time a step  label          how\n";
    for (const plan::FrontierPoint& p : plan.frontier)
      text += fmt::format("  {:>10}  {:>11}  {:<13}  {}\n", plan::enough(p.budget),
                          readable_time(p.seconds), name(p.label), p.text());
    return text;
  }
};

}  // namespace

void add_plan(CLI::App& app) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* c = app.add_subcommand(
      "plan",
      "does it fit, how, at what cost: nothing runs\n\n"
      "Reads what the data looks like and nothing else of it: csv, jsonl and text "
      "files are looked through once, in little memory, for their rows. Says what the "
      "process will hold at its peak and of "
      "what kind, how long a step and the run will take, the smallest budget, "
      "and what each budget in between "
      "costs. A label stands beside each way: same bits, same gradient (equal "
      "up to rounding), approximate. "
      "Exit code 3: the budget cannot be met, and what could be is listed.");
  c->group(group::kTrain);
  c->footer(
      "ebb plan train.toml --memory 64MiB\n"
      "ebb plan train.toml --memory auto --json\n"
      "ebb plan train.toml --svg frontier.svg      # time over budget, as a picture\n"
      "ebb plan train.toml --processes 1,2,8 --network 10Gbit/s,50us\n");
  command->flags.add(*c);
  add_json(*c, command->json);
  CLI::Option* svg = c->add_option("--svg", command->svg, "write a picture of time over budget")
                         ->type_name(value::kFile);
  add_asked_processes(*c, command->processes);
  svg->excludes("--processes");
  c->callback([command] { command->run(); });
}

}  // namespace ebb::app
