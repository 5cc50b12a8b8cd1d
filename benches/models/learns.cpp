// What less precise storage costs: a 2-layer GPT learns a text of 1 MB by characters, with AdamW
// and f32 throughout, and with less of it. The ways take turns, step by step, on the same batches.
//
//   bench_learns [--quick] [--json] [--only=small,gpt-mini]
//
// A loss is the mean of the last tenth of the steps. Activation memory is the arena: what the step
// holds besides parameters, optimizer state and the batch. Time is the median, over all turns, of
// the ratio of a way's step to that of f32.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "models/character.hpp"
#include "models/report.hpp"
#include "models/task.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr double kLoss = 0.01;    // of AdamW's with f32
constexpr double kState = 2.1;    // bytes for each parameter
constexpr double kSaved = 0.45;   // of the activation memory
constexpr double kLonger = 0.05;  // a step

struct Variant {
  const char* name;
  DType activations = DType::f32;
  bool eight_bit = false;
  DType parameters = DType::f32;
  CompileOptions options() const {
    if (activations == DType::f32) return {};
    return {.approximate = {.activations = activations, .always = true}};
  }
};
constexpr Variant kWays[] = {{"f32"},
                             {"8-bit AdamW", DType::f32, true},
                             {"bf16 activations", DType::bf16},
                             {"f16 activations", DType::f16},
                             {"f16 parameters, scaled loss", DType::f16, false, DType::f16}};

double seconds_of(const auto& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
  return all[all.size() / 2];
}

std::vector<double> ratios(const std::vector<double>& of, const std::vector<double>& against) {
  std::vector<double> all;
  for (std::size_t i = 0; i < of.size(); ++i) all.push_back(of[i] / against[i]);
  return all;
}

class Learner {
 public:
  Learner(const Characters& characters, const Variant& way)
      : way(way),
        model_(characters.model(way.parameters)),
        optimizer_(optimizer(params(model_), way)),
        step_(compile(characters.batches.spec(), way.options(), [this](const Batch& b) {
          return optimizer_->minimize(model_.loss(b["input"], b["target"]));
        })) {}

  void learn(const Batch& batch) {
    seconds.push_back(seconds_of([&] {
      const Loss loss = step_(batch);
      losses.push_back(loss.sum.item() / loss.count.item());
    }));
  }

  double loss() const {
    const std::size_t tail = std::max<std::size_t>(1, losses.size() / 10);
    double sum = 0;
    for (std::size_t i = losses.size() - tail; i < losses.size(); ++i) sum += losses[i];
    return sum / static_cast<double>(tail);
  }
  double state_bytes() const {  // for each parameter
    const auto bytes = [](const std::vector<Variable>& all, auto of) {
      std::uint64_t sum = 0;
      for (const Variable& v : all) sum += of(v.spec());
      return static_cast<double>(sum);
    };
    return bytes(optimizer_->state(), [](const Spec& s) { return s.bytes(); }) /
           bytes(optimizer_->params(), [](const Spec& s) { return s.shape.size(); });
  }
  std::uint64_t arena() const { return step_.plan().arena; }

  const Variant way;
  std::vector<double> losses, seconds;

 private:
  static std::unique_ptr<optim::Optimizer> optimizer(std::vector<Variable> params,
                                                     const Variant& way) {
    optim::AdamWOptions o{.lr = 1e-3};
    if (way.parameters == DType::f16) o.half.loss_scale = optim::dynamic;
    if (way.eight_bit) return std::make_unique<optim::AdamW8bit>(std::move(params), o);
    return std::make_unique<optim::AdamW>(std::move(params), o);
  }

  nn::Gpt model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Step<Loss> step_;
};

void check_time(Report& report, const char* of, const Variant& way, double longer) {
  report.check(formatted("%s, %s: time, %.0f%% more at most", of, way.name, kLonger * 100),
               longer <= kLonger, formatted("%+.1f%%", longer * 100));
}

void small(Report& report) {
  const int steps = report.quick() ? 100 : 500;
  const Characters characters(invented_text());
  std::vector<std::unique_ptr<Learner>> all;
  for (const Variant& way : kWays) all.push_back(std::make_unique<Learner>(characters, way));
  int done = 0;
  for (const Batch& batch : characters.batches.epochs(steps)) {
    for (const auto& learner : all) learner->learn(batch);
    if (++done == steps) break;
  }

  const Learner& f32 = *all[0];
  report.say("2-layer GPT of characters, %d steps; first loss %.3f\n", steps, f32.losses[0]);
  report.say("%-28s %8s %8s %12s %11s %9s %7s\n", "", "loss", "", "state B/par", "act. MiB",
             "step ms", "");
  for (const auto& learner : all) {
    const double off = learner->loss() / f32.loss() - 1;
    const double longer = median(ratios(learner->seconds, f32.seconds)) - 1;
    const double step = median(learner->seconds);
    report.say("%-28s %8.4f %+7.2f%% %12.3f %11.2f %9.2f %+6.1f%%\n", learner->way.name,
               learner->loss(), off * 100, learner->state_bytes(), mib(learner->arena()),
               step * 1e3, longer * 100);
    const std::string name = formatted("small, %s", learner->way.name);
    report.compare(name, "loss", learner->loss(), "nat", "f32", 1 / (1 + off));
    report.metric(name, "state", learner->state_bytes(), "B a parameter");
    report.compare(name, "activation memory", static_cast<double>(learner->arena()), "B", "f32",
                   static_cast<double>(f32.arena()) / static_cast<double>(learner->arena()));
    report.compare(name, "time a step", step, "s", "f32", 1 / (1 + longer));
  }
  for (const auto& learner : all) {
    if (learner == all[0]) continue;
    const Variant& way = learner->way;
    const double off = learner->loss() / f32.loss() - 1;
    report.check(formatted("small, %s: loss within %.0f%%", way.name, kLoss * 100),
                 std::abs(off) <= kLoss, formatted("%+.2f%%", off * 100));
    if (way.eight_bit)
      report.check(
          formatted("small, %s: at most %.1f bytes of state a parameter", way.name, kState),
          learner->state_bytes() <= kState, formatted("%.3f", learner->state_bytes()));
    if (way.activations == DType::bf16)
      check_time(report, "small", way, median(ratios(learner->seconds, f32.seconds)) - 1);
  }
}

// Memory and time of a step with more layers: of two, one is at work and has its values in f32.
void large(Report& report, const char* row) {
  const int turns = report.quick() ? 3 : 9;
  struct Run {
    Task task;
    Step<Task::Results> step;
    std::vector<double> seconds;
    Run(const char* row, const Variant& way)
        : task(row), step(compile(task.spec(), way.options(), task.step())) {}
  };
  std::vector<std::unique_ptr<Run>> all;
  for (const int way : {0, 2}) all.push_back(std::make_unique<Run>(row, kWays[way]));
  const Batch batch = all[0]->task.batch();
  for (int turn = 0; turn <= turns; ++turn)
    for (const auto& run : all) {
      const double seconds = seconds_of([&] { run->step(batch); });
      if (turn > 0) run->seconds.push_back(seconds);  // the first touches all pages
    }
  const Run &f32 = *all[0], &half = *all[1];
  const auto arena = [](const Run& run) { return static_cast<double>(run.step.plan().arena); };
  const double longer = median(ratios(half.seconds, f32.seconds)) - 1;
  report.say("\n%s\n%-28s %11s %9s\n", row, "", "act. MiB", "step ms");
  for (const Run* run : {&f32, &half}) {
    const char* const name = kWays[run == &f32 ? 0 : 2].name;
    report.say("%-28s %11.1f %9.1f\n", name, arena(*run) / (1 << 20), median(run->seconds) * 1e3);
    report.compare(formatted("%s, %s", row, name), "activation memory", arena(*run), "B", "f32",
                   arena(f32) / arena(*run));
    report.compare(formatted("%s, %s", row, name), "time a step", median(run->seconds), "s", "f32",
                   run == &f32 ? 1 : 1 / (1 + longer));
  }
  const double saved = 1 - arena(half) / arena(f32);
  report.check(
      formatted("%s, %s: activation memory, %.0f%% less", row, kWays[2].name, kSaved * 100),
      saved >= kSaved, formatted("%.1f%% less", saved * 100));
  check_time(report, row, kWays[2], longer);
}

}  // namespace

int main(int argc, char** argv) try {
  Report report("learns", argc, argv);
  if (report.wanted("small")) small(report);
  if (report.wanted("gpt-mini")) large(report, "gpt-mini");
  return report.exit_code();
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_learns: %s\n", e.what());
  return 1;
}
