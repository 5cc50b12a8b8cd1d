// The search for plans: what to keep, what to run again, what to send to the spill file.
//
// It starts from the schedule that keeps everything, and from some made in one go, and descends: at
// the step with the largest load it takes the cheapest eviction that lowers it, again and again,
// until none is left. What it meets is kept as a Pareto front of (load, seconds): more memory never
// costs time, because a schedule for a smaller budget is also one for a larger budget.
//
//   ScheduleFront front = search(graph, {.spill = cost});
//   Schedule schedule = front.at(64 << 20);   // the fastest one found with load ≤ 64 MiB
//
// Pure and deterministic: no clock, no threads; effort is counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ebb/plan/graph/graph.hpp"

namespace ebb::plan {

struct SearchOptions {
  SpillCost spill;
  bool recompute = true;    // may run nodes again
  bool reorder = true;      // may choose the order of nodes
  std::uint64_t floor = 0;  // no need to go below this load
  double effort = 1;        // scales the work spent; 1 is some 50 ms for 1,000 nodes
};

class ScheduleFront {
 public:
  struct Point {  // as its schedule says
    std::uint64_t load = 0;
    double seconds = 0;
    std::uint64_t recomputed = 0, written = 0, read = 0;
    bool operator==(const Point&) const = default;
  };

  // Rising in load, strictly falling in seconds. Never empty.
  const std::vector<Point>& points() const { return points_; }

  std::uint64_t minimum() const { return points_.front().load; }  // smallest load found

  Schedule at(std::uint64_t budget) const;  // throws std::out_of_range below minimum()
  Schedule smallest() const { return schedule(0); }
  Schedule unlimited() const { return schedule(points_.size() - 1); }
  Schedule schedule(std::size_t point) const;  // of points()[point]

  struct Record;  // schedules in the compact form of the search
  ScheduleFront(std::vector<Point> points, std::shared_ptr<const Record> record)
      : points_(std::move(points)), record_(std::move(record)) {}

 private:
  std::vector<Point> points_;
  std::shared_ptr<const Record> record_;
};

// Throws std::invalid_argument where the graph is not one: a buffer read before it is made, made
// twice, or state read after its update.
ScheduleFront search(const Graph& graph, const SearchOptions& options);

// Replays a schedule without trusting it: every input holds the right buffer, state is read before
// its update, spilled bytes were written, load and seconds are as claimed. Empty, or what is wrong.
std::string check(const Graph& graph, const Schedule& schedule, const SpillCost& spill);

}  // namespace ebb::plan
