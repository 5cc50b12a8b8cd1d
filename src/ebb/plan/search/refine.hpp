// The exhaustive search: tries the neighbours of every plan on the front, each by a full replay.
//
// Neighbours of a plan: one more eviction at its largest position; one extra fewer, with whatever
// only it needed; both, followed by a descent back to the load it had; one extra in another stage.
// When all are tried, plans are shaken: some extras out, moved or new, and down again with victims
// weighed at random (from a fixed seed).
#pragma once

#include <algorithm>
#include <random>

#include "ebb/plan/search/descent.hpp"
#include "ebb/plan/search/pareto_front.hpp"

namespace ebb::plan {

class Refine {
 public:
  Refine(const Ordered& graph, std::size_t order, Replayer& replayer, Descent& descent,
         ParetoFront& front, bool recompute)
      : g_(graph),
        order_(order),
        replayer_(replayer),
        descent_(descent),
        front_(front),
        recompute_(recompute),
        needed_(needed_reads(graph)) {}

  // `exhaustive`: with all neighbours; else plans are only shaken. Ends early where `patience` of
  // the work went by without a better plan.
  void operator()(std::uint64_t floor, std::uint64_t work, std::uint64_t patience, bool exhaustive);

 private:
  bool offer(const Extras& extras, const Replay& r);
  bool spent() const { return replayer_.work >= std::min(limit_, found_ + patience_); }
  void neighbours(std::uint64_t load, const Extras& extras);
  bool shift(Extras& extras, std::size_t which, Id stage) const;
  void disturb(Extras& extras);
  void complete(Extras& extras) const;
  void shake();
  void reach(Extras& extras, Replay& r, std::uint64_t target, Score score);

  const Ordered& g_;
  std::size_t order_;
  Replayer& replayer_;
  Descent& descent_;
  ParetoFront& front_;
  bool recompute_;
  Extras needed_;
  std::uint64_t floor_ = 0, limit_ = 0, patience_ = 0;
  std::uint64_t found_ = 0;  // the work done when a plan was last found that is better by something
  std::mt19937_64 rng_{1};
  Replay now_, next_;
};

}  // namespace ebb::plan
