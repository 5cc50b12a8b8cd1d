// Lowering the load of a plan: evictions at its largest position, and taking back what turns out
// not to be needed.
//
// To evict a buffer over a gap between two uses is to bring it back just before the second: by
// running its node again, with those of its inputs that are not there either, or by reading it from
// the spill file. A run that is already planned for later, of a buffer that must come back now, is
// moved rather than repeated where the load allows the buffer to stay: this is what makes segments
// of a chain share one rerun. Buffers brought back can be evicted again, down to the minimum.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ebb/plan/search/load_tree.hpp"
#include "ebb/plan/search/replay.hpp"

namespace ebb::plan {

// How victims compare. Seconds are those of the eviction alone, or with `whole` of everything that
// comes back together with it, which keeps segments even; bytes are those needed, or with `longest`
// times the length of the gap.
struct Score {
  bool whole = false;
  bool longest = false;
};

struct Eviction {
  Extras add, drop;
  double seconds = 0;     // that it costs
  double whole = 0;       // seconds of all that comes back in the stage
  std::int64_t gain = 0;  // bytes at the position it was made for
  struct Change {
    Id first, last;
    std::int64_t bytes;
  };
  std::vector<Change> changes;  // of the load, as far as known before a replay
  bool possible = false;
};

class Descent {
 public:
  Descent(const Ordered& graph, Replayer& replayer, bool recompute)
      : g_(graph), replayer_(replayer), recompute_(recompute) {
    evicted_stage_.resize(graph.bytes.size());
    evicted_round_.assign(graph.bytes.size(), 0);
    added_stage_.resize(graph.nodes + 1);
    added_round_.assign(graph.nodes + 1, 0);
    seen_.assign(graph.nodes + 1, 0);
    begin();
  }

  // Forgets what evictions cost: before a descent with another score.
  void begin();
  // Weighs victims at random, until called with nullptr.
  void weigh(std::mt19937_64* rng);

  // Evicts until the load is at most `target`. `r` is the replay of `extras`, before and after.
  // False where it was not reached; extras are then somewhere in between.
  bool lower(Extras& extras, Replay& r, std::uint64_t target, Score score, std::uint64_t work);

  // Takes back extras that the load of `target` has room for. `r` as above.
  void restore(Extras& extras, Replay& r, std::uint64_t target);

  // Every eviction at position `at` that one gap offers: run again, with the inputs run again or
  // held, at its use or before; read back. For an exhaustive search; `r` is the current replay.
  void prepare(const Replay& r, std::uint64_t target);
  std::vector<Eviction> evictions(const Replay& r, const Gap& gap, Id at);

 private:
  std::vector<Id> stages(const Replay& r, const Gap& gap, Id at) const;
  Eviction freed(const Gap& gap, Id to) const;
  Eviction rerun(const Replay& r, const Gap& gap, Id at, Id stage);
  Eviction hold(const Replay& r, const Gap& gap, Id at, Id stage);
  Eviction spill(const Replay& r, const Gap& gap, Id at);
  Eviction cheapest(const Replay& r, const Gap& gap, Id at);
  bool round(Extras& extras, Replay& r, Score score);
  bool choose(const Replay& r, Id at, Score score);
  void take(const Replay& r, const Gap& gap, const Eviction& eviction);
  void share(const Replay& r, Id buffer, Id at, Eviction& e);
  bool there(const Replay& r, Id buffer, Id stage, Id at) const;
  Id stay_before(const Replay& r, Id buffer, Id at) const;
  Id read_stage(const Replay& r, Id buffer, Id after, Id use) const;

  const Ordered& g_;
  Replayer& replayer_;
  bool recompute_;
  std::int64_t target_ = 0;
  LoadTree tree_;
  std::vector<double> stage_seconds_;  // of extra runs
  // What this round, between two replays, has decided so far.
  std::uint32_t round_ = 0, seen_now_ = 0;
  std::vector<Id> evicted_stage_, added_stage_;
  std::vector<std::uint32_t> evicted_round_, added_round_, seen_;
  std::vector<double> weight_;  // per buffer, where victims are weighed at random
  std::vector<double> known_;   // per buffer: seconds of its eviction, when last worked out
  Extras add_, drop_;
  double transfers_ = 0;
};

// extras + add - drop
void apply(Extras& extras, Extras add, Extras drop);

}  // namespace ebb::plan
