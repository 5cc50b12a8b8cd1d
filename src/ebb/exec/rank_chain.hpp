// The sums of a step that is divided among ranks: one chain over all rows of the batch, as one process has it.
//
//   rank 0 ──► rank 1 ──► rank 2      the sums so far, each when it is final here; taken before the first call
//      ▲                    │         that adds to it
//      └────────────────────┘         and the totals, onward from the last rank: 2 → 0 → 1
//
// A sum that goes on from another one (trace::Trace::starts) has that one's total from the last rank, on the first.
//
// Letters are received and sent where the sums lie, at the start of the arena: there are no other buffers. Small
// sums of one call go together.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ebb/base/messages/ranks.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

class RankChain {
 public:
  RankChain(Ranks& ranks, const plan::Plan& plan, std::byte* arena);
  ~RankChain();

  // A step: begin, micro-batches that take and give, finish.
  void begin();
  // The last micro-batch runs: from now on, what is given is final.
  void set_last() { last_ = true; }
  void take(std::size_t sum);  // it is here, as far as the ranks before have brought it
  void give(std::size_t sum);  // it has been added to
  // Gives what was not given, whatever it is (others wait for it), and waits for the totals.
  void finish();

 private:
  struct Letters;  // one message, in pieces where it is very long
  struct Group {   // of sums
    std::size_t sums = 0, given = 0;
    bool taken = false;
    Scope::Id scope = 0;  // of the call that makes the first of them
    std::unique_ptr<Letters> so_far_in, so_far_out, total_in, total_out;  // null: there is none
  };
  static void start(const Group& group, Letters& letters);
  void take(Group& group);
  void send(std::size_t group);

  Ranks& ranks_;
  std::vector<std::size_t> group_of_;  // per sum
  std::vector<Group> groups_;
  std::vector<std::size_t> sent_;  // groups, in the order in which they were
  bool last_ = false;
};

}  // namespace ebb::exec
