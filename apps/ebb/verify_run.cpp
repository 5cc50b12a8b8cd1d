#include "apps/ebb/verify_run.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/verify_gradient.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/sha256.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/world.hpp"

namespace ebb::app {
namespace {

using Json = nlohmann::json;

constexpr char kCommand[] = "verify-run";

Json of_plan(const plan::Plan& plan) {
  Json points = Json::array();
  for (const plan::FrontierPoint& p : plan.frontier)
    if (p.label == Allow::same_bits) points.push_back({p.budget, p.seconds});
  return {{"minimum", plan.minimum},   {"unlimited", plan.forecast.process},
          {"how", plan.chosen.text()}, {"label", name(plan.chosen.label)},
          {"split", plan.split()},     {"step_seconds", plan.forecast.seconds},
          {"frontier", points}};
}

struct VerifyRun {
  VerifyTask task;

  void run() const {
    if (task.processes == 0) return run(nullptr);
    dist::World world;
    run(&world);
  }

  void run(dist::World* world) const {
    std::optional<train::Job> opened;
    together(world, "the config and the data", [&] {
      train::Config config = train::load_config(task.config, task.set);
      if (task.gradient) config = keeping_gradient(std::move(config));
      opened.emplace(std::move(config),
                     task.plan_only ? train::Opening::shape : train::Opening::rows);
    });
    train::Job& job = *opened;
    job.data->validation.reset();  // figures of held-out rows are no part of what is compared
    job.world = world;
    const auto trainer = job.trainer(task.directory, false);
    Json answer = of_plan(trainer->plan());
    answer["batch"] = job.config.train.batch;
    answer["threads"] = pool::threads();
    std::int64_t weights = 0;
    for (const Variable& v : variables(job.model)) weights += v.spec().size();
    answer["weights"] = weights;
    if (!task.plan_only) train_now(job, *trainer, answer);
    if (world) {
      if (!task.plan_only) world->check_same("weights", answer["digest"].get<std::string>());
      std::uint64_t most = 0;
      for (const std::uint64_t peak : world->gather_values(process::peak_resident()))
        most = std::max(most, peak);
      answer["peak"] = most;
    }
    if (!world || world->first()) print(answer.dump() + "\n");
  }

  void train_now(train::Job& job, train::Trainer& trainer, Json& answer) const {
    const bool first = !job.world || job.world->rank() == 0;
    if (task.stop_after > 0 || task.gradient)  // of 16-bit weights the first steps may not be taken
      trainer.on_step = [this](std::int64_t step, double) {
        if (step == task.stop_after || task.gradient)
          std::raise(SIGTERM);  // as one would be stopped
      };
    const train::Outcome out = trainer.run();
    const std::vector<Variable> values = task.gradient ? kept_gradient(job) : variables(job.model);
    spoil(values, task.spoil);
    Sha256 sum;
    each_piece(values, [&](std::span<const std::byte> part, std::size_t, const Variable&) {
      sum.add(part);
    });
    if (!task.values_to.empty() && first) write_values(values, task.values_to);
    answer["digest"] = sum.hex();
    answer["steps"] = out.step;
    answer["seconds"] = out.seconds;
    answer["peak"] = process::peak_resident();
    answer["budget"] = Budget::now();
    answer["bound"] = bound_of_difference(job.config);
    if (!task.compare_with.empty()) answer["difference"] = difference(values, task.compare_with);
  }
};

std::vector<std::string> arguments_of(const VerifyTask& t) {
  std::vector<std::string> all = {"ebb", kCommand, t.config};
  for (const std::string& s : t.set) all.insert(all.end(), {"--set", s});
  if (!t.directory.empty()) all.insert(all.end(), {"--out", t.directory});
  if (t.stop_after > 0) all.insert(all.end(), {"--stop-after", std::to_string(t.stop_after)});
  if (!t.values_to.empty()) all.insert(all.end(), {"--values-to", t.values_to});
  if (!t.compare_with.empty()) all.insert(all.end(), {"--compare-with", t.compare_with});
  if (t.plan_only) all.emplace_back("--plan-only");
  if (t.gradient) all.emplace_back("--gradient");
  if (t.processes > 0) all.insert(all.end(), {"--processes", std::to_string(t.processes)});
  if (t.spoil != 0) all.insert(all.end(), {"--spoil", fmt::format("{}", t.spoil)});
  return all;
}

std::atomic<int> stopped{0};
std::atomic<pid_t> running{0};

extern "C" void on_stop(int signal) {
  stopped.store(signal);
  if (const pid_t child = running.load()) ::kill(child, signal);
}

std::string read_all(int descriptor) {
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t n = ::read(descriptor, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(piece, static_cast<std::size_t>(n));
  }
}

struct Ended {
  int code = 0;
  std::string out, error;
};

std::vector<std::string> line_of(const VerifyTask& task) {
  std::vector<std::string> words = arguments_of(task);
  words[0] = std::filesystem::read_symlink("/proc/self/exe");
  if (task.processes == 0) return words;
  return dist::mpirun_line({.processes = task.processes, .threads = 0, .program = words});
}

// Of several processes, also their launcher speaks.
std::string own_line(const std::string& text) {
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);)
    if (line.starts_with("ebb: ")) return line.substr(5);
  return text.substr(0, text.find('\n'));
}

Ended run_words(const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& a : arguments) words.push_back(const_cast<char*>(a.c_str()));
  words.push_back(nullptr);
  int out[2];
  File error = File::temporary(temporary_folder());
  if (::pipe(out) != 0) throw Error("verify: no pipe can be made; close some programs");
  const pid_t child = ::fork();
  if (child < 0) throw Error("verify: no further process can be started");
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(error.descriptor(), STDERR_FILENO);
    ::close(out[0]);
    ::close(out[1]);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ::close(out[1]);
  running.store(child);
  Ended ended;
  ended.out = read_all(out[0]);
  ::close(out[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  running.store(0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::string text(std::min<std::uint64_t>(error.size(), 4096), '\0');
  error.read_at(0, std::as_writable_bytes(std::span(text)));
  ended.error = own_line(text);
  return ended;
}

}  // namespace

StopTogether::StopTogether() {
  for (int i = 0; i < 2; ++i) {
    struct sigaction ours {};
    ours.sa_handler = on_stop;
    sigemptyset(&ours.sa_mask);
    ::sigaction(i == 0 ? SIGINT : SIGTERM, &ours, &before_[i]);
  }
}

StopTogether::~StopTogether() {
  for (int i = 0; i < 2; ++i) ::sigaction(i == 0 ? SIGINT : SIGTERM, &before_[i], nullptr);
}

VerifyAnswer run_apart(const VerifyTask& task) {
  const Ended ended = run_words(line_of(task));
  if (const int signal = stopped.load()) throw Exit{128 + signal};
  VerifyAnswer a;
  a.code = ended.code;
  if (ended.code != 0) {
    a.killed = ended.code == 128 + SIGKILL && ended.error.empty();
    a.refusal = !ended.error.empty() ? ended.error
                : a.killed           ? "it was killed, most likely as memory ran out"
                                     : fmt::format("it ended with {}", ended.code);
    return a;
  }
  const Json j = Json::parse(ended.out);
  a.ran = true;
  a.digest = j.value("digest", "");
  a.steps = j.value("steps", std::int64_t{0});
  a.weights = j.value("weights", std::int64_t{0});
  a.batch = j.value("batch", std::int64_t{0});
  a.threads = j.value("threads", std::int64_t{0});
  a.budget = j.value("budget", std::uint64_t{0});
  a.peak = j.value("peak", std::uint64_t{0});
  a.minimum = j.value("minimum", std::uint64_t{0});
  a.unlimited = j.value("unlimited", std::uint64_t{0});
  a.seconds = j.value("seconds", 0.0);
  a.step_seconds = j.value("step_seconds", 0.0);
  a.difference = j.value("difference", 0.0);
  a.bound = j.value("bound", 0.0);
  a.how = j.value("how", "");
  a.label = j.value("label", "");
  a.split = j.value("split", false);
  a.frontier = j.value("frontier", a.frontier);
  return a;
}

void add_verify_run(CLI::App& app) {
  auto run = std::make_shared<VerifyRun>();
  CLI::App* c = app.add_subcommand(kCommand, "one run of verify");
  c->group("");
  c->add_option("config", run->task.config)->required();
  c->add_option("--set", run->task.set)->allow_extra_args(false);
  c->add_option("--out", run->task.directory);
  c->add_option("--stop-after", run->task.stop_after);
  c->add_option("--processes", run->task.processes);
  c->add_option("--values-to", run->task.values_to);
  c->add_option("--compare-with", run->task.compare_with);
  c->add_flag("--plan-only", run->task.plan_only);
  c->add_flag("--gradient", run->task.gradient);
  c->add_option("--spoil", run->task.spoil);
  c->callback([run] { run->run(); });
}

}  // namespace ebb::app
