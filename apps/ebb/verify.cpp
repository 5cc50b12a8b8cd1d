// The promises, on the user's own model and data: each run in a process of its own, weights compared by SHA-256.
#include "apps/ebb/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/processes.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/process.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/open.hpp"

namespace ebb::app {
namespace {

constexpr double kSeconds = 30;      // of steps, all runs together
constexpr double kRuns = 8;          // what they come to, in runs without a budget
constexpr std::int64_t kMost = 100;  // steps of a run

// A folder that is gone when this is.
struct Scratch {
  Scratch() {
    std::string name = temporary_folder() + "/ebb-verify-XXXXXX";
    if (!::mkdtemp(name.data()))
      throw FileError(
          fmt::format("cannot make a folder in {}: set TMPDIR to one that can be "
                      "written",
                      temporary_folder()));
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path;
};

const char* name(Verdict v) {
  constexpr const char* kNames[] = {"same bits", "same gradient", "does not apply", "FAILS"};
  return kNames[static_cast<int>(v)];
}

std::string too_little(const VerifyAnswer& a) {
  const process::Available all = process::available();
  return fmt::format(
      "a run without a budget does not fit this machine, nor did it in {} ({}): {}; free memory, "
      "raise the limit or take smaller batches (train.batch), and verify again",
      to_string(ByteSize{process::safe_budget(all)}), all.source, a.refusal);
}

}  // namespace

// What all runs have in common comes last: it counts.
VerifyTask Verify::task(std::vector<std::string> more) const {
  VerifyTask t{.config = flags.config, .set = flags.overrides()};
  t.set.insert(t.set.end(), more.begin(), more.end());
  for (const char* s : {"every.eval=never", "every.save=never", "every.sample=never",
                        "output.tensorboard=false", "output.csv=false", "train.patience=0"})
    t.set.emplace_back(s);
  if (steps > 0) t.set.push_back(fmt::format("train.steps={}", steps));
  return t;
}

const VerifyAnswer& Verify::tried(const std::string& what, const VerifyTask& t) {
  return noted(what, attempt(t));
}

VerifyAnswer Verify::attempt(VerifyTask t) {
  const auto budget = std::find(t.set.begin(), t.set.end(), "memory.budget=none");
  if (budget == t.set.end() || t.processes > 0) return run_apart(t);
  for (;;) {
    if (!roomy) *budget = "memory.budget=auto";
    VerifyAnswer a = run_apart(t);
    if (!a.killed) return a;
    if (!roomy) throw Exit{complain("verify: " + too_little(a), 1)};
    noted("no budget", std::move(a));
    roomy = false;
    std::error_code ignored;
    if (t.stop_after > 0) std::filesystem::remove_all(t.directory, ignored);
  }
}

const VerifyAnswer& Verify::noted(const std::string& what, VerifyAnswer answer) {
  trials.push_back({what, std::move(answer)});
  const VerifyAnswer& a = trials.back().answer;
  if (json) return a;
  if (!a.ran)
    say(fmt::format("  {:<26} {}\n", what, wrapped(a.refusal, 29)));
  else
    say(fmt::format("  {:<26} {:>10}  {:>8}  {}  {}\n", what, to_string(ByteSize{a.peak}),
                    readable_time(a.seconds), a.digest.substr(0, 12), wrapped(a.how, 65)));
  return a;
}

std::uint64_t Verify::asked() const {
  if (flags.memory.empty()) return 0;
  const train::BudgetConfig budget = flags.load().memory.budget;
  return budget.kind == train::BudgetConfig::Kind::bytes ? budget.bytes : 0;
}

void Verify::run() {
  const train::MemoryConfig memory = flags.load().memory;  // mistakes are told here, and once
  if (memory.activations != train::Precision::f32 || memory.independent_micro_batches)
    throw Error(fmt::format(
        "{}: it asks for an approximation, and the promises are of what is none; --set {} leaves "
        "it out",
        flags.config,
        memory.independent_micro_batches ? "memory.independent_micro_batches=false"
                                         : "memory.activations=f32"));
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  if (!processes.empty() && processes.back() > 1) {
    if (dist::launched())
      throw Error(
          "verify: a launcher has started this process, and --processes starts others; leave the "
          "launcher out");
    dist::check_launcher();
    check_room("verify", processes.back());
  }
  const VerifyAnswer plan = plan_of("none");
  if (asked() && asked() < plan.minimum)
    throw Exit{complain(fmt::format("{}: the budget of {} is too small: the smallest with the same "
                                    "bits is {} ({} bytes)",
                                    flags.config, to_string(ByteSize{asked()}),
                                    plan::enough(plan.minimum), plan.minimum),
                        3)};
  const std::uint64_t room = process::available().bytes;
  roomy = plan.unlimited < room / 10 * 9;
  if (steps == 0) {
    const double each = std::max(plan.step_seconds, 1e-4);
    const double runs = kRuns + static_cast<double>(processes.size());
    steps = std::clamp<std::int64_t>(static_cast<std::int64_t>(kSeconds / runs / each), 4, kMost);
  }
  begin(plan);
  const StopTogether together;
  const Scratch folder;
  const std::string weights = folder.path + "/weights";
  VerifyTask free = task({"memory.budget=none"});
  free.values_to = weights;
  VerifyAnswer first = attempt(free);
  whole = noted(roomy ? "no budget" : "all memory there is", std::move(first));
  if (!whole.ran) throw Exit{complain("verify: " + whole.refusal, whole.code == 3 ? 3 : 1)};
  in_budget(plan);
  in_parts(free, plan);
  on_one_thread();
  taken_up(folder.path + "/run");
  for (const int count : processes) on_processes(count, free, plan);
  finish();
}

VerifyAnswer Verify::plan_of(const std::string& budget) {
  VerifyTask t = task({"memory.budget=" + budget, "memory.allow=same_bits"});
  t.plan_only = true;
  VerifyAnswer a = run_apart(t);
  if (a.killed) throw Exit{complain("verify: " + too_little(a), 1)};
  if (!a.ran) throw Exit{complain(a.refusal, a.code > 0 && a.code < 4 ? a.code : 1)};
  return a;
}

void Verify::begin(const VerifyAnswer& plan) const {
  if (json) return;
  say(fmt::format(
      "{}: {} steps of {} examples, {} weights; each run in a process of its own\n\n"
      "  {:<26} {:>10}  {:>8}  {:<12}  {}\n",
      flags.config, steps, plan.batch, plan.weights, "run", "peak", "time", "weights", "how"));
}

void Verify::finish() const {
  const bool good = std::none_of(promises.begin(), promises.end(),
                                 [](const Promise& p) { return p.verdict == Verdict::fails; });
  print(json ? as_json(good) : as_text(good));
  if (!good) throw Exit{complain("verify: a promise does not hold; please report it", 1)};
}

std::string Verify::as_text(bool good) const {
  std::string text = "\n";
  for (const Promise& p : promises)
    text += fmt::format("  {:<26} {:<15} {}\n", p.what,
                        p.id == "fits" && p.verdict == Verdict::holds ? "yes" : name(p.verdict),
                        wrapped(p.why, 45));
  return text + fmt::format("\n{}\nsha-256 of the weights after {} steps: {}\n",
                            good ? "every promise holds" : "NOT every promise holds", whole.steps,
                            whole.digest);
}

std::string Verify::as_json(bool good) const {
  nlohmann::json all = {{"config", flags.config},
                        {"steps", whole.steps},
                        {"batch", whole.batch},
                        {"weights", whole.weights},
                        {"digest", whole.digest},
                        {"holds", good},
                        {"runs", nlohmann::json::array()},
                        {"promises", nlohmann::json::array()}};
  for (const Trial& t : trials)
    all["runs"].push_back({{"run", t.what},
                           {"digest", t.answer.digest},
                           {"peak", t.answer.peak},
                           {"budget", t.answer.budget},
                           {"threads", t.answer.threads},
                           {"seconds", t.answer.seconds},
                           {"how", t.answer.how},
                           {"label", t.answer.label},
                           {"refusal", t.answer.refusal}});
  for (const Promise& p : promises) {
    all["promises"].push_back({{"id", p.id},
                               {"promise", p.what},
                               {"verdict", name(p.verdict)},
                               {"holds", p.verdict != Verdict::fails},
                               {"why", p.why}});
    if (p.bound > 0)
      all["promises"].back().update({{"difference", p.difference}, {"bound", p.bound}});
  }
  return all.dump() + "\n";
}

void add_verify(CLI::App& app) {
  auto verify = std::make_shared<Verify>();
  CLI::App* c = app.add_subcommand(
      "verify",
      "prove the promises on your own model and data\n\n"
      "Trains a few steps in about a minute: without a budget, in a "
      "tight one, in micro-batches, with one thread, "
      "stopped and resumed; with --processes, on several. Weights are compared by their SHA-256. "
      "Where a split of the batch is equal up to "
      "rounding only, as its plan says, the gradients of one step are "
      "compared with what rounding can come to. "
      "Exit code 1: a promise does not hold.");
  c->group(group::kTrain);
  c->footer(
      "ebb verify train.toml\nebb verify train.toml --steps 20 --json\n"
      "ebb verify train.toml --processes 2,3,4     # worlds of several, too\n");
  verify->flags.add(*c);
  c->add_option("--steps", verify->steps, "steps of each run; as many as take half a minute")
      ->check(number_from(2, 1000000))
      ->type_name(value::kNumber);
  c->add_option("--processes", verify->processes,
                "also with so many processes on this machine, such as 2,3,4")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_from(1, 1024))
      ->type_name(value::kNumbers);
  add_json(*c, verify->json);
  add_quiet(*c);
  c->add_option("--spoil", verify->spoil)->group("");
  c->callback([verify] { verify->run(); });
  add_verify_run(app);
}

}  // namespace ebb::app
