// Whether a batch can be taken in micro-batches, read off the trace: what each op makes of examples
// is the op's own word (BatchRule in ops/op.hpp).
#pragma once

#include <string>
#include <vector>

#include "ebb/trace/trace.hpp"

namespace ebb::plan {

struct SplitAnswer {
  bool possible = false;
  bool same_bits = false;  // each sum over examples is one chain that goes on from one to the next
  std::string reason;      // why not, or why only up to rounding
  std::string mixed;       // where examples depend on each other, and that was allowed; "": nowhere
  std::vector<bool> result_per_example;  // per result: those of micro-batches stand in a row
  std::vector<bool> assigned_in_each;    // per assignment: each micro-batch makes it, in turn
  // Constants that count examples: in every micro-batch they are what they are for the whole batch.
  // By their place among the constants of a micro-batch's trace.
  struct Count {
    trace::Id constant;
    Tensor whole;
  };
  std::vector<Count> counts;
  std::size_t constants = 0;  // how many there are in such a trace
};

// The trace of a micro-batch with those constants in place; false where it has others than it
// should.
bool with_counts(trace::Trace& trace, const SplitAnswer& answer);

// Both are traces of a last micro-batch (trace::MicroBatch::last), for two numbers of examples;
// `other` for all of the batch, where counts are wanted. They tell what grows with the batch
// (constants such as the ones a gradient starts from, shapes that an op is told) from what does
// not, and what depends on the number of examples otherwise, which nothing may.
//
// With `mixed` each micro-batch is a batch of its own, as far as examples depend on each other:
// another function.
SplitAnswer can_split(const trace::Trace& trace, std::int64_t examples, const trace::Trace& other,
                      std::int64_t other_examples, bool mixed = false);

// Why a micro-batch of so many examples does not do what `other` does with its number of them,
// where the batch can be split; "": it does. Of a single example little can be said: what is made
// for each is no larger then than what it is made of.
std::string why_different(const trace::Trace& trace, std::int64_t examples,
                          const trace::Trace& other, std::int64_t other_examples,
                          const SplitAnswer& answer);

}  // namespace ebb::plan
