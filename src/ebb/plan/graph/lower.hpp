// From a Trace to the Graph the search works on: views become the buffers they lie in, values that
// replace a variable or go on in a sum lie where those lie.
#pragma once

#include <vector>

#include "ebb/base/memory/memory.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/plan/graph/graph.hpp"
#include "ebb/trace/trace.hpp"

namespace ebb::plan {

struct Lowered {
  Graph graph;
  std::vector<Id> call;       // per node: which call of the trace
  std::vector<Id> buffer_of;  // per value of the trace
  std::vector<Id> value_of;   // per buffer: the value that names it
  std::vector<Id> sum_of;     // per buffer: which sum over micro-batches it holds, or kNone. Before
                              // and after this one are two buffers, which lie in one place
  std::vector<Id> result_of;  // per buffer: the result that is written there straight away, or
                              // kNone. Its bytes are the caller's, and 0 in the graph
  struct Copy {               // at the end of a step: a variable's new value that lies elsewhere
    Id from_buffer, variable;
    bool operator==(const Copy&) const = default;
  };
  std::vector<Copy> copies;
  struct Stream {  // a node that takes variables from the file and back, piece by piece, as it runs
    Id node;
    std::size_t cut_from;  // the call's first input that is cut; so are those after it, and outputs
    std::int64_t piece;    // elements of a piece
    bool whole_rows;       // a piece is rows of the first axis, and the call is told which
    std::uint64_t place(std::uint64_t element) const;  // bytes of a piece in memory
    struct Array {
      std::size_t in, out;  // of the call: the variable before and after. All others are in memory
      bool operator==(const Array&) const = default;
    };
    std::vector<Array> arrays;
    std::uint64_t memory = 0;  // bytes of all pieces at once: the start of the node's scratch
    bool operator==(const Stream&) const = default;
  };
  std::vector<Stream> streams;
  std::vector<bool> streamed;        // per buffer: never in memory whole, and 0 bytes in the graph
  std::uint64_t streamed_bytes = 0;  // in a step, each way
  // Of variables; of sums that go on. Each rounded up.
  std::uint64_t state_bytes = 0, carry_bytes = 0;
  bool operator==(const Lowered&) const = default;
};

// With `state` the bytes of variables count in the graph (they may be spilled), else they are 0
// there; those of sums that go on from micro-batch to micro-batch always are 0: they have a place
// of their own. With `stream` large state that nothing but its update uses is not in memory at all.
Lowered lower(const trace::Trace& trace, const Machine& machine, bool state, bool stream);

// Of a streamed update: elements of a piece, at most, and how many pieces of an array are in
// memory: one is read, one updated and one written.
inline constexpr std::int64_t kPiece = std::int64_t{1} << 19;
inline constexpr std::uint64_t kPiecesAtOnce = 3;

inline constexpr std::uint64_t kPage = 4096;  // memory that a file is read into straight away
constexpr std::uint64_t paged(std::uint64_t bytes) { return round_up(bytes, kPage); }
inline std::uint64_t Lowered::Stream::place(std::uint64_t element) const {
  return paged(static_cast<std::uint64_t>(piece) * element);
}

}  // namespace ebb::plan
