// The sums over examples of a step that ranks share, such that each has the bits of one process.
//
// A call that makes a sum of what is there for each example is one chain over the examples. On ranks it goes on
// from the sum of the rank before; and what is made of sums alone (a gradient of several, the updates) is made once,
// of totals. Where such a call goes on from another sum itself (a weight that is used twice), the first rank goes on
// from that one's total.
//
// Read off the traces of two numbers of examples, then applied to those of any number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/trace/trace.hpp"

namespace ebb::plan {

struct RankSums {
  // Calls are counted without those that read constants alone: of a single example there may be others.
  struct Sum {
    std::size_t call = 0;
    int output = 0;
    int accumulator = -1;  // the input that it goes on from; -1: it is to have one
    int start = -1;        // the sum that this is; -1: none, it starts from zeros
    int place = -1;  // among those that go on from micro-batch to micro-batch; -1: none so far
    bool operator==(const Sum&) const = default;
  };
  struct Count {  // a number of examples, which is the whole batch's
    std::size_t call = 0, in = 0;
    bool operator==(const Count&) const = default;
  };
  std::vector<const ops::OpType*> calls;
  std::vector<Sum> sums;
  std::vector<Count> counts;
  std::string reason;  // why there is a sum that is not one chain; "": there is none

  bool possible() const { return reason.empty() && !calls.empty(); }
  // One of them starts from another's total, so that a rank cannot take its rows one after the other.
  bool in_turn() const;
  // Per place of with_rank_sums, of which there are so many: the call that makes it, or kNoCall where no sum has it.
  static constexpr std::size_t kNoCall = static_cast<std::size_t>(-1);
  std::vector<std::size_t> calls_of_places(std::size_t count) const;
  bool operator==(const RankSums&) const = default;
};

// Both are traces of a last micro-batch (trace::MicroBatch::last), simplified, of two or more examples each.
RankSums find_rank_sums(const trace::Trace& trace, std::int64_t examples, const trace::Trace& other,
                        std::int64_t other_examples);

// Such a trace of some examples, with these sums for those that go on (a place that none of them has stays zero);
// `all` is that of the whole batch.
trace::Trace with_rank_sums(trace::Trace trace, const RankSums& sums, const trace::Trace& all);

}  // namespace ebb::plan
