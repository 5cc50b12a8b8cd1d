#include <algorithm>

#include "ebb/ops/op.hpp"
#include "ebb/trace/passes.hpp"

namespace ebb::trace {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 10;

// What the call gives, by its own kernels: the bits it would give in every step.
std::vector<Tensor> run(const Call& call, const std::vector<Tensor>& in) {
  const ops::RecorderSwap nobody(nullptr);
  const CategoryScope category(Category::data);
  std::vector<const Tensor*> inputs;
  for (const Tensor& x : in) inputs.push_back(&x);
  std::vector<Tensor> out(call.out.size());
  ops::call(call.op.type(), call.op.attributes(), inputs, out);
  return out;
}

}  // namespace

Trace folded(const Trace& trace) {
  Trace to = trace;
  to.calls.clear();
  std::vector<Id> call_at(trace.calls.size(), kNone);
  const auto constant = [&](Id id) { return to.values[id].kind == Kind::constant; };
  for (std::size_t c = 0; c < trace.calls.size(); ++c) {
    const Call& call = trace.calls[c];
    std::uint64_t made = 0;
    for (const Id id : call.out) made += to.values[id].spec.bytes();
    if (call.op.type().once || call.in.empty() || (!call.view && made > kMostBytes) ||
        !std::all_of(call.in.begin(), call.in.end(), constant)) {
      call_at[c] = static_cast<Id>(to.calls.size());
      to.calls.push_back(call);
      continue;
    }
    std::vector<Tensor> in;
    for (const Id id : call.in) in.push_back(to.constants[to.values[id].index]);
    const std::vector<Tensor> out = run(call, in);
    for (std::size_t i = 0; i < out.size(); ++i) {
      Value& v = to.values[call.out[i]];
      v = {v.spec, Kind::constant, static_cast<Id>(to.constants.size()), kNone, kNone,
           0,      Category::data};
      to.constants.push_back(out[i]);
    }
  }
  if (to.calls.size() == trace.calls.size()) return trace;
  for (Value& v : to.values)
    if (v.call != kNone) v.call = call_at[v.call];
  return without_dead_code(to);  // and without constants that only folded calls read
}

}  // namespace ebb::trace
