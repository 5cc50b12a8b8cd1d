// One way to take a step, before anybody has chosen: how the batch is cut, which levers are used, and
// the frontiers of its passes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "ebb/plan/plan.hpp"
#include "ebb/plan/search.hpp"

namespace ebb::plan {

// Each with those before it. Streamed: large state goes through memory in pieces, in its update.
enum class Spilling : std::uint8_t { none, activations, state, streamed };

// What a candidate does to the step, beside its parts. By rows: large gradients are made row by row
// in their updates, where they can be.
struct Levers {
  Spilling spilling = Spilling::none;
  bool by_rows = false;
  DType stored = DType::f32;  // what waits for the walk back
};

// What a schedule does, for a line of the frontier.
struct Sample {
  std::uint64_t load = 0, recomputed = 0, written = 0, read = 0;
};

// Schedules are not kept: with many candidates they would take more memory than some budgets.
// Whoever wants one searches again, and finds the same.
struct Candidate {
  std::int64_t rows = 0;  // of a part
  std::int64_t parts = 1;
  Levers levers;
  std::uint64_t by_rows = 0;  // parameters
  Allow label = Allow::same_bits;
  std::vector<std::vector<Frontier::Point>> passes;  // the whole; or a part before the last, and it
  std::vector<Sample> samples;
  std::uint64_t given = 0;  // bytes of data: batches, constants, results
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
  static const Frontier::Point& point(const std::vector<Frontier::Point>& points,
                                      std::uint64_t load) {
    const auto after =
        std::upper_bound(points.begin(), points.end(), load,
                         [](std::uint64_t l, const Frontier::Point& p) { return l < p.load; });
    return *std::prev(after);
  }
};

}  // namespace ebb::plan
