#include "ebb/plan/search/compose.hpp"

#include <algorithm>

namespace ebb::plan {

Schedule compose(const Ordered& g, Extras extras) {
  Replayer replayer(g);
  Replay r;
  replayer(extras, r);
  Schedule result;
  result.seconds = r.seconds;
  result.load = r.peak;

  // Steps; a write comes right after the run that makes or updates what is written.
  const Id runs = static_cast<Id>(r.positions.size()) - 1;  // the last position is the step's end
  std::vector<Id> step_of(r.positions.size());
  std::vector<Id> write_of(g.bytes.size(), kNone);  // step of the write, per buffer
  for (Id at = 0; at < runs; ++at) {
    const Position& p = r.positions[at];
    step_of[at] = static_cast<Id>(result.steps.size());
    Step step;
    if (!p.what.is_run()) {
      step.kind = Step::Kind::read;
      result.read += g.bytes[p.what.buffer()];
      result.steps.push_back(std::move(step));
      continue;
    }
    const Id place = p.what.rank();
    step.node = g.order[place];
    step.scratch = g.scratch[place];
    result.recomputed += !p.main;
    result.steps.push_back(std::move(step));
    if (!p.main) continue;
    const auto write = [&](Id b) {
      write_of[b] = static_cast<Id>(result.steps.size());
      result.written += g.bytes[b];
      result.steps.push_back({});
      result.steps.back().kind = Step::Kind::write;
    };
    for (Id b : g.out(place)) {
      if (r.written[b]) write(b);
    }
    for (Id b : g.in(place)) {
      if (r.away[b] && g.updated_at[b] == place) write(b);
    }
  }
  const Id end = std::max<Id>(static_cast<Id>(result.steps.size()) - 1, 0);
  step_of[runs] = end;

  // Instances: stays, then what never moves.
  std::vector<Id> now(g.bytes.size(), kNone);  // instance that holds the buffer, on the way
  for (const Stay& stay : r.stays) {
    Instance instance{stay.buffer, stay.first < 0 ? 0 : step_of[stay.first], step_of[stay.last],
                      kNone};
    if (stay.last == runs) instance.last = end;
    result.instances.push_back(instance);
  }
  for (std::size_t b = 0; b < g.bytes.size(); ++b) {
    if (g.graph->buffers[b].origin != Origin::made && !g.state[b]) {
      now[b] = static_cast<Id>(result.instances.size());
      result.instances.push_back({static_cast<Id>(b), 0, end, kNone});
    }
  }
  std::size_t next = 0;  // stays begin in the order of positions
  const auto open = [&](Id b) {
    now[b] = static_cast<Id>(next);
    return static_cast<Id>(next++);
  };
  while (next < r.stays.size() && r.stays[next].first < 0) open(r.stays[next].buffer);
  for (Id at = 0; at < runs; ++at) {
    Step& step = result.steps[step_of[at]];
    if (step.kind == Step::Kind::read) {
      step.out = {open(r.positions[at].what.buffer())};
      continue;
    }
    const Node& node = g.graph->nodes[step.node];
    for (Id b : node.in) step.in.push_back(now[b]);
    for (Id b : node.updates) step.updates.push_back(now[b]);
    const Id from = g.reuse_in[r.positions[at].what.rank()];
    const Id taken = from != kNone && r.stays[now[from]].last == at ? now[from] : kNone;
    for (Id b : node.out) step.out.push_back(open(b));
    if (taken != kNone) result.instances[step.out[0]].takes = taken;
    if (!r.positions[at].main) continue;
    const auto write = [&](Id b) {
      if (write_of[b] == kNone) return;
      result.steps[write_of[b]].in = {now[b]};
      Instance& held = result.instances[now[b]];
      held.last = std::max(held.last, write_of[b]);
    };
    for (Id b : node.out) write(b);
    for (Id b : node.updates) write(b);
  }
  return result;
}

}  // namespace ebb::plan
