#include "models/same_bits.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace ebb::zoo {
namespace {

constexpr double kTolerance = 1e-5;  // where sums are taken in another order
constexpr int kSteps = 20;

Cell cell_of(const std::string& model, std::int64_t batch) {
  Cell cell;
  cell.model = model;
  cell.batch = batch;
  cell.steps = kSteps;
  return cell;
}

// |a - b| / |b| over all weights of two files.
double difference(const std::string& a, const std::string& b) {
  std::FILE* const first = std::fopen(a.c_str(), "rb");
  std::FILE* const second = std::fopen(b.c_str(), "rb");
  double apart = 0, length = 0;
  if (first && second) {
    float x[4096], y[4096];
    for (std::size_t n; (n = std::fread(x, 4, 4096, first)) > 0;) {
      if (std::fread(y, 4, n, second) != n) break;
      for (std::size_t i = 0; i < n; ++i) {
        apart += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
        length += double{y[i]} * y[i];
      }
    }
  }
  if (first) std::fclose(first);
  if (second) std::fclose(second);
  return length > 0 ? std::sqrt(apart / length) : 1;
}

std::string seen(const Outcome& out) {
  if (out.killed) return "killed";
  if (!out.ok()) return out.error.substr(0, 100);
  return out.hash.substr(0, 16) + (out.chosen.empty() ? "" : "  " + out.chosen);
}

}  // namespace

void check_refusal(const Sweep& sweep, const std::string& model, std::int64_t batch,
                   Report& report) {
  Cell cell = cell_of(model, batch);
  cell.budget = sweep.plan().minimum - 1;
  const Outcome out = run(cell);
  const bool says = out.error.find(std::to_string(sweep.plan().minimum)) != std::string::npos;
  report.check(sweep.name() + ": one byte less than the minimum is refused in 1 s",
               out.refused && says && out.minimum == sweep.plan().minimum && out.plan_seconds < 1,
               out.refused ? formatted("%.3f s, %s", out.plan_seconds,
                                       says ? "names the minimum" : "does not name the minimum")
                           : seen(out));
}

void check_same_bits(const std::string& model, std::int64_t batch, bool once, Report& report) {
  const std::string of = model + " " + std::to_string(batch) + ": ";
  const std::string base = "/tmp/ebb-bench-" + std::to_string(getpid());
  const std::string whole_file = base + "-whole", part_file = base + "-part";
  Cell whole = cell_of(model, batch);
  whole.split = false;
  Cell first = whole;
  if (!once) first.weights = whole_file;
  const Outcome reference = run(first);
  const auto same = [&](const std::string& what, const Cell& cell, std::int64_t parts = 1) {
    const Outcome out = run(cell);
    const bool ran = out.ok() && reference.ok() && (cell.eager || out.parts == parts);
    report.check(of + what + ", the same bits", ran && out.hash == reference.hash, seen(out));
  };
  Cell cell = whole;
  cell.eager = true;
  same("eager", cell);
  for (const int threads : {1, 2}) {
    if (report.quick() && threads > 1) continue;
    cell = whole;
    cell.threads = threads;
    same(formatted("%d thread%s", threads, threads > 1 ? "s" : ""), cell);
  }
  for (const bool spill : {false, true}) {  // each at the least it needs
    if (report.quick() && !spill) continue;
    cell = whole;
    cell.spill = spill;
    cell.steps = 0;
    cell.budget = run(cell).minimum;
    cell.steps = kSteps;
    same(spill ? "least memory with spilling" : "least memory without spilling", cell);
  }
  {  // two shapes: each plan goes on from the other's state
    cell = whole;
    cell.ragged = cell.eager = true;
    const Outcome expected = run(cell);
    cell.eager = false;
    cell.steps = 0;
    cell.budget = run(cell).minimum;
    cell.steps = kSteps;
    const Outcome out = run(cell);
    report.check(of + "half the rows in every fourth step, least memory, the same bits",
                 out.ok() && expected.ok() && out.hash == expected.hash &&
                     out.hash != reference.hash && out.peak <= cell.budget,
                 seen(out));
  }
  for (const std::int64_t rows : {1, 3, 7}) {
    if (report.quick() && rows != 7) continue;
    cell = cell_of(model, batch);
    cell.rows = rows;
    const std::string what =
        formatted("parts of %d row%s", static_cast<int>(rows), rows > 1 ? "s" : "");
    const std::int64_t parts = (batch + rows - 1) / rows;
    if (once) {
      same(what, cell, parts);
      continue;
    }
    cell.weights = part_file;
    const Outcome out = run(cell);
    const bool split = out.ok() && out.parts == parts;
    const double apart = difference(part_file, whole_file);
    report.check(of + what + ", apart by 1e-5 at most", split && apart <= kTolerance,
                 split ? formatted("%.1e", apart) : seen(out));
  }
  std::remove(whole_file.c_str());
  std::remove(part_file.c_str());
}

}  // namespace ebb::zoo
