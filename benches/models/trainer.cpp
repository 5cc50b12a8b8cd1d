// The training loop beside the bare compiled step: what live line, metrics and checks cost, and how good the time is
// that the live line says is left.
//
//   bench_trainer [--quick] [--json]
//
// Stretches of bare steps and of the loop's take turns. The loop draws on a terminal that somebody reads, and keeps a
// run directory with all that a run keeps, checkpoints aside: these have a benchmark of their own.
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "ebb/base/files/folder.hpp"
#include "ebb/ebb.hpp"
#include "ebb/train/trainer.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr double kMostOverhead = 0.01, kMostOff = 0.15;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// A terminal in the place of stderr, and somebody who reads it.
class Screen {
 public:
  Screen() : master_(::posix_openpt(O_RDWR | O_NOCTTY)), before_(::dup(2)) {
    ::setenv("TERM", "xterm-256color", 1);
    if (master_ < 0 || ::grantpt(master_) < 0 || ::unlockpt(master_) < 0) return;
    const int slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    ::dup2(slave, 2);
    ::close(slave);
    reader_ = std::thread([this] {
      char part[4096];
      while (!ended_) {
        pollfd ready{master_, POLLIN, 0};
        if (::poll(&ready, 1, 20) > 0 && ::read(master_, part, sizeof part) > 0) ++reads_;
      }
    });
  }
  ~Screen() {
    ended_ = true;
    if (reader_.joinable()) reader_.join();
    ::dup2(before_, 2);
    ::close(before_);
    ::close(master_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  int reads() const { return reads_; }

 private:
  int master_, before_;
  std::atomic<bool> ended_{false};
  std::atomic<int> reads_{0};
  std::thread reader_;
};

struct Mlp {
  nn::Dense up, mid, down;
  Mlp(const nn::Init& init, std::int64_t width)
      : up(init / "up", 784, width, {.activation = Activation::relu}),
        mid(init / "mid", width, width, {.activation = Activation::relu}),
        down(init / "down", width, 10) {}
  Tensor operator()(const Tensor& x) const { return down(mid(up(reshape(x, {x.dim(0), 784})))); }
  void each(auto&& f) {
    f("up", up);
    f("mid", mid);
    f("down", down);
  }
};

Loss loss_of_batch(const Mlp& m, const Batch& b) {
  return sparse_cross_entropy(m(b["image"]), b["label"]);
}

struct Bench {
  Dataset data = data::digits(2048, 1).shuffle(1).batch(128).prefetch(2);
  Mlp net{nn::Init(1), 1024};
  std::string folder;

  // Seconds of each step of the loop, from the end of one to the end of the next; the first ones warm up.
  std::vector<double> looped(std::int64_t steps, bool check_gradient) {
    remove_tree(folder + "/run");
    optim::AdamW adam(params(net), {.lr = 1e-4});
    train::Trainer trainer(train::Model::of(net, loss_of_batch), adam, data,
                           {.epochs = 1'000'000,
                            .steps = steps + 3,
                            .directory = folder + "/run",
                            .save = train::Period::never(),
                            .check_gradient = check_gradient});
    std::vector<double> ends;
    trainer.on_step = [&](std::int64_t, double) { ends.push_back(now()); };
    trainer.run();
    return differences(ends);
  }
  std::vector<double> bare(std::int64_t steps) {
    optim::AdamW adam(params(net), {.lr = 1e-4});
    auto step = compile(data.spec(), {},
                        [&](const Batch& b) { return adam.minimize(loss_of_batch(net, b)); });
    std::vector<double> ends;
    auto walk = data.walk(1'000'000);
    for (std::int64_t i = 0; i < steps + 3; ++i) {
      step(*walk.next());
      ends.push_back(now());
    }
    return differences(ends);
  }
  static std::vector<double> differences(const std::vector<double>& ends) {
    std::vector<double> all;
    for (std::size_t i = 3; i < ends.size(); ++i) all.push_back(ends[i] - ends[i - 1]);
    return all;
  }
};

// Of each stretch the mean of its middle half: what happens every ten steps or ten times a second counts, a hiccup of
// the machine does not.
double middle(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  const std::size_t cut = all.size() / 8;
  double sum = 0;
  for (std::size_t i = cut; i < all.size() - cut; ++i) sum += all[i];
  return sum / static_cast<double>(all.size() - 2 * cut);
}

void overhead(Bench& bench, Report& report) {
  const std::int64_t steps = report.quick() ? 60 : 100;
  std::vector<double> ratios, bare, looped;
  for (int round = 0; round < (report.quick() ? 5 : 15); ++round) {
    const bool first = round % 2 == 0;
    if (first) bare.push_back(middle(bench.bare(steps)));
    const Screen screen;
    looped.push_back(middle(bench.looped(steps, false)));
    if (!first) bare.push_back(middle(bench.bare(steps)));
    ratios.push_back(looped.back() / bare.back());
  }
  report.say("steps of %.2f ms bare, %.2f ms in the loop\n", median(bare) * 1e3,
             median(looped) * 1e3);
  report.compare("loop", "time of a step", median(looped) * 1e3, "ms", "the bare compiled step",
                 1 / median(ratios));
  report.check("live line, metrics and checks cost at most 1%", median(ratios) - 1 <= kMostOverhead,
               formatted("%+.2f%% (%+.2f to %+.2f)", (median(ratios) - 1) * 100,
                         (*std::min_element(ratios.begin(), ratios.end()) - 1) * 100,
                         (*std::max_element(ratios.begin(), ratios.end()) - 1) * 100));
}

// The same on a busy machine: processor time of the loop's thread, with small steps that come every 10 ms. What is
// done by the clock, such as drawing, is done as often as beside steps that take so long.
void paced(const std::string& folder, Report& report) {
  constexpr double kPace = 0.01;
  const std::int64_t steps = report.quick() ? 200 : 500;
  const Dataset data = data::digits(64, 1).batch(4);
  const auto processor = [] {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  double tick = 0;
  const auto rest = [&] {
    tick = std::max(tick + kPace, now());
    std::this_thread::sleep_for(std::chrono::duration<double>(tick - now()));
  };
  std::vector<double> more, bare_seconds;
  for (int round = 0; round < (report.quick() ? 3 : 5); ++round) {
    const Mlp net(nn::Init(1), 8);
    Mlp same = net;
    double begun = 0, bare = 0;
    {
      optim::AdamW adam(params(same));
      auto step = compile(data.spec(), {},
                          [&](const Batch& b) { return adam.minimize(loss_of_batch(net, b)); });
      auto walk = data.walk(1'000'000);
      for (std::int64_t i = 0; i < steps + 10; ++i) {
        if (i == 10) begun = processor();
        step(*walk.next());
        rest();
      }
      bare = (processor() - begun) / static_cast<double>(steps);
    }
    remove_tree(folder + "/run");
    const Screen screen;
    optim::AdamW adam(params(same));
    train::Trainer trainer(train::Model::of(net, loss_of_batch), adam, data,
                           {.epochs = 1'000'000,
                            .steps = steps + 10,
                            .directory = folder + "/run",
                            .save = train::Period::never()});
    double ended = 0;
    trainer.on_step = [&](std::int64_t step, double) {
      rest();
      if (step == 10) begun = processor();
      if (step == steps + 10) ended = processor();
    };
    trainer.run();
    bare_seconds.push_back(bare);
    more.push_back((ended - begun) / static_cast<double>(steps) - bare);
  }
  report.say("processor time a step: bare %.1f µs, the loop %.1f µs more\n",
             median(bare_seconds) * 1e6, median(more) * 1e6);
  report.metric("loop", "processor time added to a step", median(more) * 1e6, "µs");
  report.check("processor time of the loop at most 1% of 10 ms",
               median(more) <= kMostOverhead * kPace,
               formatted("%.2f%%", median(more) / kPace * 100));
}

// Not of the loop, and worth knowing: the length of the gradient, for which all of it waits.
void gradient_check(Bench& bench, Report& report) {
  std::vector<double> ratios;
  for (int round = 0; round < (report.quick() ? 3 : 7); ++round) {
    const Screen screen;
    const double without = middle(bench.looped(60, false)), with = middle(bench.looped(60, true));
    ratios.push_back(with / without);
  }
  report.say("  looking at the whole gradient first (train.check_gradient): %+.1f%%\n",
             (median(ratios) - 1) * 100);
  report.metric("check_gradient", "time of a step", median(ratios), "of one without");
}

void time_left(Bench& bench, Report& report) {
  std::vector<double> off;
  for (int round = 0; round < (report.quick() ? 3 : 7); ++round) {
    remove_tree(bench.folder + "/run");
    const Screen screen;
    optim::AdamW adam(params(bench.net), {.lr = 1e-4});
    train::Trainer trainer(train::Model::of(bench.net, loss_of_batch), adam, bench.data,
                           {.epochs = 1'000'000,
                            .steps = report.quick() ? 250 : 400,
                            .directory = bench.folder + "/run",
                            .eval = train::Period::steps(50),
                            .save = train::Period::steps(100)});
    trainer.evaluate_on(data::digits(512, 2).batch(128));
    double said = 0, at = 0;
    trainer.on_step = [&](std::int64_t step, double) {
      if (step != 20) return;
      said = trainer.seconds_left().value_or(0);
      at = now();
    };
    trainer.run();
    off.push_back(said / (now() - at) - 1);
  }
  std::vector<double> distance;
  for (const double o : off) distance.push_back(std::abs(o));
  report.metric("time left", "off after 20 steps", median(distance), "");
  report.check("time left within 15% after 20 steps", median(distance) <= kMostOff,
               formatted("%+.1f%% (%+.1f to %+.1f)", median(off) * 100,
                         *std::min_element(off.begin(), off.end()) * 100,
                         *std::max_element(off.begin(), off.end()) * 100));
}

}  // namespace

int main(int argc, char** argv) {
  Report report("trainer", argc, argv);
  std::string name = temporary_folder() + "/ebb-bench-XXXXXX";
  Bench bench;
  bench.folder = ::mkdtemp(name.data());
  paced(bench.folder, report);
  overhead(bench, report);
  gradient_check(bench, report);
  time_left(bench, report);
  remove_tree(bench.folder);
  return report.exit_code();
}
