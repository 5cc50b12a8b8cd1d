#include "ebb/exec/results.hpp"

#include <algorithm>

#include "ebb/base/error.hpp"

namespace ebb::exec {

using plan::Id;
using plan::kNone;

Results find_results(const plan::Plan& plan, const plan::Program& program,
                     const Addresses& addresses, const ResidentVariables& resident) {
  const trace::Trace& t = program.trace;
  const plan::Lowered& lowered = program.lowered;
  Results found;
  for (std::size_t k = 0; k < t.carry.size(); ++k) {
    const Id value = t.carry[k];
    if (value == kNone || plan.carry_offsets.empty()) continue;
    std::byte* const to = addresses.sum(k);
    std::byte* const from = addresses.of(lowered.buffer_of[value]) + t.values[value].offset;
    if (from == to) continue;
    found.sums.push_back({from, to, t.values[value].spec.bytes()});
    // It is handed on when all calls are done, for which another would wait in vain.
    if (std::find(t.starts.begin(), t.starts.end(), static_cast<Id>(k)) != t.starts.end())
      throw Error("compile: a sum that another one starts from has no place of its own");
  }
  for (const plan::Lowered::Copy& c : lowered.copies) {
    const Variable& variable = t.variables[c.variable];
    found.assignments.push_back(
        {addresses.of(c.from_buffer), resident.find(variable), variable.spec().bytes()});
  }
  for (const Id value : t.results) {
    const Id buffer = lowered.buffer_of[value];
    const trace::Value& named = t.values[lowered.value_of[buffer]];
    Results::Result r{addresses.of(buffer)};
    r.written = lowered.result_of[buffer] != kNone;
    if (!r.from && !r.written)
      (named.kind == trace::Kind::input ? r.input : r.variable) = named.index;
    r.offset = t.values[value].offset;
    found.results.push_back(r);
  }
  return found;
}

void Results::copy(const MicroBatch& to) const {
  const trace::Trace& t = to.program.trace;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    if (r.written) continue;
    const std::byte* from = r.from;
    if (r.variable != kNone) from = t.variables[static_cast<std::size_t>(r.variable)].value().raw();
    if (r.input != kNone) from = to.input(static_cast<std::size_t>(r.input));
    std::memcpy(to.result(i), from + r.offset, t.values[t.results[i]].spec.bytes());
  }
}

}  // namespace ebb::exec
