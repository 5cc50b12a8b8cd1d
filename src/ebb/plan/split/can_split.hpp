// Whether a batch can be taken in parts, read off the trace: how each op treats rows is the op's
// own word (BatchRule in ops/op.hpp).
#pragma once

#include <string>
#include <vector>

#include "ebb/trace/trace.hpp"

namespace ebb::plan {

struct SplitAnswer {
  bool possible = false;
  bool same_bits = false;  // each sum over examples is one chain that goes on from part to part
  std::string reason;      // why not, or why only up to rounding
  std::string mixed;       // where rows depend on each other, and that was allowed: "" is nowhere
  std::vector<bool> result_carries;  // per result: rows of the batch, to be put one after the other
  std::vector<bool> assigned_in_parts;  // per assignment: each part makes it, going on from the last
  // Constants that are a number for each row of the batch, such as a count: in every part they are
  // what they are for the whole batch. By their place among the constants of a part's trace.
  struct Count {
    trace::Id constant;
    Tensor whole;
  };
  std::vector<Count> counts;
  std::size_t constants = 0;  // how many there are in such a trace
};

// The trace of a part with those constants in place; false where it has others than it should.
bool with_counts(trace::Trace& part, const SplitAnswer& answer);

// `part` is the trace of a later part (trace::Part::last) with `examples` rows; `other` one of a later
// part, too, with another number of them: all, where a count is wanted. It tells what grows with the
// batch (constants such as the ones a gradient starts from, shapes that an op is told) from what
// does not, and what depends on the number of rows in another way, which no part may.
//
// With `mixed` each part is a batch of its own, as far as rows depend on each other: another
// function.
SplitAnswer can_split(const trace::Trace& part, std::int64_t examples, const trace::Trace& other,
                      std::int64_t other_examples, bool mixed = false);

// Why a part of so many rows is not what `other` is for its number of them, where the batch can be
// split; "": it is. Both are traces of later parts. Of a single row little can be said: what is made for
// each row is no larger then than what it is made of.
std::string depends_on_rows(const trace::Trace& part, std::int64_t examples, const trace::Trace& other,
                            std::int64_t other_examples, const SplitAnswer& answer);

}  // namespace ebb::plan
