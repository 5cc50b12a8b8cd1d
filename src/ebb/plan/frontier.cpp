#include "ebb/plan/frontier.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "ebb/plan/limits.hpp"

namespace ebb::plan {
namespace {

struct Line {
  std::size_t of;  // which candidate
  Sample sample;
  std::uint64_t budget;
  double seconds;
};

// Where less memory costs more time: the Pareto front of all candidates, thinned out to what is
// worth a line.
std::vector<Line> lines(const Candidates& candidates, std::uint64_t minimum) {
  std::vector<Line> all, front, thinned;
  for (std::size_t i = 0; i < candidates.all.size(); ++i) {
    const Candidate& c = candidates.all[i];
    for (const std::uint64_t load : c.loads(kLimits.frontier_samples))
      all.push_back(
          {i, c.sample(load), std::max(minimum, c.fixed + c.carry + load), c.seconds(load)});
  }
  std::sort(all.begin(), all.end(), [](const Line& a, const Line& b) {
    return std::tie(a.budget, a.seconds) < std::tie(b.budget, b.seconds);
  });
  for (const Line& l : all)
    if (front.empty() || l.seconds < front.back().seconds * (1 - kLimits.line_worth))
      front.push_back(l);
  const std::size_t step = std::max<std::size_t>(1, front.size() / kLimits.frontier_lines);
  for (std::size_t i = 0; i < front.size(); ++i)
    if (i % step == 0 || i + 1 == front.size()) thinned.push_back(front[i]);
  return thinned;
}

// What the smallest budget would be if activations might be rounded, where that helps.
std::string hint(const Problem& problem, const Candidate& smallest, std::uint64_t minimum) {
  if (problem.options.approximate.activations != DType::f32) return {};
  const std::optional<Traced> traced = problem.batch.traced(smallest.micro_batch, DType::bf16);
  if (traced->stored == DType::f32) return {};
  Policy policy = smallest.policy;
  policy.stored = DType::bf16;
  std::vector<Searched> programs;
  const Candidate half = candidate_of(problem, *traced, policy, true, &programs);
  const std::uint64_t rounded = half.fixed + arena_of(packed(programs, half.least(), half.carry));
  if (rounded + minimum / kLimits.hint_divisor > minimum) return {};
  return fmt::format(
      "\n  {:>10}  with activations in bf16 (approximate), if you allow it: "
      ".approximate = {{.activations = DType::bf16}}",
      to_string(ByteSize{rounded}));
}

}  // namespace

FrontierPoint point_of(const Problem& problem, const Candidate& c, std::uint64_t budget,
                       const Sample& sample) {
  FrontierPoint p;
  p.budget = budget;
  p.seconds = c.seconds(sample.load);
  p.micro_batch = c.micro_batch;
  p.split = c.in_micro_batches();
  p.mixed = p.split && !problem.batch.split().mixed.empty();
  p.label = c.label;
  p.activations = c.policy.stored;
  p.state_spilled = c.policy.spilling >= Spilling::state;
  p.gradient_blocks = c.gradient_blocks;
  p.recomputed = sample.recomputed;
  p.written = sample.written;
  p.read = sample.read;
  return p;
}

std::vector<FrontierPoint> frontier_of(const Problem& problem, const Candidates& candidates,
                                       std::uint64_t minimum) {
  std::vector<FrontierPoint> points;
  for (const Line& l : lines(candidates, minimum))
    points.push_back(point_of(problem, candidates.all[l.of], l.budget, l.sample));
  return points;
}

std::vector<FrontierPoint> packed_frontier(const Problem& problem, Candidates& candidates,
                                           const SmallestCandidate& smallest) {
  const std::uint64_t minimum = smallest.plan.budget;
  const Candidate& least = candidates.all[smallest.candidate];
  std::vector<FrontierPoint> points = {
      point_of(problem, least, minimum, least.sample(least.least()))};
  for (const Line& line : lines(candidates, minimum)) {
    const Candidate& c = candidates.all[line.of];
    const std::uint64_t arena =
        arena_of(packed(schedules_of(problem, candidates, line.of), line.sample.load, c.carry));
    points.push_back(point_of(problem, c, std::max(minimum, c.fixed + arena), line.sample));
  }
  std::sort(points.begin(), points.end(), [](const FrontierPoint& a, const FrontierPoint& b) {
    return std::tie(a.budget, a.seconds) < std::tie(b.budget, b.seconds);
  });
  std::vector<FrontierPoint> falling;
  for (FrontierPoint& p : points)
    if (falling.empty() || p.seconds < falling.back().seconds) falling.push_back(std::move(p));
  return falling;
}

void refuse(const Problem& problem, const Candidate& smallest, const Plan& plan) {
  std::string menu;
  for (const FrontierPoint& p : plan.frontier)
    menu += fmt::format("\n  {:>10}  {:>8.1f} ms a step  {:<13}  {}",
                        enough(std::max(p.budget, plan.minimum)), p.seconds * 1e3, name(p.label),
                        p.text());
  menu += hint(problem, smallest, plan.minimum);
  throw Refused(
      fmt::format(
          "the budget of {} ({} bytes) is too small: the smallest that does is {} ({} bytes); "
          "ways to fit, each with its time and label:{}",
          to_string(ByteSize{plan.budget}), plan.budget, enough(plan.minimum), plan.minimum, menu),
      plan);
}

}  // namespace ebb::plan
