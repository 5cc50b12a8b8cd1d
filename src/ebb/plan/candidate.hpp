// One way to take a step, before anybody has chosen: how the batch is cut, which policy it has,
// and the frontiers of its passes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "ebb/plan/plan.hpp"
#include "ebb/plan/search/search.hpp"

namespace ebb::plan {

// Each with those before it. Streamed: large state goes through memory in pieces, in its update.
enum class Spilling : std::uint8_t { none, activations, state, streamed };

// What a candidate does to the step, beside its parts. By rows: large gradients are made row by row
// in their updates, where they can be.
struct Policy {
  Spilling spilling = Spilling::none;
  bool gradient_blocks = false;
  DType stored = DType::f32;  // what waits for the walk back
};

// What a step does with each pass at some load, for a line of the frontier.
struct Sample {
  std::uint64_t load = 0, recomputed = 0, written = 0, read = 0;
};

// Schedules are not kept: with many candidates they would take more memory than some budgets.
// Whoever wants one searches again, with the same effort, and finds the same.
struct Candidate {
  std::int64_t rows = 0;  // of a part
  std::int64_t parts = 1;
  Policy policy;
  double effort = 0;          // of its search
  bool deep = false;          // more of it would find no more
  std::uint64_t gradient_blocks = 0;  // parameters
  Allow label = Allow::same_bits;
  std::vector<std::vector<Frontier::Point>> passes;  // the whole; or a part before the last, and it
  std::vector<std::uint64_t> streamed;               // by each pass, bytes each way
  std::uint64_t given = 0;                           // bytes of data: batches, constants, results
  std::uint64_t fixed = 0;  // bytes of the process beside the arena, these included
  std::uint64_t carry = 0;  // of sums over parts: the start of the arena

  // The smallest load at which every pass has a schedule.
  std::uint64_t least() const {
    std::uint64_t most = 0;
    for (const auto& points : passes) most = std::max(most, points.front().load);
    return most;
  }
  double times(std::size_t pass) const {
    return passes.size() > 1 && pass == 0 ? static_cast<double>(parts - 1) : 1.0;
  }
  double seconds(std::uint64_t load) const {  // of a step, each pass with this load at most
    double sum = 0;
    for (std::size_t i = 0; i < passes.size(); ++i)
      sum += point(passes[i], load).seconds * times(i);
    return sum;
  }
  Sample sample(std::uint64_t load) const {
    Sample s{load, 0, 0, 0};
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const Frontier::Point& p = point(passes[i], load);
      const auto n = static_cast<std::uint64_t>(times(i));
      s.recomputed += p.recomputed * n;
      s.written += (p.written + streamed[i]) * n;
      s.read += (p.read + streamed[i]) * n;
    }
    return s;
  }
  // Loads at which something changes, rising; not more than `most` of them, the ends among them.
  std::vector<std::uint64_t> loads(std::size_t most) const {
    std::vector<std::uint64_t> all, some;
    for (const auto& points : passes)
      for (const Frontier::Point& p : points)
        if (p.load >= least()) all.push_back(p.load);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    const std::size_t count = std::min(all.size(), most);
    for (std::size_t i = 0; i < count; ++i)
      some.push_back(all[count > 1 ? i * (all.size() - 1) / (count - 1) : 0]);
    return some;
  }
  static const Frontier::Point& point(const std::vector<Frontier::Point>& points,
                                      std::uint64_t load) {
    const auto after =
        std::upper_bound(points.begin(), points.end(), load,
                         [](std::uint64_t l, const Frontier::Point& p) { return l < p.load; });
    return *std::prev(after);
  }
};

}  // namespace ebb::plan
