#include "ebb/trace/gradient_blocks.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "ebb/base/memory/memory.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/row_block.hpp"
#include "ebb/optim/update_ops.hpp"
#include "ebb/trace/ids.hpp"
#include "ebb/trace/passes.hpp"

namespace ebb::trace {
namespace {

using memory::aligned;
using At = ops::UpdateInputs;

// A gradient of fewer elements is not worth it, nor one that is less than this part of all.
constexpr std::int64_t kLeastElements = 1 << 17;
constexpr std::uint64_t kWorth = 16;
// Elements of a block: an eighth of the parameter, within these bounds.
constexpr std::int64_t kLeastBlock = 1 << 15, kLargestBlock = 1 << 19, kBlocks = 8;
// A block that is also a piece of state in the spill file is moved quickly in multiples of this.
constexpr std::int64_t kEven = 1 << 16;

std::uint64_t row_bytes(const Spec& spec) {
  return spec.shape[0] == 0 ? 0 : spec.bytes() / static_cast<std::uint64_t>(spec.shape[0]);
}

// dweight of this call is to be made later: the call makes the rest, and one more at the end of the
// trace makes dweight in its place.
void take_apart(Trace& t, Id index) {
  Call& call = t.calls[index];
  const auto& op = *static_cast<const ops::LinearCrossEntropyBackward*>(call.op.attributes());
  const Spec& weight = t.values[call.in[1]].spec;
  const ops::LinearCrossEntropyInputGrad dx{op.targets};
  const ops::LinearCrossEntropyWeightGrad dweight{op.targets, weight.shape[0], op.dweight_so_far};
  std::vector<Spec> in;
  for (std::size_t i = 0; i < 4; ++i) in.push_back(t.values[call.in[i]].spec);
  Value sums{dx.shape(in)[3], Kind::made, 3, index};
  const auto sums_id = static_cast<Id>(t.values.size());
  Call later = call;
  later.op = ops::AnyOp(ops::op_type<ops::LinearCrossEntropyWeightGrad>(), &dweight);
  later.in.insert(later.in.begin() + 4, sums_id);
  later.out.resize(1);
  later.donated = -1;
  t.values[call.out[0]].call = static_cast<Id>(t.calls.size());
  call.op = ops::AnyOp(ops::op_type<ops::LinearCrossEntropyInputGrad>(), &dx);
  call.in.resize(4);
  call.donated = -1;
  call.out.erase(call.out.begin());
  call.out.push_back(sums_id);
  for (std::size_t i = 0; i < call.out.size() - 1; ++i)
    t.values[call.out[i]].index = static_cast<Id>(i);
  t.values.push_back(sums);
  t.calls.push_back(std::move(later));
}

bool can_be_taken_apart(const Call& call) {
  return &call.op.type() == &ops::op_type<ops::LinearCrossEntropyBackward>() &&
         !static_cast<const ops::LinearCrossEntropyBackward*>(call.op.attributes())->sum_so_far;
}

// One update and what makes its gradient.
class Joining {
 public:
  // `t` is changed only if it works, but for calls at its end that lead to nothing.
  Joining(Trace& t, const std::vector<int>& used, Id root) : t_(t), used_(used), root_(root) {
    assigned_at_.assign(t.variables.size(), kNone);
    for (const Assign& a : t.assigns) assigned_at_[a.variable] = t.values[a.value].call;
  }

  bool run() {
    const Call& update = t_.calls[root_];
    gradient_ = t_.values[update.in[At::gradient]].spec;
    in_ = {update.in[At::rule], update.in[At::scale]};
    cut_.assign(update.in.begin() + At::param, update.in.end());
    if (!gather(update.in[At::gradient]) || held_ > gradient_.bytes()) return false;
    const std::size_t first_cut = in_.size();
    in_.insert(in_.end(), cut_.begin(), cut_.end());
    if (in_.size() > GradientBlocks::kMostInputs) return false;
    t_.gradient_blocks.push_back(std::make_shared<const GradientBlocks>(joined(first_cut)));
    Call& call = t_.calls[root_];
    call.op = gradient_blocks_op(t_.gradient_blocks.back().get(), call.out.size());
    call.in = in_;
    call.donated = -1;
    return true;
  }

 private:
  std::vector<Spec> specs_of(const Call& call) const {
    std::vector<Spec> specs;
    for (const Id id : call.in) specs.push_back(t_.values[id].spec);
    return specs;
  }

  // The call that makes `value`, and those before it that make nothing else; the last one last.
  bool gather(Id value) {
    const Value& v = t_.values[value];
    if (v.kind != Kind::made || v.base != kNone || v.index != 0 || v.spec != gradient_ ||
        used_[value] != 1)
      return false;
    if (can_be_taken_apart(t_.calls[v.call])) take_apart(t_, v.call);
    const Id index = t_.values[value].call;
    const Call call = t_.calls[index];
    if (call.view || call.op.type().outputs != 1 || call.in.size() > GradientBlocks::kMostOperands)
      return false;
    const std::vector<Spec> specs = specs_of(call);
    const auto cut = ops::row_block_inputs(call.op, specs);
    if (!cut) return false;
    for (std::size_t i = 0; i < call.in.size(); ++i)
      if (!operand(call.in[i], *cut >> i & 1)) return false;
    members_.push_back(index);
    return true;
  }

  bool operand(Id id, bool cut) {
    const Value& v = t_.values[t_.base_of(id)];
    const bool state = v.kind == Kind::variable;
    // What is read here is read when this update runs: no other may have come before it.
    const bool ours = state && assigned_at_[v.index] == root_;
    if (state && !ours && assigned_at_[v.index] != kNone && assigned_at_[v.index] < root_)
      return false;
    if (!cut) {
      if (ours) return false;
      if (v.kind == Kind::made) held_ += v.spec.bytes();
      add(in_, id);
      return true;
    }
    if (v.kind == Kind::made || v.kind == Kind::sum_so_far) return gather(id);
    add(cut_, id);
    return true;
  }

  static void add(std::vector<Id>& to, Id id) {
    if (std::find(to.begin(), to.end(), id) == to.end()) to.push_back(id);
  }

  std::int64_t rows_at_once() const {
    const std::int64_t rows = gradient_.shape[0], width = gradient_.size() / rows;
    const std::int64_t most =
        std::clamp(gradient_.size() / kBlocks, kLeastBlock, kLargestBlock) / width;
    const std::int64_t even = kEven / std::gcd(kEven, width);
    return std::clamp<std::int64_t>(most >= even ? most / even * even : most, 1, rows);
  }

  GradientBlocks joined(std::size_t first_cut) const {
    const Call& update = t_.calls[root_];
    GradientBlocks w;
    w.update = update.op;
    w.gradient = gradient_;
    w.cut_from = first_cut;
    w.inputs = in_.size();
    w.at_once = rows_at_once();
    w.block = aligned(static_cast<std::uint64_t>(w.at_once) * row_bytes(gradient_));
    std::map<Id, Id> place;
    for (std::size_t i = 0; i < in_.size(); ++i) place[in_[i]] = static_cast<Id>(i);
    std::vector<Id> free;
    for (const Id index : members_) {
      const Call& call = t_.calls[index];
      const std::vector<Spec> specs = specs_of(call);
      const std::uint32_t may = call.op.type().overwrites(call.op.attributes(), 0);
      GradientBlocks::Member m{call.op, {}, kNone};
      std::vector<Id> over;  // blocks that nobody reads after this member
      for (std::size_t i = 0; i < call.in.size(); ++i) {
        const Id at = place.at(call.in[i]);
        m.in.push_back(at);
        if (static_cast<std::size_t>(at) < w.inputs) continue;
        if (m.out == kNone && (may >> i & 1))
          m.out = at;
        else
          over.push_back(at);
      }
      if (m.out == kNone && !free.empty()) {
        m.out = free.back();
        free.pop_back();
      }
      if (m.out == kNone) m.out = static_cast<Id>(w.inputs + w.blocks++);
      free.insert(free.end(), over.begin(), over.end());
      place[call.out[0]] = m.out;
      w.costs.push_back(call.op.type().cost(call.op.attributes(), specs));
      // The last block is smaller, and may be worked on in another way, which takes more.
      for (const std::int64_t rows : {w.at_once, gradient_.shape[0] % w.at_once}) {
        w.scratch = std::max<std::uint64_t>(w.scratch,
                                            aligned(ops::row_block_scratch(call.op, specs, rows)));
      }
      w.members.push_back(std::move(m));
    }
    w.costs.push_back(update.op.type().cost(update.op.attributes(), specs_of(update)));
    return w;
  }

  Trace& t_;
  const std::vector<int>& used_;
  Id root_;
  Spec gradient_;
  std::vector<Id> assigned_at_;  // per variable: the call that updates it
  std::vector<Id> in_, cut_;     // values: inputs of the new call that are whole, and cut
  std::vector<Id> members_;      // calls, each after those it reads
  std::uint64_t held_ = 0;       // bytes of what others make and this has to wait for
};

bool contains(const std::vector<Variable>& list, const Variable& v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

// An update whose gradient is large enough to be worth it.
bool is_root(const Trace& t, const Call& call, std::uint64_t all_gradients) {
  if (ops::cut_from(call.op.type()) != At::gradient ||
      call.out.size() > GradientBlocks::kMostOutputs)
    return false;
  const Spec &gradient = t.values[call.in[At::gradient]].spec,
             &param = t.values[call.in[At::param]].spec;
  const bool floats = param.dtype == DType::f32 || param.dtype == DType::f64;
  return floats && gradient == param && param.rank() >= 2 && param.shape[0] > 1 &&
         param.size() >= kLeastElements && param.size() / param.shape[0] <= kLargestBlock &&
         gradient.bytes() * kWorth >= all_gradients;
}

}  // namespace

Trace with_gradient_blocks(const Trace& trace, const std::vector<Variable>* only) {
  std::uint64_t all = 0;
  for (const Call& call : trace.calls)
    if (ops::cut_from(call.op.type()) == At::gradient)
      all += trace.values[call.in[At::gradient]].spec.bytes();
  const std::vector<int> used = uses(trace);
  Trace to = trace;
  bool changed = false;
  for (std::size_t c = 0; c < trace.calls.size(); ++c) {
    if (!is_root(to, to.calls[c], all)) continue;
    if (only && !contains(*only, variable_at(to, to.calls[c].in[At::param]))) continue;
    Trace tried = to;
    if (!Joining(tried, used, static_cast<Id>(c)).run()) continue;
    to = std::move(tried);
    changed = true;
  }
  return changed ? without_dead_code(to) : trace;
}

std::vector<Variable> parameters_in_blocks(const Trace& trace) {
  std::vector<Variable> all;
  for (const Call& call : trace.calls)
    if (const GradientBlocks* const blocks = gradient_blocks_of(call))
      all.push_back(variable_at(trace, call.in[blocks->cut_from]));
  return all;
}

}  // namespace ebb::trace
