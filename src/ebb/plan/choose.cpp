#include "ebb/plan/choose.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "ebb/plan/limits.hpp"
#include "ebb/plan/schedules.hpp"

namespace ebb::plan {
namespace {

using Indices = std::vector<std::size_t>;  // of candidates

template <class Key>
Indices sorted_by(const Key& key, Indices indices) {
  std::stable_sort(indices.begin(), indices.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return indices;
}

template <class Key>
Indices all_sorted_by(const Key& key, const Candidates& candidates) {
  Indices indices(candidates.all.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return sorted_by(key, std::move(indices));
}

// The smallest as far as is known, and others that a fine search may make smaller than it.
Indices may_be_smallest(const Candidates& candidates) {
  const auto bytes = [&](std::size_t i) { return candidates.all[i].least_bytes(); };
  const auto hoped = [&](std::size_t i) {
    const std::uint64_t least = candidates.all[i].least();
    return bytes(i) - least +
           static_cast<std::uint64_t>(static_cast<double>(least) * kLimits.hoped_load);
  };
  Indices some = {all_sorted_by(bytes, candidates).front()};
  for (const std::size_t i : all_sorted_by(hoped, candidates))
    if (some.size() < kLimits.refined_at_once && i != some[0] && hoped(i) < bytes(some[0]))
      some.push_back(i);
  return some;
}

// Micro-batches are not believed to be a little faster than the whole batch with everything kept:
// then the simpler candidate is taken, and more memory costs no time. Nor are numbers given up for
// a little.
double judged(const Problem& problem, const Candidates& candidates, const Candidate& c,
              std::uint64_t load) {
  const double seconds = c.seconds(load), simplest = candidates.all.front().seconds(kOutside);
  const double believed =
      seconds < simplest * kLimits.believed_time ? seconds : std::max(seconds, simplest);
  const bool mixed = c.split() && !problem.batch.split().mixed.empty();
  return mixed || problem.rounds_beside(c.policy.stored) ? believed / kLimits.time_worth_rounding
                                                         : believed;
}

// What the budget leaves for the load.
std::uint64_t room(const Candidate& c, std::uint64_t budget) {
  return budget == kOutside           ? kOutside
         : budget < c.fixed + c.carry ? 0
                                      : budget - c.fixed - c.carry;
}

// Micro-batches of a size half-way between this one and the next larger that was tried, or else the
// next smaller; false where there is none.
bool add_between(const Problem& problem, Candidates& candidates, std::int64_t micro_batch,
                 Policy policy) {
  const std::int64_t all = problem.batch.most_rows();
  std::int64_t larger = all + 1, smaller = 0;
  for (const Candidate& c : candidates.all) {
    if (c.micro_batch > micro_batch) larger = std::min(larger, c.micro_batch);
    if (c.micro_batch < micro_batch) smaller = std::max(smaller, c.micro_batch);
  }
  policy.gradient_blocks = false;
  const auto add_even = [&](std::int64_t low, std::int64_t high) {  // as even as can be
    if (low < 1 || high > all) return false;
    const double middle = std::sqrt(static_cast<double>(low) * static_cast<double>(high));
    const auto count = static_cast<std::int64_t>(std::round(static_cast<double>(all) / middle));
    const std::int64_t even = (all + count - 1) / count;
    return even > low && even < high && add(problem, candidates, even, {policy});
  };
  return add_even(micro_batch, larger) || add_even(smaller, micro_batch);
}

// In debug builds, that what was chosen is a schedule of its graph and takes what it says.
void assert_valid([[maybe_unused]] const Problem& problem, [[maybe_unused]] const Candidate& c,
                  [[maybe_unused]] const std::vector<Program>& programs) {
#ifndef NDEBUG
  const SpillCost spill = spill_cost(c.policy.spilling, problem.machine);
  for (const Program& p : programs) assert(check(p.lowered.graph, p.schedule, spill).empty());
#endif
}

}  // namespace

SmallestCandidate find_smallest(const Problem& problem, Candidates& candidates) {
  if (!candidates.fine) {
    const Indices some = may_be_smallest(candidates);
    refine(problem, candidates, some, std::vector<std::uint64_t>(some.size()));
  }
  SmallestCandidate smallest;
  smallest.plan.budget = kOutside;
  const auto bytes = [&](std::size_t i) { return candidates.all[i].least_bytes(); };
  for (const std::size_t i : all_sorted_by(bytes, candidates)) {
    if (bytes(i) >= smallest.plan.budget) break;
    const Candidate& c = candidates.all[i];
    const std::vector<Searched> schedules = schedules_of(problem, candidates, i);
    const std::vector<Program> programs = packed(schedules, c.least(), c.carry);
    const std::uint64_t budget = c.fixed + arena_of(programs);
    if (budget >= smallest.plan.budget) continue;
    smallest = {i,
                {budget, spilled_variables(programs), c.policy.spilling != Spilling::none,
                 constants_of(schedules)}};
  }
  candidates.all[smallest.candidate].fine = true;  // what these schedules promise is kept
  return smallest;
}

std::optional<Choice> choose(const Problem& problem, Candidates& candidates, std::uint64_t budget) {
  const std::vector<Candidate>& all = candidates.all;
  const bool many = problem.batch.whole().calls.size() > kLimits.many_calls;
  int sizes_left = problem.options.micro_batch > 0 || budget == kOutside ? 0
                   : many                                                ? 1
                                                                         : kLimits.sizes_between;
  std::vector<std::uint64_t> limit;  // per candidate: the load that it may have
  for (;;) {
    for (std::size_t i = limit.size(); i < all.size(); ++i) limit.push_back(room(all[i], budget));
    Indices fitting;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (limit[i] >= all[i].least()) fitting.push_back(i);
    if (fitting.empty()) return std::nullopt;
    const auto seconds = [&](std::size_t i) {
      return judged(problem, candidates, all[i], limit[i]);
    };
    fitting = sorted_by(seconds, std::move(fitting));  // the fastest first
    const std::size_t at = fitting.front();
    if (sizes_left > 0 && candidates.sizes.size() > 1) {
      --sizes_left;
      if (add_between(problem, candidates, all[at].micro_batch, all[at].policy)) continue;
    }
    if (budget != kOutside && !all[at].fine) {
      Indices some;
      std::vector<std::uint64_t> loads;
      for (const std::size_t i : fitting) {
        if (some.size() == kLimits.refined_at_once || seconds(i) * kLimits.hoped_time > seconds(at))
          break;
        if (all[i].fine) continue;
        some.push_back(i);
        loads.push_back(limit[i]);
      }
      refine(problem, candidates, some, loads);
      continue;
    }
    const Candidate& best = all[at];
    std::vector<Program> programs =
        packed(schedules_of(problem, candidates, at), limit[at], best.carry);
    const std::uint64_t arena = arena_of(programs);
    if (budget != kOutside && best.fixed + arena > budget) {  // packing took more than the load
      std::uint64_t most = 0;
      for (const auto& points : best.programs)
        most = std::max(most, Candidate::point(points, limit[at]).load);
      limit[at] = limit[at] > most ? most : most - 1;  // first without more scratch for tiles
      continue;
    }
    assert_valid(problem, best, programs);
    return Choice{at, limit[at], std::move(programs), arena};
  }
}

}  // namespace ebb::plan
