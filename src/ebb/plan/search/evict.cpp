// Evictions of one buffer over one gap, and what each costs: the half of Descent that changes
// nothing.
#include <algorithm>

#include "ebb/plan/search/descent.hpp"
#include "ebb/plan/search/limits.hpp"

namespace ebb::plan {
namespace {

// Where a buffer brought back in `stage` is there again.
Id back_at(const Replay& r, const Gap& gap, Id stage) {
  return stage < r.positions[gap.to].what.stage() ? r.stage_begin(stage) : gap.to;
}

}  // namespace

// The stay of the buffer that position `at` would find.
Id Descent::stay_before(const Replay& r, Id buffer, Id at) const {
  Id s = r.latest[buffer];
  while (s != kNone && r.stays[s].first >= at) s = r.stays[s].before;
  return s;
}

// Whether the buffer is in memory for an extra in `stage`, which ends at or after position `at`.
bool Descent::there(const Replay& r, Id buffer, Id stage, Id at) const {
  const Id place = g_.maker[buffer];
  if (place != kNone && added_round_[place] == round_ && added_stage_[place] == stage) return true;
  const Id s = stay_before(r, buffer, at);
  if (s == kNone) return false;
  const Id begin = r.stage_begin(stage);
  if (r.stays[s].last < begin && r.stays[s].first < begin) return false;
  return !(evicted_round_[buffer] == round_ && evicted_stage_[buffer] > stage &&
           r.stays[s].first < begin);
}

// A run or read of `buffer` planned for later is not needed if the buffer, back at `at`, can stay.
void Descent::share(const Replay& r, Id buffer, Id at, Eviction& e) {
  Id next = kNone;
  for (Id s = r.latest[buffer]; s != kNone && r.stays[s].first > at; s = r.stays[s].before)
    next = s;
  if (next == kNone) return;
  const Id first = r.stays[next].first;
  const Position& p = r.positions[first];
  if (p.main || (p.what.is_run() && g_.out(p.what.rank()).size() > 1)) return;
  const auto bytes = static_cast<std::int64_t>(g_.bytes[buffer]);
  if (tree_.max(at, first) + bytes > target_) return;
  e.drop.push_back(p.what);
  if (p.what.is_run()) e.seconds -= g_.seconds[p.what.rank()];
  e.changes.push_back({at, first - 1, bytes});
}

// Where a buffer that is evicted at `at` may come back, the latest first: in the stage of its use,
// or in one where some input of its node is used for the last time.
std::vector<Id> Descent::stages(const Replay& r, const Gap& gap, Id at) const {
  const Id place = g_.maker[gap.buffer];
  std::vector<Id> result;
  if (!recompute_ || place == kNone || gap.to >= static_cast<Id>(r.positions.size())) return result;
  const Id use = r.positions[gap.to].what.stage(), by = g_.again_by[place];
  const auto offer = [&](Id stage) {
    stage = std::min(stage, by);
    if (stage < 0 || (stage < use && r.stage_begin(stage) <= std::max(at, gap.from))) return;
    result.push_back(stage);
  };
  offer(use);
  for (Id b : g_.in(place)) {
    const Id s = stay_before(r, b, gap.to);
    if (s != kNone && r.stays[s].last < gap.to && r.stays[s].last > at) {
      offer(r.positions[r.stays[s].last].what.stage());
    }
  }
  std::sort(result.begin(), result.end(), std::greater<>());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// An eviction that frees the buffer up to position `to`, and so far costs nothing.
Eviction Descent::freed(const Gap& gap, Id to) const {
  Eviction e;
  e.gain = static_cast<std::int64_t>(g_.bytes[gap.buffer]);
  e.changes.push_back({gap.from + 1, to - 1, -e.gain});
  return e;
}

Eviction Descent::rerun(const Replay& r, const Gap& gap, Id at, Id stage) {
  const Id first = g_.maker[gap.buffer];
  const Id to = back_at(r, gap, stage);
  Eviction e = freed(gap, to);
  const Id begin = r.stage_begin(stage);
  ++seen_now_;
  std::vector<Id> stack{first};
  seen_[first] = seen_now_;
  while (!stack.empty()) {
    const Id place = stack.back();
    stack.pop_back();
    e.add.push_back(Extra::run(stage, place));
    e.seconds += g_.seconds[place];
    replayer_.work += 2;  // as long as it takes, in positions replayed
    if (e.add.size() > kSearch.most_run_again) return e;
    for (Id b : g_.in(place)) {
      if (there(r, b, stage, to)) continue;
      const Id maker = g_.maker[b];
      if (maker == kNone) {  // state in the file
        e.add.push_back(Extra::read(g_, stage, b, false));
        e.seconds += (1 + g_.spill.busy) * g_.read_seconds(b) + g_.spill.seconds_per_transfer;
        continue;
      }
      if (seen_[maker] == seen_now_) continue;
      if (g_.again_by[maker] >= stage) {
        seen_[maker] = seen_now_;
        stack.push_back(maker);
        share(r, b, to, e);
        continue;
      }
      const Id s = stay_before(r, b, to);  // cannot run again: it stays
      const auto bytes = static_cast<std::int64_t>(g_.bytes[b]);
      if (r.stays[s].last < at) e.gain -= bytes;
      e.changes.push_back({r.stays[s].last + 1, begin, bytes});
    }
  }
  e.whole = e.seconds + stage_seconds_[stage];
  e.possible = e.gain > 0;
  return e;
}

// Runs one node again and holds its inputs for it: right where they are smaller than the output.
Eviction Descent::hold(const Replay& r, const Gap& gap, Id at, Id stage) {
  const Id place = g_.maker[gap.buffer];
  const Id to = back_at(r, gap, stage);
  Eviction e = freed(gap, to);
  for (Id b : g_.in(place)) {
    if (there(r, b, stage, to)) continue;
    const Id s = stay_before(r, b, to);
    if (s == kNone || evicted_round_[b] == round_) return e;
    const auto bytes = static_cast<std::int64_t>(g_.bytes[b]);
    const Id last = r.stays[s].last;
    if (last < gap.from && tree_.max(last + 1, gap.from) + bytes > target_) return e;
    if (last < at) e.gain -= bytes;
    e.changes.push_back({last + 1, r.stage_begin(stage), bytes});
  }
  e.add.push_back(Extra::run(stage, place));
  e.seconds = g_.seconds[place];
  e.whole = e.seconds + stage_seconds_[stage];
  e.possible = e.gain > 0;
  return e;
}

// The earliest stage after position `after` whose nodes up to `use` are enough to hide the read, or
// the one nearest to that with room for the buffer.
Id Descent::read_stage(const Replay& r, Id buffer, Id after, Id use) const {
  const double seconds = g_.read_seconds(buffer);
  const auto bytes = static_cast<std::int64_t>(g_.bytes[buffer]);
  Id stage = r.positions[use].what.stage();
  while (stage > 0) {
    const Id begin = r.stage_begin(stage);
    if (r.start[use] - r.start[begin] >= seconds) break;
    const Id earlier = r.stage_begin(stage - 1);
    if (earlier <= after) break;
    if (static_cast<std::int64_t>(
            *std::max_element(r.load.begin() + earlier, r.load.begin() + begin)) +
            bytes >
        target_) {
      break;
    }
    --stage;
  }
  return stage;
}

Eviction Descent::spill(const Replay& r, const Gap& gap, Id at) {
  Eviction e;
  const Id b = gap.buffer, size = static_cast<Id>(r.positions.size());
  if (!g_.spillable[b]) return e;
  e.gain = static_cast<std::int64_t>(g_.bytes[b]);
  double transfer = 0, exposed = 0;
  int count = 0;
  const auto read = [&](Id after, Id use, bool wait) {
    const Id stage = read_stage(r, b, after, use);
    e.add.push_back(Extra::read(g_, stage, b, wait));
    transfer += g_.read_seconds(b);
    exposed += std::max(0.0, g_.read_seconds(b) - (r.start[use] - r.start[r.stage_begin(stage)]));
    e.changes.push_back({r.stage_begin(stage), use - 1, e.gain});
    ++count;
  };
  if (g_.state[b]) {
    const Id update = g_.updated_at[b];
    if (!r.away[b]) {
      const Id use = g_.first_use[b] == kNone ? kNone : r.main_at[g_.first_use[b]];
      if (use == kNone) return e;
      // Where the load is largest soon after the update, the write is waited for.
      const Id written = update == kNone ? size : r.main_at[update];
      const bool wait =
          update != kNone && at > written && r.start[at] - r.start[written] < g_.write_seconds(b);
      read(at < use ? at : -1, use, wait);
      e.changes.push_back({0, use - 1, -e.gain});
      if (update != kNone) transfer += g_.write_seconds(b), ++count;
      if (wait) exposed += g_.write_seconds(b);
      if (at > use && gap.to < size) {
        read(at, gap.to, wait);
        e.changes.push_back({gap.from + 1, gap.to - 1, -e.gain});
      }
    } else {
      if (gap.to >= size || gap.from < 0) return e;
      read(at, gap.to, r.written[b] == 2);
      e.changes.push_back({gap.from + 1, gap.to - 1, -e.gain});
    }
  } else {
    const Id made = r.main_at[g_.maker[b]];
    bool wait = r.written[b] == 2;
    if (!r.written[b]) {
      wait = r.start[at] - r.start[made + 1] < g_.write_seconds(b);
      transfer += g_.write_seconds(b);
      if (wait) exposed += g_.write_seconds(b);
      ++count;
    }
    read(at, gap.to, wait);
    e.changes.push_back({gap.from + 1, gap.to - 1, -e.gain});
  }
  const double room = g_.total_seconds - transfers_;
  e.seconds = count * g_.spill.seconds_per_transfer + (1e-3 + g_.spill.busy) * transfer +
              std::max(exposed, std::min(transfer, transfer - room));
  e.whole = e.seconds;
  e.possible = true;
  return e;
}

std::vector<Eviction> Descent::evictions(const Replay& r, const Gap& gap, Id at) {
  std::vector<Eviction> result;
  for (const Id stage : stages(r, gap, at)) {
    Eviction e = rerun(r, gap, at, stage), held = hold(r, gap, at, stage);
    if (held.possible && (!e.possible || held.add != e.add)) result.push_back(std::move(held));
    if (!e.possible) continue;
    if (!e.drop.empty()) {  // also without sharing
      result.push_back(e);
      result.back().drop.clear();
    }
    result.push_back(std::move(e));
  }
  if (Eviction e = spill(r, gap, at); e.possible) result.push_back(std::move(e));
  return result;
}

Eviction Descent::cheapest(const Replay& r, const Gap& gap, Id at) {
  Eviction best;
  const auto consider = [&](Eviction e) {
    if (e.possible && (!best.possible || e.seconds * static_cast<double>(best.gain) <
                                             best.seconds * static_cast<double>(e.gain))) {
      best = std::move(e);
    }
  };
  if (const std::vector<Id> when = stages(r, gap, at); !when.empty()) {
    consider(rerun(r, gap, at, when.front()));
    consider(hold(r, gap, at, when.front()));
    if (when.size() > 1) consider(hold(r, gap, at, when.back()));
  }
  if (g_.spill.allowed) consider(spill(r, gap, at));
  return best;
}

}  // namespace ebb::plan
