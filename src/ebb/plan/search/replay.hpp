// What a set of extra runs and reads does to a step: its load at every position, and its seconds.
//
// Stage t is what happens between node t-1 and node t, node t itself at its end. A plan is the set
// of Extras: "in stage t, run node r again" or "in stage t, read buffer b back". Within a stage
// they run by rank, the place of their node. Every such set is valid, because each buffer was made
// once before any extra: a use simply takes the latest instance, and an instance lives from where
// it is made to its last use. So there is nothing to keep consistent, and any move can be tried.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/plan/search/ordered.hpp"

namespace ebb::plan {

// Packed so that sorting by value is the order of running.
class Extra {
 public:
  static Extra run(Id stage, Id place) { return Extra(stage, place, kRun); }
  // `wait`: the write that this read needs is waited for at once, not hidden behind later nodes.
  static Extra read(const Ordered& g, Id stage, Id buffer, bool wait) {
    const Id rank = g.maker[buffer] == kNone ? 0 : g.maker[buffer];
    return Extra(stage, rank, static_cast<std::uint64_t>(buffer) * 2 + wait);
  }
  Id stage() const { return static_cast<Id>(value_ >> 44); }
  Id rank() const { return static_cast<Id>((value_ >> 24) & 0xFFFFF); }
  bool is_run() const { return (value_ & kRun) == kRun; }
  Id buffer() const { return static_cast<Id>((value_ & kRun) >> 1); }  // of a read
  bool wait() const { return !is_run() && (value_ & 1); }
  auto operator<=>(const Extra&) const = default;

 private:
  static constexpr std::uint64_t kRun = 0xFFFFFF;
  Extra(Id stage, Id rank, std::uint64_t tag)
      : value_(static_cast<std::uint64_t>(stage) << 44 | static_cast<std::uint64_t>(rank) << 24 |
               tag) {}
  std::uint64_t value_;
};

using Extras = std::vector<Extra>;  // sorted, each once

// What every plan has: a read of each state that is never there when the step begins, early enough
// to be hidden behind the nodes before its first use. Empty where there is no such state.
Extras needed_reads(const Ordered& graph);

struct Position {  // one run or read
  Extra what;
  bool main;  // the node of its stage, in its turn
};

struct Stay {  // of a buffer in memory, in positions
  Id buffer, first, last;
  Id before;  // the buffer's previous stay, or kNone
};

struct Gap {  // in a stay, between two uses next to each other; -1 and size() are start and end
  Id buffer, from, to;
};

struct Replay {
  std::vector<Position> positions;
  std::vector<std::uint64_t> load;
  std::vector<double> start;  // seconds at which the position begins
  std::vector<Stay> stays;
  std::vector<Id> latest;  // per buffer: its last stay, or kNone
  std::vector<Gap> gaps;
  std::vector<Id> main_at;            // per stage: position of its node
  std::vector<std::uint8_t> away;     // per buffer: state that is kept in the file
  std::vector<std::uint8_t> written;  // per buffer: 1 written once, 2 and waited for
  std::uint64_t peak = 0;
  Id peak_at = 0;
  double seconds = 0;
  double transfer_seconds = 0;
  bool valid = true;  // false: state in the file is used before it is read

  Id stage_begin(Id stage) const { return stage == 0 ? 0 : main_at[stage - 1] + 1; }
};

// Drops from `extras` what nobody uses, then replays.
class Replayer {
 public:
  explicit Replayer(const Ordered& graph);
  void operator()(Extras& extras, Replay& result);

  std::uint64_t work = 0;  // positions replayed so far: the measure of effort

 private:
  void lay_out(Extras& extras, Replay& result);
  void open(Replay& result, Id buffer, Id at, double ready);
  void begin(Replay& result);
  void end(Replay& result, std::size_t done);
  void walk(Replay& result);
  void sum(Replay& result);

  const Ordered& g_;
  std::vector<std::uint8_t> needed_;
  std::vector<Id> last_use_;        // per buffer: of its first stay, counted from the end
  std::vector<double> write_done_;  // per buffer
  std::vector<double> ready_;       // per stay
  struct Pending {
    double done;
    Id stay;
  };
  std::vector<Pending> pending_;  // writes under way, oldest first
  std::vector<std::int64_t> delta_;
};

}  // namespace ebb::plan
