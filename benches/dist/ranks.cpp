#include "dist/ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "ebb/dist/launch.hpp"
#include "ebb/dist/measure_network.hpp"
#include "ebb/ebb.hpp"
#include "models/report.hpp"
#include "models/row.hpp"
#include "models/task.hpp"

namespace ebb::zoo {
namespace {

constexpr char kRank[] = "--rank";
constexpr int kWarm = 3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::string this_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) throw Error("where this program lies cannot be found out (/proc/self/exe)");
  return {path, static_cast<std::size_t>(length)};
}

// What the first of so many ranks prints.
std::string said_by_ranks(int ranks, std::vector<std::string> words) {
  dist::Launch launch{ranks, 1, {this_program(), kRank}};
  launch.program.insert(launch.program.end(), words.begin(), words.end());
  setenv("EBB_DIST_PLUGIN", EBB_PLUGIN, 1);
  const std::string line = dist::shell_line(dist::mpirun_line(launch));
  FILE* const pipe = popen(line.c_str(), "r");
  if (!pipe) throw Error("no shell: " + line);
  std::string text;
  char part[4096];
  while (const std::size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
  if (pclose(pipe) != 0) throw Error("ranks have failed: " + line);
  return text;
}

// Its rows of the batch, by views.
Batch part_of_batch(const Batch& all, const data::Part& part) {
  const std::int64_t rows = all.rows(), begin = part.begin(rows), end = part.end(rows);
  std::vector<Tensor> values;
  for (const Tensor& t : all.values()) values.push_back(slice(t, 0, begin, end));
  Batch own(all.shared_names(), std::move(values));
  own.set_part(begin, rows);
  return own;
}

std::string with_batch(const std::string& text, std::int64_t batch) {
  const std::string key = "\"batch\":";
  std::size_t at = text.find(key) + key.size();
  const std::size_t end = text.find_first_of(",}", at);
  return text.substr(0, at) + std::to_string(batch) + text.substr(end);
}

void train(const std::string& row, bool together, double seconds) {
  dist::World world;
  const data::Part part{world.rank(), world.size()};
  const std::int64_t rows = Row(row).number("batch");
  CompileOptions options;
  if (together) options.world = &world;
  Task task(together ? row : with_batch(row, part.rows(rows)));
  auto step = compile(task.spec(), options, task.step());
  const Batch whole = task.batch();
  const Batch batch = together ? part_of_batch(whole, part) : whole;
  const auto one = [&] {
    const double begin = now();
    step(batch);
    return now() - begin;
  };
  double first = 0;
  for (int i = 0; i < kWarm; ++i) first = one();
  // All take as many steps, so that they are side by side to the end.
  const int steps = std::max(5, static_cast<int>(seconds / world.gather_values(first).front()));
  std::vector<double> took;
  world.barrier();
  for (int i = 0; i < steps; ++i) took.push_back(one());
  const std::vector<double> all = world.gather_values(median(took));
  double sum = 0;
  for (const double s : all) sum += s;
  if (world.first())
    std::printf("%.9g %.9g\n", sum / static_cast<double>(all.size()), step.plan().forecast.seconds);
}

std::uint64_t carried(const plan::Plan& p) { return p.carry_bytes; }

}  // namespace

bool is_rank(int argc, char** argv) { return argc > 2 && !std::strcmp(argv[1], kRank); }

int rank_main(char** argv) {
  const std::string what = argv[2];
  if (what == "network") {
    dist::World world;
    const dist::Measured found = dist::measure_network(world);
    if (world.first())
      std::printf("%.9g %.9g\n", found.network.seconds_per_message, found.network.bytes_per_second);
  } else {
    train(argv[3], what == "together", std::atof(argv[4]));
  }
  return 0;
}

Took train_on_ranks(const SharedRow& row, int ranks, bool together, double seconds) {
  const std::string said =
      said_by_ranks(ranks, {together ? "together" : "apart", row.text, formatted("%g", seconds)});
  Took took;
  if (std::sscanf(said.c_str(), "%lf %lf", &took.seconds, &took.forecast) != 2)
    throw Error("ranks have said \"" + said + "\"");
  return took;
}

plan::Network network_of_ranks() {
  plan::Network n;
  const std::string said = said_by_ranks(2, {"network"});
  if (std::sscanf(said.c_str(), "%lf %lf", &n.seconds_per_message, &n.bytes_per_second) != 2)
    throw Error("ranks have said \"" + said + "\"");
  return n;
}

OnPaper on_paper(const SharedRow& row, int ranks, double slower) {
  OnPaper all;
  std::vector<plan::Plan> plans;
  const std::int64_t rows = Row(row.text).number("batch");
  for (const int rank : {0, ranks - 1}) {
    dist::PaperRank paper(rank, ranks);
    CompileOptions options;
    options.world = &paper;
    const Task task(row.text);
    const auto step = compile(task.spec(), options, task.step());
    all.peak = std::max(all.peak, step.plan().forecast.process);
    all.gradients = carried(step.plan());
    plans.push_back(step.plan());
  }
  all.tables = dist::timetables({&plans[0], &plans[1]}, rows, ranks, slower);
  return all;
}

AnyRanks::AnyRanks(const SharedRow& row, std::int64_t rows_of_each) {
  const auto plan_of = [&](int ranks) {
    dist::PaperRank paper(0, ranks);
    CompileOptions options;
    options.world = &paper;
    const Task task(with_batch(row.text, ranks * rows_of_each));
    return compile(task.spec(), options, task.step()).plan();
  };
  alone_ = plan_of(1);
  shared_ = plan_of(2);
}

OnPaper AnyRanks::of(int ranks, double slower) const {
  const plan::Plan& plan = ranks > 1 ? shared_ : alone_;
  OnPaper all;
  for (int r = 0; r < ranks; ++r) all.tables.push_back(dist::timetable(plan, r, ranks, slower));
  all.peak = plan.forecast.process;
  all.gradients = carried(plan);
  return all;
}

}  // namespace ebb::zoo
