#include "ebb/plan/pack/program.hpp"
#include "ebb/base/memory/memory.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "ebb/plan/pack/limits.hpp"
#include "ebb/plan/pack/pack.hpp"

namespace ebb::plan {
namespace {

constexpr std::size_t kNowhere = ~std::size_t{0};

}  // namespace

Program packed(const Searched& s, std::uint64_t load, std::uint64_t carry) {
  return packed(s.trace, s.lowered, s.front->at(load), carry);
}

Program packed(trace::Trace trace, Lowered lowered, Schedule schedule, std::uint64_t carry) {
  Program p;
  p.trace = std::move(trace);
  p.lowered = std::move(lowered);
  p.schedule = std::move(schedule);
  // What goes to the file or comes from it lies at pages, and is transferred as it lies; for all
  // else, which may be much smaller than a page, that would be a waste.
  std::vector<bool> read(p.schedule.instances.size()), moves(p.schedule.instances.size());
  for (const Step& step : p.schedule.steps) {
    if (step.kind == Step::Kind::read) read[step.out[0]] = moves[step.out[0]] = true;
    if (step.kind == Step::Kind::write) moves[step.in[0]] = true;
  }
  std::vector<bool> streams(p.lowered.graph.nodes.size());
  for (const Lowered::Stream& s : p.lowered.streams) streams[s.node] = true;
  std::vector<Block> blocks;
  std::vector<std::size_t> block_of(p.schedule.instances.size(), kNowhere);
  for (std::size_t i = 0; i < p.schedule.instances.size(); ++i) {
    const Instance& in = p.schedule.instances[i];
    const Buffer& b = p.lowered.graph.buffers[in.buffer];
    if (b.bytes == 0 || b.origin == Origin::given) continue;
    if (b.origin == Origin::state && !read[i]) {  // stays in memory, in its variable's own place
      p.resident += b.bytes;
      continue;
    }
    const std::int64_t end = in.last + 1;
    if (in.takes != kNone && block_of[in.takes] != kNowhere) {
      block_of[i] = block_of[in.takes];
      Block& block = blocks[block_of[i]];
      block.last = std::max(block.last, end);
      if (moves[i]) block.alignment = kPage;
      continue;
    }
    block_of[i] = blocks.size();
    blocks.push_back({in.first, end, b.bytes, moves[i] ? kPage : memory::kAlignment});
  }
  const auto first_scratch = static_cast<std::ptrdiff_t>(blocks.size());
  for (std::size_t i = 0; i < p.schedule.steps.size(); ++i) {
    const Step& step = p.schedule.steps[i];
    const auto at = static_cast<std::int64_t>(i);
    const bool runs = step.kind == Step::Kind::run;
    blocks.push_back({at, at + 1, runs ? step.scratch : 0,
                      runs && streams[step.node] ? kPage : memory::kAlignment});
  }
  const std::uint64_t least = plan::load(blocks, memory::kAlignment);
  const Packing packing = pack(blocks, {.alignment = memory::kAlignment,
                                        .enough = least + least / kPack.enough_divisor,
                                        .effort = kPack.plan_effort});
  p.offsets.assign(block_of.size(), kOutside);
  for (std::size_t i = 0; i < block_of.size(); ++i)
    if (block_of[i] != kNowhere) p.offsets[i] = packing.offsets[block_of[i]] + carry;
  p.scratch.assign(packing.offsets.begin() + first_scratch, packing.offsets.end());
  for (std::uint64_t& offset : p.scratch) offset += carry;
  p.arena = paged(packing.bytes) + carry;
  return p;
}

std::vector<Program> packed(std::span<const Searched> searched, std::uint64_t load,
                            std::uint64_t carry) {
  std::vector<Program> all;
  for (const Searched& s : searched) all.push_back(packed(s, load, carry));
  return all;
}

std::uint64_t arena_of(std::span<const Program> programs) {
  std::uint64_t arena = 0, resident = 0;
  for (const Program& p : programs) {
    arena = std::max(arena, p.arena);
    resident = std::max(resident, p.resident);  // of the last: it uses all that the others do
  }
  return arena + resident;
}

namespace {
template <class Traced>
std::uint64_t charge_of_constants(std::span<const Traced> all) {
  std::set<const Tensor::Value*> seen;
  std::uint64_t bytes = 0;
  for (const Traced& one : all)
    for (const Tensor& t : one.trace.constants) {
      const Tensor::Value* held = t.handle();
      while (held->base) held = held->base;
      if (seen.insert(held).second) bytes += memory::charge_of(held->spec.bytes());
    }
  return bytes;
}
}  // namespace

std::uint64_t constants_of(std::span<const Searched> all) { return charge_of_constants(all); }
std::uint64_t constants_of(std::span<const Program> all) { return charge_of_constants(all); }

std::vector<Variable> spilled_variables(std::span<const Program> programs) {
  std::vector<Variable> all;
  const auto add = [&](const Program& p, std::size_t buffer) {
    const Variable& v = p.trace.variables[p.trace.values[p.lowered.value_of[buffer]].index];
    if (std::find(all.begin(), all.end(), v) == all.end()) all.push_back(v);
  };
  for (const Program& p : programs) {
    for (const Step& s : p.schedule.steps) {
      if (s.kind == Step::Kind::run) continue;
      const Id buffer =
          p.schedule.instances[s.kind == Step::Kind::write ? s.in[0] : s.out[0]].buffer;
      if (p.lowered.graph.buffers[buffer].origin == Origin::state)
        add(p, static_cast<std::size_t>(buffer));
    }
    for (std::size_t b = 0; b < p.lowered.streamed.size(); ++b)
      if (p.lowered.streamed[b]) add(p, b);
  }
  return all;
}

namespace {

// Per instance, the last step it is there: one whose place another takes ends where that begins.
std::vector<std::int64_t> ends(const Schedule& s) {
  std::vector<std::int64_t> last(s.instances.size());
  for (std::size_t i = 0; i < last.size(); ++i) {
    last[i] = s.instances[i].last;
    if (const Id taken = s.instances[i].takes; taken != kNone)
      last[taken] = s.instances[i].first - 1;
  }
  return last;
}

// Variables in memory that the last program uses and this one does not.
void add_held(const Program& p, const Program& last, Forecast& f) {
  if (p.lowered.graph.held == 0) return;
  const std::vector<Variable>& own = p.trace.variables;
  for (std::size_t i = 0; i < last.lowered.graph.buffers.size(); ++i) {
    const Buffer& b = last.lowered.graph.buffers[i];
    if (b.origin != Origin::state || b.away) continue;
    const trace::Value& v = last.trace.values[last.lowered.value_of[i]];
    if (std::find(own.begin(), own.end(), last.trace.variables[v.index]) == own.end())
      f.at_peak[static_cast<int>(v.category)] += b.bytes;
  }
}

}  // namespace

std::vector<std::uint64_t> live_bytes(const Program& p) {
  const Schedule& s = p.schedule;
  const std::vector<std::int64_t> last = ends(s);
  std::vector<std::int64_t> change(s.steps.size() + 1);
  for (std::size_t i = 0; i < last.size() && !s.steps.empty(); ++i) {
    const Instance& in = s.instances[i];
    const auto bytes = static_cast<std::int64_t>(p.lowered.graph.buffers[in.buffer].bytes);
    change[static_cast<std::size_t>(in.first)] += bytes;
    change[static_cast<std::size_t>(last[i] + 1)] -= bytes;
  }
  std::vector<std::uint64_t> live(s.steps.size());
  auto now = static_cast<std::int64_t>(p.lowered.graph.held);
  for (std::size_t i = 0; i < live.size(); ++i) {
    now += change[i];
    live[i] = static_cast<std::uint64_t>(now) +
              (s.steps[i].kind == Step::Kind::run ? s.steps[i].scratch : 0);
  }
  return live;
}

void describe_peak(std::span<const Program> programs, Forecast& f) {
  const Program& p = *std::max_element(
      programs.begin(), programs.end(),
      [](const Program& x, const Program& y) { return x.schedule.load < y.schedule.load; });
  const Schedule& s = p.schedule;
  if (s.steps.empty()) return;  // what is given is given back
  const std::vector<std::uint64_t> live = live_bytes(p);
  std::size_t peak = s.steps.size();
  for (std::size_t i = 0; i < live.size(); ++i)
    if (s.steps[i].kind == Step::Kind::run && (peak == live.size() || live[i] > live[peak]))
      peak = i;
  if (peak == live.size()) peak = 0;
  const std::vector<std::int64_t> last = ends(s);
  for (std::size_t i = 0; i < last.size(); ++i) {
    const Instance& in = s.instances[i];
    const auto at = static_cast<std::int64_t>(peak);
    if (in.first > at || last[i] < at) continue;
    const trace::Value& v = p.trace.values[p.lowered.value_of[in.buffer]];
    f.at_peak[static_cast<int>(v.category)] += p.lowered.graph.buffers[in.buffer].bytes;
  }
  add_held(p, programs.back(), f);
  if (s.steps[peak].kind == Step::Kind::run) {
    const Id node = s.steps[peak].node;
    f.at_peak[static_cast<int>(Category::workspace)] += s.steps[peak].scratch;
    const trace::Call& call = p.trace.calls[p.lowered.call[node]];
    const std::string scope = Scope::path(call.scope);
    f.op = scope.empty() ? std::string(call.op.type().name)
                         : fmt::format("{} in {}", call.op.type().name, scope);
  }
}

}  // namespace ebb::plan
