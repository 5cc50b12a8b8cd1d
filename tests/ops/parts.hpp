// One call of an op against what the op says of itself: that it may be run on a batch in parts, and
// over its own inputs.
#pragma once

#include <string>
#include <vector>

#include "ebb/ops/op.hpp"

namespace ebb::table {

struct OpCall {
  ops::AnyOp op;
  std::vector<Tensor> in;
};

struct PartsReport {
  std::vector<std::string> failures;        // what is wrong; nothing when every promise is kept
  int apart = 0, summed = 0, in_place = 0;  // promises of each kind
};

// For all ways in which the inputs may carry a batch or be sums:
//   apart       the rows of the result come out the same, bit for bit, from the rows in two parts
//   summed      the same, where the second part goes on from the first; else up to rounding
//   overwrites  the same, written over that input
// and a sum that goes on from zeros has the bits of one that starts from nothing.
PartsReport check_parts(const OpCall& call);

}  // namespace ebb::table
