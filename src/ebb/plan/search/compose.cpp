#include "ebb/plan/search/compose.hpp"

#include <algorithm>
#include <utility>

namespace ebb::plan {
namespace {

class Composing {
 public:
  Composing(const Ordered& graph, const Replay& replay)
      : g_(graph),
        r_(replay),
        runs_(static_cast<Id>(replay.positions.size()) - 1),
        step_of_(replay.positions.size()),
        write_of_(graph.bytes.size(), kNone),
        now_(graph.bytes.size(), kNone) {}

  Schedule run() {
    result_.seconds = r_.seconds;
    result_.load = r_.peak;
    steps();
    instances();
    connect();
    return std::move(result_);
  }

 private:
  // A write comes right after the run that makes or updates what is written.
  void steps() {
    for (Id at = 0; at < runs_; ++at) {
      const Position& p = r_.positions[at];
      step_of_[at] = static_cast<Id>(result_.steps.size());
      Step step;
      if (!p.what.is_run()) {
        step.kind = Step::Kind::read;
        result_.read += g_.bytes[p.what.buffer()];
        result_.steps.push_back(std::move(step));
        continue;
      }
      const Id place = p.what.rank();
      step.node = g_.order[place];
      step.scratch = g_.scratch[place];
      result_.recomputed += !p.main;
      result_.steps.push_back(std::move(step));
      if (!p.main) continue;
      for (Id b : g_.out(place))
        if (r_.written[b]) write(b);
      for (Id b : g_.in(place))
        if (r_.away[b] && g_.updated_at[b] == place) write(b);
    }
    end_ = std::max<Id>(static_cast<Id>(result_.steps.size()) - 1, 0);
    step_of_[runs_] = end_;
  }

  void write(Id b) {
    write_of_[b] = static_cast<Id>(result_.steps.size());
    result_.written += g_.bytes[b];
    result_.steps.push_back({});
    result_.steps.back().kind = Step::Kind::write;
  }

  // Stays, then what never moves.
  void instances() {
    for (const Stay& stay : r_.stays) {
      Instance instance{stay.buffer, stay.first < 0 ? 0 : step_of_[stay.first], step_of_[stay.last],
                        kNone};
      if (stay.last == runs_) instance.last = end_;
      result_.instances.push_back(instance);
    }
    for (std::size_t b = 0; b < g_.bytes.size(); ++b) {
      if (g_.graph->buffers[b].origin == Origin::made || g_.state[b]) continue;
      now_[b] = static_cast<Id>(result_.instances.size());
      result_.instances.push_back({static_cast<Id>(b), 0, end_, kNone});
    }
  }

  // What each step reads and makes: stays begin in the order of positions.
  void connect() {
    while (next_ < r_.stays.size() && r_.stays[next_].first < 0) open(r_.stays[next_].buffer);
    for (Id at = 0; at < runs_; ++at) {
      Step& step = result_.steps[step_of_[at]];
      if (step.kind == Step::Kind::read) {
        step.out = {open(r_.positions[at].what.buffer())};
        continue;
      }
      const Node& node = g_.graph->nodes[step.node];
      for (Id b : node.in) step.in.push_back(now_[b]);
      for (Id b : node.updates) step.updates.push_back(now_[b]);
      const Id from = g_.reuse_in[r_.positions[at].what.rank()];
      const Id taken = from != kNone && r_.stays[now_[from]].last == at ? now_[from] : kNone;
      for (Id b : node.out) step.out.push_back(open(b));
      if (taken != kNone) result_.instances[step.out[0]].takes = taken;
      if (!r_.positions[at].main) continue;
      for (Id b : node.out) hold_until_written(b);
      for (Id b : node.updates) hold_until_written(b);
    }
  }

  Id open(Id b) {
    now_[b] = static_cast<Id>(next_);
    return static_cast<Id>(next_++);
  }

  void hold_until_written(Id b) {
    if (write_of_[b] == kNone) return;
    result_.steps[write_of_[b]].in = {now_[b]};
    Instance& held = result_.instances[now_[b]];
    held.last = std::max(held.last, write_of_[b]);
  }

  const Ordered& g_;
  const Replay& r_;
  const Id runs_;  // positions; one more is the step's end
  Schedule result_;
  std::vector<Id> step_of_;   // per position
  std::vector<Id> write_of_;  // per buffer: the step that writes it
  std::vector<Id> now_;       // per buffer: the instance that holds it, as steps go by
  Id end_ = 0;                // the last step
  std::size_t next_ = 0;      // stay to begin
};

}  // namespace

Schedule compose(const Ordered& graph, Extras extras) {
  Replayer replayer(graph);
  Replay replay;
  replayer(extras, replay);
  return Composing(graph, replay).run();
}

}  // namespace ebb::plan
