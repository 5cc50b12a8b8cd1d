// Plans made in one go, to start a descent from: in a long step most of what waits is of a few
// kinds, and what is right for one layer or stretch of time is right for all.
//
// Buffers are told apart by what making them again costs a byte. Up to a price all of them are made
// again where they are used next, in each gap that is not short; above it they go to the spill
// file, or stay. So the states between stretches of time are kept or sent away, and what a stretch
// saves is made again from them.
//
// Or the way forward is cut into segments, where little goes across. What goes across a cut stays;
// what else a segment saves is made again all at once, where the walk back comes to the segment,
// and up to the price one by one.
#pragma once

#include <vector>

#include "ebb/plan/search/replay.hpp"

namespace ebb::plan {

struct SeedOptions {
  double price = 0;    // seconds a byte
  bool spill = false;  // what costs more
  int segments = 1;    // 1: no cuts
  bool state = false;  // in the file, wherever it is not used for a while
  bool wait = false;   // for every write, so that what is written does not pile up
};

class SeedPlans {
 public:
  // `all`: the replay that keeps everything.
  SeedPlans(const Ordered& graph, const Replay& all);

  // Prices that part what waits by its bytes, rising.
  const std::vector<double>& prices() const { return prices_; }
  int most_segments() const { return most_segments_; }

  // Empty where nearly everything would run again many times.
  Extras operator()(const SeedOptions& how);

 private:
  bool waits_at(Id buffer, Id at) const;
  void find_prices();
  void find_turn();
  void find_state_reads();
  void cut(int segments);
  void bring_back(Id wanted, Id stage, const SeedOptions& how);
  Id early(Id buffer, Id stage) const;

  const Ordered& g_;
  const Replay& all_;
  std::vector<Gap> gaps_;          // in which something waits, by buffer
  std::vector<std::size_t> from_;  // of each buffer's gaps, one more at the end
  std::vector<double> prices_;
  Extras state_reads_, waited_state_reads_;
  // The position that most waits across: there the way forward ends. Before it, per position, the
  // bytes that what comes up to the turn still reads, and the bytes made so far that wait over it.
  Id turn_ = 0;
  std::vector<std::uint64_t> across_, saved_;
  std::vector<Id> forward_until_;  // per buffer: the last use up to the turn
  int most_segments_ = 1;
  // Of the plan being made.
  std::vector<std::uint8_t> kept_;  // per buffer
  std::vector<Id> stage_of_;        // per buffer: where its segment runs again, or kNone
  std::vector<Id> run_;             // per place: the stage it was last brought back in
  struct Wanted {
    Id buffer, stage;
  };
  std::vector<Wanted> todo_;
  Extras extras_;
};

}  // namespace ebb::plan
