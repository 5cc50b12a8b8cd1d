// What a function does: op calls in order, with shapes only. Nothing has run. A value: printable,
// comparable, a pure function of the function and the specs of its arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/ops/op.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::trace {

using Id = std::int32_t;
inline constexpr Id kNone = -1;

enum class Kind : std::uint8_t {
  input,       // an argument of the function
  variable,    // the value of a variable before the step
  constant,    // a tensor the function holds
  before,      // written by the program when a step begins, such as the learning rate
  key,         // that of random draws
  sum_so_far,  // over the micro-batches before this one
  made         // by a call
};
const char* name(Kind kind);

struct Value {
  Spec spec;
  Kind kind = Kind::made;
  Id index = 0;     // of the input, variable, constant, …; made: which result of its call
  Id call = kNone;  // that made it
  Id base = kNone;  // whose bytes it shares, where it is a view …
  std::uint64_t offset = 0;  // … from this byte on
  Category category = Category::activations;
  bool operator==(const Value&) const = default;
};

struct Call {
  ops::AnyOp op;
  std::vector<Id> in, out;
  Scope::Id scope = 0;
  std::int8_t donated = -1;  // an input that the result of this call may overwrite
  bool view = false;         // shares its input's bytes: nothing runs
  bool finish = false;       // once for the whole batch, after its last micro-batch
  bool early = false;        // before the call that stands after it, whatever the order
  bool late = false;         // after the call that stands before it, likewise
  bool operator==(const Call&) const = default;
};

struct Assign {
  Id variable = 0;  // which of the variables
  Id value = 0;     // what it is after the step
  bool operator==(const Assign&) const = default;
};

struct Before {
  std::string name;
  Spec spec;
  std::function<void(std::span<std::byte>)> fill;
};

struct Group;           // ebb/trace/fuse.hpp
struct GradientBlocks;  // ebb/trace/gradient_blocks.hpp

struct Trace {
  std::vector<Value> values;
  std::vector<Call> calls;
  std::vector<std::shared_ptr<const Group>> groups;                    // what fused calls do
  std::vector<std::shared_ptr<const GradientBlocks>> gradient_blocks;  // what updates in blocks do
  std::vector<Spec> inputs;
  std::vector<Variable> variables;
  std::vector<Tensor> constants;
  std::vector<Before> before;
  std::vector<std::function<void()>> after;
  std::vector<Id> results;
  std::vector<Assign> assigns;
  std::vector<Id> carry;  // sums that go on into the next micro-batch, kNone: nothing flows
  // Per sum that goes on, where ranks share a step: the one whose total the first rank starts from; kNone: zeros.
  std::vector<Id> starts;
  bool gradients = false;  // whether a tape was walked

  // Equal in what they do: calls, shapes, variables. (Constants by their bytes.)
  bool operator==(const Trace& other) const;

  Id base_of(Id value) const { return values[value].base == kNone ? value : values[value].base; }
};

std::string to_string(const Trace& trace);  // one line a call
std::string to_json(const Trace& trace);
std::string to_dot(const Trace& trace);  // for Graphviz
std::ostream& operator<<(std::ostream& out, const Trace& trace);

// What is traced: the whole batch; the last of its micro-batches, whose sums go on from what those
// before have left (those before are the same trace without results and updates, see before_last in
// passes.hpp, and their sums start from zeros); or a probe, which only tells which sums there are.
enum class MicroBatch : std::uint8_t { whole, probe, last };

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// Calls fn once, with symbols. `probe`: the trace of a probe, for the sums there are.
Trace trace(const Function& fn, std::span<const Spec> inputs, MicroBatch which = MicroBatch::whole,
            const Trace* probe = nullptr);

// Traces a function for a (micro-)batch of so many examples.
using TraceBatch = std::function<Trace(std::int64_t examples, MicroBatch which)>;

}  // namespace ebb::trace
