// What the search for a plan knows of a step: sizes, times and who reads what; nothing of tensors.
//
// A Graph is a list of nodes in an order that works (every buffer is made before it is read).
// Buffers hold bytes: views of one another are one buffer. The search answers with a Schedule: the
// nodes in an order, some of them run again, and buffers written to the spill file and read back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ebb::plan {

using Id = std::int32_t;
inline constexpr Id kNone = -1;

struct Tile {  // a way to run an op with less scratch, for the same bits
  static constexpr std::size_t kToHalf = 4;  // so many steps lead to one with half of it
  std::uint64_t scratch = 0;
  double seconds = 0;
  bool operator==(const Tile&) const = default;
};

struct Node {  // one op call
  double seconds = 0;
  std::uint64_t scratch = 0;  // bytes it needs while it runs
  std::vector<Tile> tiles;    // what it could do with instead: ever less scratch, ever more time
  std::vector<Id> in, out;    // buffers it reads; buffers it makes
  std::vector<Id> updates;    // state buffers it reads and overwrites: nobody may read them later
  Id reuse = kNone;           // the input whose bytes out[0] may take over where it is read last
  bool again = true;          // may run a second time: its result depends on its inputs alone
  bool early = false;         // before the node that stands after it, in every order
  bool late = false;          // after the node that stands before it, likewise
  bool operator==(const Node&) const = default;
};

enum class Origin : std::uint8_t {
  made,   // by a node
  given,  // there before the step and untouched by it: data, constants
  state   // a variable: there before and after the step; its place in memory or in the spill file
};

struct Buffer {
  std::uint64_t bytes = 0;
  Origin origin = Origin::made;
  bool kept = false;      // alive when the step ends: results, sums that go on
  bool spillable = true;  // large enough, and allowed
  bool away = false;      // state that lies in the file whatever the plan: read where it is used
  bool operator==(const Buffer&) const = default;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Buffer> buffers;
  // Bytes in memory all along that no node uses: variables of other programs.
  std::uint64_t held = 0;
  bool operator==(const Graph&) const = default;
};

// What the spill file costs. It works beside the kernels: transfers are charged to the step only as
// far as they exceed what the nodes take, plus `seconds_per_transfer` and their `busy` part each.
struct SpillCost {
  bool allowed = false;
  bool state_allowed = false;  // variables may live in the file, too
  double write_seconds_per_byte = 0, read_seconds_per_byte = 0, seconds_per_transfer = 0;
  double busy = 0;  // the part of a transfer's time that the kernels lose to it: checksums, copies
};

// One thing the executor does. An instance is a buffer's stay in memory: it begins with the step
// that makes or reads it and ends with the last step that uses it.
struct Step {
  enum class Kind : std::uint8_t { run, write, read };
  Kind kind = Kind::run;
  Id node = kNone;            // run
  std::vector<Id> in, out;    // instances, parallel to the node's lists; write: in[0], read: out[0]
  std::vector<Id> updates;    // instances, parallel to the node's
  std::uint64_t scratch = 0;  // bytes it runs with: the node's, or those of one of its tiles
  bool operator==(const Step&) const = default;
};

struct Instance {
  Id buffer = kNone;
  Id first = 0, last = 0;  // steps, inclusive; given and resident state: 0 … end
  Id takes = kNone;  // the instance whose bytes it takes over (reuse), which ends where it begins
  bool operator==(const Instance&) const = default;
};

struct Schedule {
  std::vector<Step> steps;
  std::vector<Instance> instances;
  double seconds = 0;      // with the part of the transfers that is not hidden
  std::uint64_t load = 0;  // largest sum of live bytes, scratch included: what packing aims at
  std::uint64_t recomputed = 0;         // nodes run again
  std::uint64_t written = 0, read = 0;  // bytes to and from the spill file in one step
  bool operator==(const Schedule&) const = default;
};

}  // namespace ebb::plan
