#include "ebb/exec/call_times.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "ebb/plan/pack/program.hpp"
#include "ebb/trace/fuse.hpp"

namespace ebb::exec {
namespace {

// The most that is live while each call of the trace runs.
std::vector<std::uint64_t> live_by_call(const plan::Program& program) {
  const std::vector<std::uint64_t> live = plan::live_bytes(program);
  std::vector<std::uint64_t> most(program.trace.calls.size());
  for (std::size_t i = 0; i < live.size(); ++i) {
    const plan::Step& step = program.schedule.steps[i];
    if (step.kind != plan::Step::Kind::run) continue;
    std::uint64_t& m = most[program.lowered.call[step.node]];
    m = std::max(m, live[i]);
  }
  return most;
}

}  // namespace

CallSeconds::CallSeconds(const plan::Program& p)
    : program(&p), seconds(p.trace.calls.size()), runs(p.trace.calls.size()) {}

void CallSeconds::forget() {
  std::fill(seconds.begin(), seconds.end(), 0);
  std::fill(runs.begin(), runs.end(), 0);
}

std::vector<CallTime> call_times(std::span<const CallSeconds* const> programs,
                                 std::uint64_t timed_steps) {
  if (timed_steps == 0) return {};
  std::map<std::pair<std::string, std::string>, CallTime> all;
  for (const CallSeconds* p : programs) {
    const trace::Trace& t = p->program->trace;
    const std::vector<std::uint64_t> live = live_by_call(*p->program);
    for (std::size_t i = 0; i < t.calls.size(); ++i) {
      if (!p->runs[i]) continue;
      const std::string op = trace::title(t.calls[i]), scope = Scope::path(t.calls[i].scope);
      CallTime& c = all[{op, scope}];
      c.op = op;
      c.scope = scope;
      c.seconds += p->seconds[i] / static_cast<double>(timed_steps);
      c.runs += p->runs[i] / timed_steps;
      c.live_bytes = std::max(c.live_bytes, live[i]);
    }
  }
  std::vector<CallTime> out;
  for (auto& [key, time] : all) out.push_back(std::move(time));
  std::sort(out.begin(), out.end(),
            [](const CallTime& a, const CallTime& b) { return a.seconds > b.seconds; });
  return out;
}

// Said is the median of the last steps: the first ones fault their memory in, and others use the machine.
void StepTimes::add(double seconds, bool timed, plan::Measured& measured) {
  ++steps_;
  timed_steps_ += timed;
  last_ = seconds;
  last_steps_[measured.steps++ % last_steps_.size()] = seconds;
  // It stays about the same.
  if (measured.steps > last_steps_.size() && measured.steps % kTimedEvery != 0) return;
  const std::size_t count = std::min<std::size_t>(measured.steps, last_steps_.size());
  std::array<double, kLastSteps> sorted = last_steps_;
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  measured.seconds = sorted[count / 2];
}

}  // namespace ebb::exec
