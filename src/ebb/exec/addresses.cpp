#include "ebb/exec/addresses.hpp"

namespace ebb::exec {

using plan::Id;
using plan::kNone;
using trace::Kind;

Addresses::Addresses(const plan::Plan& plan, const plan::Program& program, std::byte* arena,
                     const StepValues& values)
    : plan_(plan),
      program_(program),
      arena_(arena),
      values_(values),
      instance_of_(program.lowered.graph.buffers.size(), kNone) {}

std::byte* Addresses::of(Id buffer, Id instance) const {
  const plan::Lowered& lowered = program_.lowered;
  if (lowered.sum_of[buffer] != kNone) return sum(static_cast<std::size_t>(lowered.sum_of[buffer]));
  if (lowered.result_of[buffer] != kNone) return nullptr;
  if (lowered.streamed[buffer]) return arena_;  // it has no place
  if (instance != kNone && program_.offsets[instance] != plan::kOutside)
    return arena_ + program_.offsets[instance];
  const trace::Trace& trace = program_.trace;
  const trace::Value& value = trace.values[lowered.value_of[buffer]];
  switch (value.kind) {
    case Kind::constant:
      return const_cast<std::byte*>(trace.constants[value.index].raw());
    case Kind::before:
      return values_.of(trace.before[value.index]);
    case Kind::key:
      return reinterpret_cast<std::byte*>(values_.key());
    case Kind::sum_so_far:
    case Kind::input:
    case Kind::variable:
      return nullptr;
    case Kind::made:
      return arena_;  // of no bytes
  }
  return nullptr;
}

}  // namespace ebb::exec
