// The promises, on the user's own model and data: each run in a process of its own, weights compared by SHA-256.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/verify_run.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/process.hpp"

namespace ebb::app {
namespace {

constexpr double kSeconds = 30;      // of steps, all runs together
constexpr double kRuns = 8;          // what they come to, in runs without a budget
constexpr std::int64_t kMost = 100;  // steps of a run
constexpr double kSlower = 3;        // a budget is taken that costs no more than so many times

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

enum class Verdict { holds, up_to_rounding, does_not_apply, fails };
const char* name(Verdict v) {
  constexpr const char* kNames[] = {"same bits", "same gradient", "does not apply", "FAILS"};
  return kNames[static_cast<int>(v)];
}

struct Promise {
  std::string id, what;
  Verdict verdict = Verdict::holds;
  std::string why;
  double difference = 0, bound = 0;  // of what is equal up to rounding
};

struct Trial {
  std::string what;
  VerifyAnswer answer;
};

struct Verify {
  ConfigFlags flags;
  std::int64_t steps = 0;
  bool json = false;
  double spoil = 0;  // for tests: the split run is wrong by this share

  std::deque<Trial> trials = {};  // answers stay where they are
  std::vector<Promise> promises = {};
  VerifyAnswer whole = {};

  // What all runs have in common comes last: it counts.
  VerifyTask task(std::vector<std::string> more) const {
    VerifyTask t{.config = flags.config, .set = flags.overrides()};
    t.set.insert(t.set.end(), more.begin(), more.end());
    for (const char* s : {"every.eval=never", "every.save=never", "every.sample=never",
                          "output.tensorboard=false", "output.csv=false", "train.patience=0"})
      t.set.emplace_back(s);
    if (steps > 0) t.set.push_back(fmt::format("train.steps={}", steps));
    return t;
  }

  const VerifyAnswer& tried(const std::string& what, const VerifyTask& t) {
    return noted(what, run_apart(t));
  }
  const VerifyAnswer& noted(const std::string& what, VerifyAnswer answer) {
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

  void compare(const std::string& id, const std::string& what, const VerifyAnswer& a) {
    Promise p{id, what, Verdict::holds, ""};
    if (!a.ran)
      p = {id, what, Verdict::fails, a.refusal};
    else if (a.digest != whole.digest)
      p = {id, what, Verdict::fails,
           fmt::format("the weights differ: {} and {}", a.digest.substr(0, 12),
                       whole.digest.substr(0, 12))};
    promises.push_back(std::move(p));
  }

  // The budget that --memory names, in bytes; 0: none.
  std::uint64_t asked() const {
    if (flags.memory.empty()) return 0;
    const train::BudgetConfig budget = flags.load().memory.budget;
    return budget.kind == train::BudgetConfig::Kind::bytes ? budget.bytes : 0;
  }

  // The smallest budget that does not cost too much time.
  static std::uint64_t tight(const VerifyAnswer& plan) {
    std::uint64_t best = plan.unlimited;
    double fastest = plan.step_seconds;
    for (const auto& [budget, seconds] : plan.frontier) fastest = std::min(fastest, seconds);
    for (const auto& [budget, seconds] : plan.frontier)
      if (seconds <= kSlower * fastest) best = std::min(best, budget);
    return std::max(best, plan.minimum);
  }

  void run() {
    const train::MemoryConfig memory = flags.load().memory;  // mistakes are told here, and once
    if (memory.activations != train::Precision::f32 || memory.independent_micro_batches)
      throw Error(fmt::format(
          "{}: it asks for an approximation, and the promises are of what is none; --set {} leaves "
          "it out",
          flags.config,
          memory.independent_micro_batches ? "memory.independent_micro_batches=false"
                                           : "memory.activations=f32"));
    const VerifyAnswer plan = plan_of("none");
    if (asked() && asked() < plan.minimum)
      throw Exit{
          complain(fmt::format("{}: the budget of {} is too small: the smallest with the same "
                               "bits is {} ({} bytes)",
                               flags.config, to_string(ByteSize{asked()}),
                               plan::enough(plan.minimum), plan.minimum),
                   3)};
    const std::uint64_t room = process::available().bytes;
    const bool roomy = plan.unlimited < room / 10 * 9;
    if (steps == 0) {
      const double each = std::max(plan.step_seconds, 1e-4);
      steps =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(kSeconds / kRuns / each), 4, kMost);
    }
    begin(plan);
    const StopTogether together;
    const Scratch folder;
    const std::string weights = folder.path + "/weights";
    VerifyTask free = task({roomy ? "memory.budget=none" : "memory.budget=auto"});
    free.values_to = weights;
    whole = tried(roomy ? "no budget" : "all memory there is", free);
    if (!whole.ran) throw Exit{complain("verify: " + whole.refusal, whole.code == 3 ? 3 : 1)};
    in_budget(plan);
    in_parts(free, plan);
    on_one_thread();
    taken_up(folder.path + "/run");
    finish();
  }

  VerifyAnswer plan_of(const std::string& budget) {
    VerifyTask t = task({"memory.budget=" + budget, "memory.allow=same_bits"});
    t.plan_only = true;
    VerifyAnswer a = run_apart(t);
    if (!a.ran) throw Exit{complain(a.refusal, a.code > 0 && a.code < 4 ? a.code : 1)};
    return a;
  }

  void begin(const VerifyAnswer& plan) const {
    if (json) return;
    say(fmt::format(
        "{}: {} steps of {} examples, {} weights; each run in a process of its own\n\n"
        "  {:<26} {:>10}  {:>8}  {:<12}  {}\n",
        flags.config, steps, plan.batch, plan.weights, "run", "peak", "time", "weights", "how"));
  }

  void in_budget(const VerifyAnswer& plan) {
    const std::uint64_t bytes = asked() ? asked() : tight(plan);
    const VerifyAnswer& a =
        tried(fmt::format("budget {}", to_string(ByteSize{bytes})),
              task({fmt::format("memory.budget={}B", bytes), "memory.allow=same_bits"}));
    compare("budget", "budget = no budget", a);
    if (!a.ran) return;
    Promise fits{"fits", "it fits", Verdict::holds,
                 fmt::format("peak {} in a budget of {}", to_string(ByteSize{a.peak}),
                             to_string(ByteSize{bytes}))};
    if (a.peak > bytes) fits.verdict = Verdict::fails;
    promises.insert(promises.begin(), std::move(fits));
  }

  void in_parts(const VerifyTask& free, const VerifyAnswer& plan) {
    const std::int64_t part = std::max<std::int64_t>(1, (plan.batch + 2) / 3);  // a ragged third
    const std::string id = "split", what = "split = whole";
    if (plan.batch < 2) {
      promises.push_back({id, what, Verdict::does_not_apply, "a batch is one example"});
      return;
    }
    VerifyTask t = task({"memory.budget=none", fmt::format("memory.micro_batch={}", part),
                         "memory.allow=same_bits"});
    const std::string run = fmt::format("micro-batches of {}", part);
    VerifyAnswer a = run_apart(t);
    if (a.ran) return compare(id, what, noted(run, a));
    // Splits that round otherwise are a label of their own, and are said to be so in every plan.
    std::replace(t.set.begin(), t.set.end(), std::string("memory.allow=same_bits"),
                 std::string("memory.allow=same_gradient"));
    t.compare_with = free.values_to;
    const std::string why = a.refusal;
    a = run_apart(t);
    if (!a.ran) {
      promises.push_back({id, what, Verdict::does_not_apply, why});
      return;
    }
    noted(run, a);
    if (a.digest == whole.digest) return compare(id, what, a);
    promises.push_back(up_to_rounding(a, t, free));
  }

  // Of one step: after many, rounding has grown with the training, and weights say little.
  Promise up_to_rounding(const VerifyAnswer& after, VerifyTask parts, VerifyTask whole_batch) {
    Promise p{"split", "split = whole", Verdict::up_to_rounding, ""};
    whole_batch.gradient = parts.gradient = true;
    whole_batch.values_to += ".gradient";
    parts.compare_with = whole_batch.values_to;
    parts.spoil = spoil;
    VerifyAnswer a = run_apart(whole_batch);
    if (a.ran) a = run_apart(parts);
    if (!a.ran) return {p.id, p.what, Verdict::fails, a.refusal};
    p.difference = a.difference;
    p.bound = a.bound;
    if (!(a.difference <= a.bound)) {
      p.verdict = Verdict::fails;
      p.why = fmt::format(
          "the gradient of one step differs by {:.1e}, where rounding is {:.0e} at "
          "most",
          a.difference, a.bound);
      return p;
    }
    p.why = fmt::format(
        "gradients of one step differ by {:.1e}, the bound is {:.0e}; weights after {} steps by "
        "{:.1e}; memory.allow = \"same_bits\" forbids such plans",
        a.difference, a.bound, after.steps, after.difference);
    return p;
  }

  void on_one_thread() {
    const std::int64_t other = whole.threads > 1 ? 1 : 3;
    const VerifyAnswer& a =
        tried(other == 1 ? "1 thread" : "3 threads",
              task({"memory.budget=none", fmt::format("train.threads={}", other)}));
    compare(
        "threads",
        other == 1 ? fmt::format("1 thread = {} threads", whole.threads) : "3 threads = 1 thread",
        a);
  }

  void taken_up(const std::string& directory) {
    VerifyTask t = task({"memory.budget=none"});
    t.directory = directory;
    t.stop_after = std::max<std::int64_t>(1, steps / 2);
    const VerifyAnswer first = tried(fmt::format("stopped after step {}", t.stop_after), t);
    t.stop_after = 0;
    const VerifyAnswer second = first.ran ? tried("and resumed", t) : first;
    compare("resume", "resumed = uninterrupted", second);
  }

  void finish() const {
    const bool good = std::none_of(promises.begin(), promises.end(),
                                   [](const Promise& p) { return p.verdict == Verdict::fails; });
    print(json ? as_json(good) : as_text(good));
    if (!good) throw Exit{complain("verify: a promise does not hold; please report it", 1)};
  }

  std::string as_text(bool good) const {
    std::string text = "\n";
    for (const Promise& p : promises)
      text += fmt::format("  {:<26} {:<15} {}\n", p.what,
                          p.id == "fits" && p.verdict == Verdict::holds ? "yes" : name(p.verdict),
                          wrapped(p.why, 45));
    return text + fmt::format("\n{}\nsha-256 of the weights after {} steps: {}\n",
                              good ? "every promise holds" : "NOT every promise holds", whole.steps,
                              whole.digest);
  }

  std::string as_json(bool good) const {
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
};

}  // namespace

void add_verify(CLI::App& app) {
  auto verify = std::make_shared<Verify>();
  CLI::App* c = app.add_subcommand("verify",
                                   "prove the promises on your own model and data\n\n"
                                   "Trains a few steps in about a minute: without a budget, in a "
                                   "tight one, in micro-batches, with one thread, "
                                   "stopped and resumed. Weights are compared by their SHA-256. "
                                   "Where a split of the batch is equal up to "
                                   "rounding only, as its plan says, the gradients of one step are "
                                   "compared with what rounding can come to. "
                                   "Exit code 1: a promise does not hold.");
  c->group(group::kTrain);
  c->footer("ebb verify train.toml\nebb verify train.toml --steps 20 --json\n");
  verify->flags.add(*c);
  c->add_option("--steps", verify->steps, "steps of each run; as many as take half a minute")
      ->check(number_from(2, 1000000))
      ->type_name(value::kNumber);
  add_json(*c, verify->json);
  add_quiet(*c);
  c->add_option("--spoil", verify->spoil)->group("");
  c->callback([verify] { verify->run(); });
  add_verify_run(app);
}

}  // namespace ebb::app
