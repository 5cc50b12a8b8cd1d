#include "models/cell.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>

#include "ebb/exec/compile.hpp"
#include "models/fields.hpp"
#include "models/memory_group.hpp"
#include "models/pieces.hpp"
#include "models/task.hpp"

namespace ebb::zoo {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t peak_of_process() {
  char text[4096];
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  if (!file) return 0;
  text[std::fread(text, 1, sizeof text - 1, file)] = 0;
  std::fclose(file);
  const char* const at = std::strstr(text, "VmHWM:");
  return at ? std::strtoull(at + 6, nullptr, 10) * 1024 : 0;
}

std::uint64_t arena_held() {
  std::uint64_t bytes = 0;
  for (const Holding& h : ledger::holdings(1000))
    if (h.site.starts_with("arena")) bytes += h.bytes;
  return bytes;
}

void save(const std::vector<Variable>& weights, const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (!file) throw Error("cannot write " + path);
  each_piece(weights, [&](std::span<const std::byte> part) {
    std::fwrite(part.data(), 1, part.size(), file);
  });
  if (std::fclose(file) != 0) throw Error("cannot write " + path);
}

void train(const Cell& cell, Task& task, Outcome& out, const auto& step) {
  std::vector<double> times;
  times.reserve(10000);
  const auto timed = [&] {
    const double start = now();
    const Task::Results results = step();
    times.push_back(now() - start);
    if (results.size() > 1 && results[1].rank() == 0)
      out.loss = results[0].item() / results[1].item();
  };
  for (std::int64_t i = 0; i < cell.steps; ++i) timed();
  if (cell.steps > 0) out.hash = hash(task.weights());
  if (!cell.weights.empty()) save(task.weights(), cell.weights);
  for (const double end = now() + cell.seconds; now() < end && times.size() < times.capacity();)
    timed();
  if (cell.turns) {
    times.clear();
    for (char go; read(STDIN_FILENO, &go, 1) == 1 && times.size() < times.capacity();) {
      timed();
      std::printf("%.9g\n", times.back());
      std::fflush(stdout);
    }
  }
  out.peak = peak_of_process();
  if (times.size() > 2 && !cell.turns)
    times.erase(times.begin(), times.begin() + 1);  // the first touches all pages
  if (times.empty()) return;
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  out.step_seconds = times[times.size() / 2];
}

// What the steps are given.
class Batches {
 public:
  Batches(const Cell& cell, const Task& task) : whole_(task.batch()), some_(whole_) {
    if (!cell.ragged) return;
    std::vector<Tensor> some;
    for (const Tensor& t : whole_.values()) some.push_back(t.rows(0, whole_.rows() / 2 + 1));
    some_ = Batch(whole_.shared_names(), std::move(some));
  }
  const Batch& next() { return ++steps_ % 4 == 0 ? some_ : whole_; }

 private:
  Batch whole_, some_;
  int steps_ = 0;
};

void run_compiled(const Cell& cell, Task& task, Outcome& out) {
  CompileOptions options;
  options.memory.bytes = cell.budget;
  options.allow = cell.same_bits ? Allow::same_bits : Allow::same_gradient;
  options.recompute = cell.recompute;
  options.split = cell.split;
  options.spill = cell.spill;
  options.micro_batch = cell.rows;
  const double start = now();
  auto step = [&] {
    try {
      return compile(task.spec(), options, task.step());
    } catch (...) {
      out.plan_seconds = now() - start;
      throw;
    }
  }();
  out.plan_seconds = now() - start;
  const plan::Plan& plan = step.plan();
  out.minimum = plan.minimum;
  out.budget = plan.chosen.budget;
  out.arena = plan.forecast.arena;
  out.carry = plan.carry_bytes;
  out.process = plan.forecast.peak();
  out.forecast_seconds = plan.forecast.seconds;
  out.rows = plan.chosen.micro_batch;
  out.parts = static_cast<std::int64_t>(plan.runs.size());
  out.chosen = plan.chosen.text();
  out.label = name(plan.chosen.label);
  if (cell.steps == 0) return;
  Batches batches(cell, task);
  train(cell, task, out, [&] { return step(batches.next()); });
  out.measured_arena = arena_held();
}

void run_eager(const Cell& cell, Task& task, Outcome& out) {
  Batches batches(cell, task);
  train(cell, task, out, [&, step = task.step()] {
    Tape tape;
    return step(batches.next());
  });
}

Outcome run_here(const Cell& cell) {
  Outcome out;
  try {
    if (cell.threads) pool::set_threads(static_cast<int>(cell.threads));
    random::seed(3);
    Task task(cell.model, cell.batch);
    out.flops = task.flops();
    out.units = task.units();
    out.unit = task.unit();
    if (cell.eager || !task.planned()) {
      run_eager(cell, task, out);
    } else {
      run_compiled(cell, task, out);
    }
  } catch (const BudgetTooSmall& e) {
    out.refused = true;
    out.minimum = e.minimum;
    out.error = e.what();
  } catch (const std::exception& e) {
    out.error = e.what();
  }
  return out;
}

}  // namespace

bool is_cell(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "--cell") != 0) return false;
  std::puts(to_line(run_here(from_arguments<Cell>(argc - 2, argv + 2))).c_str());
  return true;
}

namespace {

class Running {
 public:
  explicit Running(const Cell& cell) : group_(cell.limited ? cell.budget : 0) {
    std::vector<std::string> arguments = to_arguments(cell);
    arguments.insert(arguments.begin(), {"/proc/self/exe", "--cell"});
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    int from[2], to[2];
    if (pipe2(from, O_CLOEXEC) != 0 || pipe2(to, O_CLOEXEC) != 0) throw Error("no pipe for a cell");
    std::fflush(nullptr);
    child_ = fork();
    if (child_ < 0) throw Error("no process for a cell");
    if (child_ == 0) {
      if (!group_.enter()) _exit(126);  // a cell that fails, rather than one without its limit
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(from[1]);
    close(to[0]);
    in_ = from[0];
    out_ = to[1];
  }
  Running(const Running&) = delete;

  // Seconds of one more step; 0 where it is no more.
  double turn() {
    const std::string said = write(out_, "+", 1) == 1 ? line() : "";
    if (said.empty() || said.back() != '\n' || said.front() == '{') return last_ = said, 0;
    return std::atof(said.c_str());
  }

  Outcome end() {
    close(out_);
    std::string said = last_.empty() ? line() : last_;
    close(in_);
    int status = 0;
    waitpid(child_, &status, 0);
    Outcome out = from_line<Outcome>(said);
    out.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!out.killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || said.empty()))
      out.error = "the process ended with status " + std::to_string(status);
    out.group_peak = group_.peak_bytes();
    out.unlimited = group_.why();
    return out;
  }

 private:
  std::string line() const {
    std::string text;
    for (char c; text.find('\n') == std::string::npos && read(in_, &c, 1) == 1;) text += c;
    return text;
  }

  MemoryGroup group_;
  pid_t child_ = -1;
  int in_ = -1, out_ = -1;
  std::string last_;
};

}  // namespace

Outcome run(const Cell& cell) { return Running(cell).end(); }

std::vector<Outcome> run_in_turns(std::vector<Cell> cells, int rounds) {
  std::signal(SIGPIPE, SIG_IGN);  // one that was killed takes no more turns
  std::deque<Running> running;
  std::vector<Outcome> outcomes(cells.size());
  for (Cell& cell : cells) {
    cell.turns = true;
    running.emplace_back(cell);
    outcomes[running.size() - 1].turns.push_back(running.back().turn());  // when it is ready
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < cells.size(); ++i) outcomes[i].turns.push_back(running[i].turn());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::vector<double> turns(outcomes[i].turns.begin() + 1, outcomes[i].turns.end());
    outcomes[i] = running[i].end();
    outcomes[i].turns = std::move(turns);
  }
  return outcomes;
}

double turns_ratio(const Outcome& of, const Outcome& against) {
  if (of.turns.empty() || against.turns.empty()) return 0;
  return *std::min_element(of.turns.begin(), of.turns.end()) /
         *std::min_element(against.turns.begin(), against.turns.end());
}

}  // namespace ebb::zoo
