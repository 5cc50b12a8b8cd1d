#include "ebb/plan/graph/lower.hpp"

#include <algorithm>
#include <cmath>

#include "ebb/optim/update_ops.hpp"
#include "ebb/plan/graph/far.hpp"
#include "ebb/plan/limits.hpp"
#include "ebb/trace/gradient_blocks.hpp"
#include "ebb/trace/ids.hpp"

namespace ebb::plan {
namespace {

using memory::aligned;
using trace::Call;
using trace::Kind;
using trace::Trace;
using trace::Value;

class Lowering {
 public:
  Lowering(const Trace& trace, const Machine& machine, bool state, bool stream)
      : trace_(trace), machine_(machine), state_(state), stream_(stream) {
    out_.buffer_of.assign(trace.values.size(), kNone);
  }

  Lowered run() {
    last_read_.assign(trace_.values.size(), kNone);
    for (std::size_t c = 0; c < trace_.calls.size(); ++c)
      for (const trace::Id id : trace_.calls[c].in)
        last_read_[trace_.base_of(id)] = static_cast<Id>(c);
    outside();
    place_replacements();
    place_results();
    for (std::size_t i = 0; i < trace_.values.size(); ++i) {
      const Value& v = trace_.values[i];
      if (out_.buffer_of[i] == kNone && v.base == trace::kNone)
        out_.buffer_of[i] = add(static_cast<Id>(i), v.spec.bytes(), Origin::made);
    }
    for (std::size_t i = 0; i < trace_.values.size(); ++i)
      if (trace_.values[i].base != trace::kNone)
        out_.buffer_of[i] = out_.buffer_of[trace_.values[i].base];
    out_.streamed.assign(out_.graph.buffers.size(), false);
    if (stream_) uses();
    far_ = far_parts(trace_, out_.buffer_of, machine_.shared_cache);
    for (std::size_t c = 0; c < trace_.calls.size(); ++c)
      if (!trace_.calls[c].view) node(static_cast<Id>(c));
    keep();
    return std::move(out_);
  }

 private:
  Id add(Id value, std::uint64_t bytes, Origin origin) {
    Buffer b;
    b.bytes = aligned(bytes);
    b.origin = origin;
    b.spillable = b.bytes >= kLimits.spilled_bytes;
    out_.graph.buffers.push_back(b);
    out_.value_of.push_back(value);
    out_.sum_of.push_back(kNone);
    out_.result_of.push_back(kNone);
    return static_cast<Id>(out_.graph.buffers.size()) - 1;
  }

  // What is there before the step.
  void outside() {
    variable_.assign(trace_.variables.size(), kNone);
    sum_so_far_.assign(trace_.carry.size(), kNone);
    for (std::size_t i = 0; i < trace_.values.size(); ++i) {
      const Value& v = trace_.values[i];
      if (v.base != trace::kNone || v.kind == Kind::made) continue;
      const bool state = v.kind == Kind::variable, summed = v.kind == Kind::sum_so_far;
      const Id b = add(static_cast<Id>(i), state && state_ ? v.spec.bytes() : 0,
                       state ? Origin::state : Origin::given);
      out_.graph.buffers[b].spillable &= state;
      out_.buffer_of[i] = b;
      if (state) {
        variable_[v.index] = b;
        out_.state_bytes += aligned(v.spec.bytes());
      }
      if (summed) {
        sum_so_far_[v.index] = b;
        out_.sum_of[b] = v.index;
      }
    }
  }

  // Whether the call that made `value` may write it where `buffer` lies: it does not read that, or
  // reads it through an input it may overwrite.
  bool may_lie_in(Id value, Id buffer) const {
    const Value& v = trace_.values[value];
    if (v.kind != Kind::made || v.base != trace::kNone || v.call == trace::kNone) return false;
    const Call& call = trace_.calls[v.call];
    const std::uint32_t may = overwritable(call, v.index);
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      const Id base = trace_.base_of(call.in[i]);
      if (out_.buffer_of[base] == buffer && !(may >> i & 1)) return false;
    }
    return true;
  }

  std::uint32_t overwritable(const Call& call, int output) const {
    std::uint32_t may = call.op.type().overwrites(call.op.attributes(), output);
    if (output == 0 && call.donated >= 0) may |= 1u << call.donated;
    const Spec& made = trace_.values[call.out[static_cast<std::size_t>(output)]].spec;
    for (std::size_t i = 0; i < call.in.size() && i < 32; ++i)
      if (trace_.values[call.in[i]].spec != made) may &= ~(1u << i);
    return may;
  }

  void place_replacements() {
    std::vector<int> times(trace_.values.size());
    for (const trace::Assign& a : trace_.assigns) ++times[a.value];
    for (const trace::Assign& a : trace_.assigns) {
      // What the forward pass assigns waits for the end of the step: a bad label may yet stop it.
      const Variable& variable = trace_.variables[a.variable];
      if (!variable.trainable() && variable.category() != Category::optimizer) continue;
      const Id target = variable_[a.variable];
      if (target != kNone && out_.buffer_of[a.value] == kNone && last_read_[a.value] == kNone &&
          times[a.value] == 1 && may_lie_in(a.value, target) &&
          last_read_[out_.value_of[target]] <= trace_.values[a.value].call)
        out_.buffer_of[a.value] = target;
    }
    for (std::size_t k = 0; k < trace_.carry.size(); ++k) {
      const Id value = trace_.carry[k];
      if (value == trace::kNone) continue;
      out_.carry_bytes += aligned(trace_.values[value].spec.bytes());
      if (sum_so_far_[k] == kNone || out_.buffer_of[value] != kNone ||
          !may_lie_in(value, sum_so_far_[k]))
        continue;
      out_.buffer_of[value] = add(value, 0, Origin::made);
      out_.sum_of[out_.buffer_of[value]] = static_cast<Id>(k);
    }
  }

  // What a call makes to be a result alone.
  void place_results() {
    std::vector<int> uses(trace_.values.size());
    trace::each_outcome(trace_, [&](Id id) { ++uses[trace_.base_of(id)]; });
    for (std::size_t i = 0; i < trace_.results.size(); ++i) {
      const Id id = trace_.results[i];
      const Value& v = trace_.values[id];
      if (v.kind != Kind::made || v.base != trace::kNone || uses[id] != 1 ||
          out_.buffer_of[id] != kNone || v.spec.bytes() < kLimits.uncopied_bytes)
        continue;
      out_.buffer_of[id] = add(id, 0, Origin::made);
      out_.result_of[out_.buffer_of[id]] = static_cast<Id>(i);
    }
  }

  void uses() {
    uses_.assign(out_.graph.buffers.size(), 0);
    for (const Call& call : trace_.calls)
      for (const Id id : call.in) ++uses_[out_.buffer_of[id]];
    for (const Id id : trace_.results) ++uses_[out_.buffer_of[id]];
    for (const Id id : trace_.carry)
      if (id != trace::kNone) ++uses_[out_.buffer_of[id]];
  }

  // Which outputs of the call are large state that it alone reads and replaces.
  void stream(const Call& call, Node& n) {
    const trace::GradientBlocks* blocks = trace::gradient_blocks_of(call);
    const std::optional<std::size_t> cut =
        blocks ? blocks->cut_from : ops::cut_from(call.op.type());
    if (!stream_ || !cut) return;
    const Spec& param = trace_.values[call.out[0]].spec;
    const std::int64_t elements = param.size();
    Lowered::Stream s{
        static_cast<Id>(out_.graph.nodes.size()), *cut, kPiece, blocks != nullptr, {}};
    if (blocks) s.piece = blocks->at_once * (elements / param.shape[0]);
    std::uint64_t bytes = 0;
    for (std::size_t k = 0; k < call.out.size(); ++k) {
      const Id b = out_.buffer_of[call.out[k]];
      const Value& named = trace_.values[out_.value_of[b]];
      const auto in = std::find_if(call.in.begin(), call.in.end(),
                                   [&](Id id) { return out_.buffer_of[id] == b; });
      if (named.kind != Kind::variable || uses_[b] != 1 || in == call.in.end()) continue;
      s.arrays.push_back({static_cast<std::size_t>(in - call.in.begin()), k});
      bytes += named.spec.bytes();
      s.memory += kPiecesAtOnce * s.place(size_of(named.spec.dtype));
    }
    if (s.arrays.empty() || elements <= kPiece * static_cast<std::int64_t>(kPiecesAtOnce) ||
        bytes * kLimits.streamed_divisor < out_.state_bytes)
      return;
    for (const Lowered::Stream::Array& a : s.arrays) {
      const Id b = out_.buffer_of[call.out[a.out]];
      out_.streamed[b] = true;
      out_.graph.buffers[b].bytes = 0;
      out_.graph.buffers[b].spillable = false;
    }
    out_.streamed_bytes += bytes;
    n.scratch += s.memory;
    n.seconds += static_cast<double>(bytes) * (1 / machine_.spill_read + 1 / machine_.spill_write);
    out_.streams.push_back(std::move(s));
  }

  void node(Id index) {
    const Call& call = trace_.calls[index];
    const ops::OpType& type = call.op.type();
    Node n;
    std::vector<Spec> specs;
    for (const Id id : call.in) specs.push_back(trace_.values[id].spec);
    for (const ops::Cost& cost : costs_of(trace_, call))
      n.seconds += machine_.seconds(cost, far_[index]);
    n.scratch = aligned(type.scratch(call.op.attributes(), specs));
    tiles(n, call, specs);
    stream(call, n);
    n.again = !type.once;
    n.early = call.early;
    n.late = call.late;
    for (const Id id : call.in) {
      insert(n.in, out_.buffer_of[id]);
      n.again &= out_.sum_of[out_.buffer_of[id]] == kNone;  // which changes in its place
    }
    // A sum that starts from another's total is added to after that one: else ranks wait for each other.
    for (const Id id : call.in) {
      const Value& v = trace_.values[id];
      if (v.kind != Kind::sum_so_far || static_cast<std::size_t>(v.index) >= trace_.starts.size())
        continue;
      const Id start = trace_.starts[static_cast<std::size_t>(v.index)];
      if (start != kNone)
        insert(n.in, out_.buffer_of[trace_.carry[static_cast<std::size_t>(start)]]);
    }
    for (const Id id : call.out) {
      const Id b = out_.buffer_of[id];
      n.again &= out_.sum_of[b] == kNone;
      if (out_.graph.buffers[b].origin == Origin::state) {
        insert(n.updates, b);
        std::erase(n.in, b);
        n.again = false;
      } else {
        n.out.push_back(b);
      }
    }
    if (!n.out.empty() && n.out[0] == out_.buffer_of[call.out[0]]) {
      const std::uint32_t may = overwritable(call, 0);
      for (std::size_t i = 0; i < call.in.size() && i < 32 && n.reuse == kNone; ++i) {
        const Id b = out_.buffer_of[call.in[i]];
        const bool whole = trace_.values[trace_.base_of(call.in[i])].spec.bytes() ==
                           trace_.values[call.out[0]].spec.bytes();
        const auto times = std::count_if(call.in.begin(), call.in.end(),
                                         [&](Id id) { return out_.buffer_of[id] == b; });
        if ((may >> i & 1) && whole && times == 1 && out_.graph.buffers[b].origin == Origin::made &&
            in_the_arena(b) && in_the_arena(n.out[0]))
          n.reuse = b;
      }
    }
    out_.graph.nodes.push_back(std::move(n));
    out_.call.push_back(index);
  }

  bool in_the_arena(Id b) const { return out_.sum_of[b] == kNone && out_.result_of[b] == kNone; }

  // Less and less scratch, down to the least the op can run with.
  static void tiles(Node& n, const Call& call, const std::vector<Spec>& specs) {
    const ops::OpType& type = call.op.type();
    if (!type.least_scratch) return;
    const std::uint64_t least = aligned(type.least_scratch(call.op.attributes(), specs));
    for (std::uint64_t bytes = n.scratch; bytes > least;) {
      const auto less = static_cast<double>(bytes) / std::exp2(1.0 / Tile::kToHalf);
      bytes = std::max(least, aligned(static_cast<std::uint64_t>(less)));
      n.tiles.push_back({bytes, n.seconds * type.slowdown(call.op.attributes(), specs, bytes)});
    }
  }

  static void insert(std::vector<Id>& into, Id b) {
    if (std::find(into.begin(), into.end(), b) == into.end()) into.push_back(b);
  }

  void keep() {
    for (const Id id : trace_.results) kept(out_.buffer_of[id]);
    for (const trace::Assign& a : trace_.assigns) {
      const Id b = out_.buffer_of[a.value];
      if (b == variable_[a.variable]) continue;
      kept(b);
      out_.copies.push_back({b, a.variable});
      // The copy goes to its place in memory.
      if (const Id to = variable_[a.variable]; to != kNone)
        out_.graph.buffers[to].spillable = false;
    }
    for (std::size_t k = 0; k < trace_.carry.size(); ++k) {
      if (trace_.carry[k] == trace::kNone) continue;
      kept(out_.buffer_of[trace_.carry[k]]);
    }
  }
  void kept(Id b) { out_.graph.buffers[b].kept = true; }

  const Trace& trace_;
  const Machine& machine_;
  bool state_, stream_;
  Lowered out_;
  std::vector<int> uses_;  // per buffer: how often it is read or a result
  std::vector<Id> variable_, sum_so_far_;
  std::vector<double> far_;    // per call: the part of its bytes that comes from memory
  std::vector<Id> last_read_;  // per value: the last call that reads it or a view of it, or kNone
};

}  // namespace

Lowered lower(const Trace& trace, const Machine& machine, bool state, bool stream) {
  return Lowering(trace, machine, state, stream).run();
}

}  // namespace ebb::plan
