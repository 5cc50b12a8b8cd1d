// How a step may be taken, before anybody has chosen: how the batch is cut, by which policy memory
// is saved, and the frontiers of its programs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "ebb/plan/options.hpp"
#include "ebb/plan/search/search.hpp"

namespace ebb::plan {

// Each with those before it. Streamed: large state goes through memory in pieces, in its update.
enum class Spilling : std::uint8_t { none, activations, state, streamed };

// What a candidate does to the step, beside cutting the batch.
struct Policy {
  Spilling spilling = Spilling::none;
  bool gradient_blocks = false;  // large gradients are made in their updates, where they can be
  DType stored = DType::f32;     // what waits for the walk back
};

// What a step does with each program at some load, for a line of the frontier.
struct Sample {
  std::uint64_t load = 0, recomputed = 0, written = 0, read = 0;
};

// Schedules are not kept: with many candidates they would take more memory than some budgets.
// Whoever wants one searches again, with the same effort, and finds the same.
struct Candidate {
  std::int64_t micro_batch = 0;  // examples of one
  std::int64_t count = 1;        // of micro-batches, and of runs that only update
  int ranks = 1;                 // that the batch is divided among
  Policy policy;
  double effort = 0;                  // of its search
  bool fine = false;                  // more of it would find no more
  std::uint64_t gradient_blocks = 0;  // parameters
  Allow label = Allow::same_bits;
  // Per program: of the whole batch; or of micro-batches, and last of what updates.
  std::vector<std::vector<ScheduleFront::Point>> programs;
  std::vector<std::uint64_t> streamed;  // by each program, bytes each way
  std::uint64_t given = 0;              // bytes of data: batches, constants, results
  std::uint64_t fixed = 0;              // bytes of the process beside the arena, these included
  std::uint64_t carry = 0;              // of sums over micro-batches: the start of the arena

  bool split() const { return count > 1; }
  bool in_micro_batches() const { return count > (ranks > 1 ? 2 : 1); }
  // The smallest load at which every program has a schedule.
  std::uint64_t least() const {
    std::uint64_t most = 0;
    for (const auto& points : programs) most = std::max(most, points.front().load);
    return most;
  }
  // The budget that the smallest load asks for; packing may take a little more.
  std::uint64_t least_bytes() const { return fixed + carry + least(); }
  // How often a step runs the program.
  double times(std::size_t program) const {
    return program == 0 ? static_cast<double>(count) - static_cast<double>(programs.size() - 1)
                        : 1.0;
  }
  double seconds(std::uint64_t load) const {  // of a step, each program with this load at most
    double sum = 0;
    for (std::size_t i = 0; i < programs.size(); ++i)
      sum += point(programs[i], load).seconds * times(i);
    return sum + waiting(load);
  }
  // A rank's first micro-batch goes on from the last one of the rank before it: but for one micro-batch, what
  // ranks do stands one after the other.
  double waiting(std::uint64_t load) const {
    if (ranks == 1) return 0;
    double adding = 0;
    for (std::size_t i = 0; i + 1 < programs.size(); ++i)
      adding += point(programs[i], load).seconds * times(i);
    return (ranks - 1) * (adding - point(programs[0], load).seconds);
  }
  Sample sample(std::uint64_t load) const {
    Sample s{load, 0, 0, 0};
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const ScheduleFront::Point& p = point(programs[i], load);
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
    for (const auto& points : programs)
      for (const ScheduleFront::Point& p : points)
        if (p.load >= least()) all.push_back(p.load);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    const std::size_t count = std::min(all.size(), most);
    for (std::size_t i = 0; i < count; ++i)
      some.push_back(all[count > 1 ? i * (all.size() - 1) / (count - 1) : 0]);
    return some;
  }
  static const ScheduleFront::Point& point(const std::vector<ScheduleFront::Point>& points,
                                           std::uint64_t load) {
    const auto after =
        std::upper_bound(points.begin(), points.end(), load,
                         [](std::uint64_t l, const ScheduleFront::Point& p) { return l < p.load; });
    return *std::prev(after);
  }
};

}  // namespace ebb::plan
