// A Graph laid out flat along one order of its nodes, the form the search works on.
//
// Nodes are numbered by their place in the order. One more node at the end stands for the end of
// the step: it reads what is kept. Buffers that never move (given, and state that must stay in
// memory) appear only as a constant under the load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/plan/graph/graph.hpp"

namespace ebb::plan {

struct Ordered {
  Ordered(const Graph& graph, std::vector<Id> order, const SpillCost& spill);

  const Graph* graph;
  std::vector<Id> order;  // node of the graph at each place
  SpillCost spill;
  Id nodes = 0;  // places; place `nodes` is the end of the step

  // Per place; the lists hold moving buffers only.
  std::vector<double> seconds;
  std::vector<std::uint64_t> scratch;
  std::vector<Id> in_begin, in_list, out_begin, out_list;
  std::vector<Id> reuse_in;  // the input whose bytes the first output may take, or kNone
  std::vector<Id> again_by;  // last stage where the node may run again; kNone: never

  // Per buffer.
  std::vector<std::uint64_t> bytes;
  std::vector<Id> maker;            // place of its node, kNone if not made
  std::vector<Id> first_use;        // moving state: first place that uses it
  std::vector<Id> updated_at;       // moving state: place of its update, or kNone
  std::vector<std::uint8_t> state;  // moving state
  std::vector<std::uint8_t> away;   // moving state that is never there when the step begins
  std::vector<std::uint8_t> spillable;

  std::uint64_t base = 0;         // bytes that never move
  std::uint64_t state_bytes = 0;  // moving state, while it is all in memory
  double total_seconds = 0;

  std::span<const Id> in(Id place) const {
    return {in_list.data() + in_begin[place], in_list.data() + in_begin[place + 1]};
  }
  std::span<const Id> out(Id place) const {
    return {out_list.data() + out_begin[place], out_list.data() + out_begin[place + 1]};
  }
  double write_seconds(Id buffer) const {
    return static_cast<double>(bytes[buffer]) * spill.write_seconds_per_byte;
  }
  double read_seconds(Id buffer) const {
    return static_cast<double>(bytes[buffer]) * spill.read_seconds_per_byte;
  }
};

// Throws std::invalid_argument where the graph is not one.
void validate(const Graph& graph);

// Orders worth starting from, the given one first; each once.
std::vector<std::vector<Id>> orders(const Graph& graph, bool reorder);

}  // namespace ebb::plan
