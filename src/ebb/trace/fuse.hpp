// Elementwise calls whose results only they read become one call, which is run tile by tile: what
// lies between them stays in the cache and takes no place in memory.
//
//   %3 = silu(%1); %4 = mul(%3, %2)   becomes   %4 = fused[silu mul](%1, %2)
//
// Each op's own kernel runs on each tile, and an element's result does not depend on where it
// stands: the bits are those of the separate calls. Done after gradients were generated, as the
// last pass.
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

Trace fused(const Trace& trace);

// What a fused call does, in terms of tiles. Places are what its ops read and write: first the
// inputs of the call, then its result, then what lies between.
struct Group {
  static constexpr std::size_t kMostOperands = 8;  // of a member
  struct Place {
    Spec whole, tile, rest;    // rest: of the last tile, which may be shorter
    std::uint64_t step = 0;    // bytes from tile to tile; 0: the same for all
    std::uint64_t offset = 0;  // between: in a thread's scratch
    bool operator==(const Place&) const = default;
  };
  struct Member {
    ops::AnyOp op;
    std::vector<Id> in;  // places
    Id out = 0;
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;
  std::vector<Place> places;
  Id result = 0;  // place, and number of inputs
  std::int64_t tiles = 0;
  std::uint64_t lane = 0;  // bytes of scratch a thread needs
  double work = 0;         // element operations of the whole
  double flops = 0;
  bool operator==(const Group&) const = default;
};

ops::AnyOp fused_op(const Group* group);
const Group* group_of(const Call& call);  // null: it is not fused
// The op's name; fused[silu mul], gradient_blocks[matmul adam].
std::string title(const Call& call);

}  // namespace ebb::trace
