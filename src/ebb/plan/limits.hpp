// The numbers by which the planner weighs its own time against what it may find, and what it takes
// for worth doing. They were found by measuring plans of the models in benches/; none of them
// changes what a plan computes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb::plan {

struct PlannerLimits {
  // Effort of a search; 1 is some 50 ms for 1,000 calls (SearchOptions::effort). Every candidate is
  // searched coarsely; finely those that matter: the smallest, for the smallest budget there is,
  // and the fastest for the budget at hand.
  double coarse_effort = 0.05;
  double fine_effort = 1;
  double fine_effort_split = 0.3;  // with micro-batches there are two programs to search
  double rounding_effort = 0.25;   // of these, for candidates that round beside those that do not
  double order_effort = 0.01;      // where nothing but the order of calls can change

  // Candidates that are searched finely at once: on machines of two cores and more, side by side.
  std::size_t refined_at_once = 2;
  // Bytes that a search takes for each call while it runs. It is done before the arena is there, in
  // the memory that the arena will take; where that is not enough for two searches at once, one
  // goes after the other.
  std::uint64_t search_bytes_per_call = 8 << 10;

  // What a fine search may leave of a candidate's time, and of its least load: candidates that would
  // not win even so are not searched again.
  double hoped_time = 0.7, hoped_load = 0.5;

  // Sizes of micro-batches tried between two of the coarse ones, where there is a budget and the
  // function has at most `many_calls`; one where it has more.
  int sizes_between = 3;
  std::size_t many_calls = 4000;
  // The coarse sizes are two times apart, not four, where it has at most so many.
  std::size_t fine_sizes_calls = 1500;

  // Micro-batches are not believed to be a little faster than the whole batch with everything kept:
  // only below this share of its time.
  double believed_time = 0.9;
  // Numbers are given up for less than this share of the time of a candidate that keeps them.
  double time_worth_rounding = 0.98;

  // Seconds that every transfer to or from the spill file takes beside its bytes, and bytes of a
  // buffer below which they cost more than the bytes are worth.
  double transfer_seconds = 20e-6;
  std::uint64_t spilled_bytes = 16 << 10;
  // An update is streamed where its state is at least one over this much of all variables: it sets
  // the peak.
  std::uint64_t streamed_divisor = 16;
  // From this size on a result is made where the program will have it, not copied out of the arena.
  std::uint64_t uncopied_bytes = 4 << 10;

  // Of the printed frontier: points taken of each candidate, lines in all, and what a line has to
  // gain over the one before it, as a share of the time.
  std::size_t frontier_samples = 8;
  std::size_t frontier_lines = 16;
  double line_worth = 0.005;
  // A refusal tells what rounding would save, from one over this much of the smallest budget on.
  std::uint64_t hint_divisor = 100;
};

inline constexpr PlannerLimits kLimits;

}  // namespace ebb::plan
