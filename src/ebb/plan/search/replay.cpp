#include "ebb/plan/search/replay.hpp"

#include <algorithm>

namespace ebb::plan {

Extras needed_reads(const Ordered& g) {
  struct Use {
    Id place, buffer;
  };
  std::vector<Use> uses;
  for (std::size_t b = 0; b < g.away.size(); ++b) {
    if (g.away[b] && g.first_use[b] != kNone) uses.push_back({g.first_use[b], static_cast<Id>(b)});
  }
  if (uses.empty()) return {};
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.place > b.place; });
  std::vector<double> begin(g.nodes + 1, 0);  // seconds at which a stage begins
  for (Id place = 0; place < g.nodes; ++place) begin[place + 1] = begin[place] + g.seconds[place];
  Extras reads;
  double free = begin[g.nodes];  // from the end: the channel is busy after this
  Id stage = g.nodes;
  for (const Use& use : uses) {
    free = std::min(free, begin[use.place]) - g.read_seconds(use.buffer);
    stage = std::min(stage, use.place);
    while (stage > 0 && begin[stage] > free) --stage;
    reads.push_back(Extra::read(g, stage, use.buffer, false));
  }
  std::sort(reads.begin(), reads.end());
  return reads;
}

Replayer::Replayer(const Ordered& graph)
    : g_(graph),
      needed_(graph.bytes.size()),
      last_use_(graph.bytes.size()),
      write_done_(graph.bytes.size()) {}

void Replayer::operator()(Extras& extras, Replay& result) {
  lay_out(extras, result);
  walk(result);
  sum(result);
  work += result.positions.size();
}

// Walks back from the end: an extra is needed where one of its buffers is used before the buffer is
// made or read again.
void Replayer::lay_out(Extras& extras, Replay& r) {
  std::fill(needed_.begin(), needed_.end(), 0);
  const auto need = [&](Id place) {  // called when the position was pushed
    for (Id b : g_.in(place)) {
      if (!needed_[b]) last_use_[b] = static_cast<Id>(r.positions.size());
      needed_[b] = 1;
    }
  };
  r.positions.clear();
  bool dead = false;
  auto extra = extras.rbegin();
  for (Id stage = g_.nodes; stage >= 0; --stage) {
    r.positions.push_back({Extra::run(stage, stage), true});
    for (Id b : g_.out(stage)) {
      if (!needed_[b]) last_use_[b] = static_cast<Id>(r.positions.size());
      needed_[b] = 0;
    }
    need(stage);
    for (; extra != extras.rend() && extra->stage() == stage; ++extra) {
      if (extra->is_run()) {
        bool used = false;
        for (Id b : g_.out(extra->rank())) {
          used |= needed_[b] != 0;
          needed_[b] = 0;
        }
        if (!used) {
          dead = true;
          continue;
        }
        r.positions.push_back({*extra, false});
        need(extra->rank());
      } else {
        if (!needed_[extra->buffer()]) {
          dead = true;
          continue;
        }
        needed_[extra->buffer()] = 0;
        r.positions.push_back({*extra, false});
      }
    }
  }
  std::reverse(r.positions.begin(), r.positions.end());
  if (dead) {
    extras.clear();
    for (const Position& p : r.positions) {
      if (!p.main) extras.push_back(p.what);
    }
  }
  r.away.assign(g_.bytes.size(), 0);
  r.written.assign(g_.bytes.size(), 0);
  for (const Extra& e : extras) {
    if (e.is_run()) continue;
    const Id b = e.buffer();
    r.away[b] |= g_.state[b];
    r.written[b] = std::max<std::uint8_t>(r.written[b], e.wait() ? 2 : 1);
  }
}

// A stay begins; its bytes are there from `ready` seconds on.
inline void Replayer::open(Replay& r, Id buffer, Id at, double ready) {
  r.stays.push_back({buffer, at, at, r.latest[buffer]});
  r.latest[buffer] = static_cast<Id>(r.stays.size()) - 1;
  ready_.push_back(ready);
}

// Before the first position: state that is in memory.
void Replayer::begin(Replay& r) {
  r.stays.clear();
  r.gaps.clear();
  r.latest.assign(g_.bytes.size(), kNone);
  r.start.resize(r.positions.size());
  r.main_at.resize(g_.nodes + 1);
  r.valid = true;
  r.transfer_seconds = 0;
  ready_.clear();
  pending_.clear();
  if (g_.state_bytes == 0) return;
  for (std::size_t b = 0; b < g_.bytes.size(); ++b)
    if (g_.state[b] && !r.away[b] && !g_.away[b]) open(r, static_cast<Id>(b), -1, 0);
}

// After the last: writes under way from `done` on hold their bytes, and state that was there stays.
void Replayer::end(Replay& r, std::size_t done) {
  const auto size = static_cast<Id>(r.positions.size());
  for (std::size_t k = done; k < pending_.size(); ++k) r.stays[pending_[k].stay].last = size - 1;
  if (g_.state_bytes == 0) return;
  for (Stay& stay : r.stays) {
    if (stay.first != -1) continue;
    if (size - stay.last > 1) r.gaps.push_back({stay.buffer, stay.last, size});
    stay.last = size - 1;
  }
}

void Replayer::walk(Replay& r) {
  const auto size = static_cast<Id>(r.positions.size());
  begin(r);
  std::size_t done = 0;  // of pending_
  double now = 0, channel = 0;
  const auto transfer = [&](double seconds) {
    now += g_.spill.seconds_per_transfer + g_.spill.busy * seconds;
    channel = std::max(channel, now) + seconds;
    r.transfer_seconds += seconds;
    return channel;
  };
  const auto write = [&](Id buffer) {
    const double end = transfer(g_.write_seconds(buffer));
    if (r.written[buffer] < 2) {
      pending_.push_back({end, r.latest[buffer]});
    } else if (g_.state[buffer] || size - last_use_[buffer] == r.main_at[g_.maker[buffer]]) {
      now = std::max(now, end);
    } else {
      write_done_[buffer] = end;
    }
  };
  for (Id at = 0; at < size; ++at) {
    const Position& p = r.positions[at];
    while (done < pending_.size() && pending_[done].done <= now) ++done;
    for (std::size_t k = done; k < pending_.size(); ++k) {
      r.stays[pending_[k].stay].last = std::max(r.stays[pending_[k].stay].last, at);
    }
    r.start[at] = now;
    if (!p.what.is_run()) {
      open(r, p.what.buffer(), at, transfer(g_.read_seconds(p.what.buffer())));
      continue;
    }
    const Id place = p.what.rank();
    if (p.main) r.main_at[place] = at;
    for (Id b : g_.in(place)) {
      const Id s = r.latest[b];
      if (s == kNone) {
        r.valid = false;
        continue;
      }
      Stay& stay = r.stays[s];
      if (at - stay.last > 1) r.gaps.push_back({b, stay.last, at});
      stay.last = at;
      now = std::max(now, ready_[s]);
    }
    now += g_.seconds[place];
    if (r.transfer_seconds > 0) {
      for (Id b : g_.in(place)) {
        if (r.written[b] == 2 && at == size - last_use_[b] && !g_.state[b]) {
          now = std::max(now, write_done_[b]);
        }
      }
    }
    for (Id b : g_.out(place)) {
      open(r, b, at, 0);
      if (p.main && r.written[b]) write(b);
    }
    if (p.main && g_.state_bytes > 0) {
      for (Id b : g_.in(place)) {
        if (r.away[b] && g_.updated_at[b] == place) write(b);
      }
    }
  }
  r.seconds = std::max(now, channel);
  end(r, done);
}

void Replayer::sum(Replay& r) {
  const auto size = static_cast<Id>(r.positions.size());
  delta_.assign(size + 1, 0);
  delta_[0] = static_cast<std::int64_t>(g_.base);
  for (const Stay& stay : r.stays) {
    const auto bytes = static_cast<std::int64_t>(g_.bytes[stay.buffer]);
    delta_[std::max(stay.first, 0)] += bytes;
    delta_[stay.last + 1] -= bytes;
  }
  r.load.resize(size);
  std::int64_t live = 0;
  for (Id at = 0; at < size; ++at) {
    live += delta_[at];
    r.load[at] = static_cast<std::uint64_t>(live);
    if (r.positions[at].what.is_run()) r.load[at] += g_.scratch[r.positions[at].what.rank()];
  }
  // An output that takes over the bytes of an input in its last use. The stay that the input was
  // read from is the one before `at`: at most one stay of a buffer is alive at a time.
  for (const Stay& stay : r.stays) {
    if (stay.first < 0 || !r.positions[stay.first].what.is_run()) continue;
    const Id place = r.positions[stay.first].what.rank();
    const Id from = g_.reuse_in[place];
    if (from == kNone || stay.buffer != g_.out(place)[0]) continue;
    Id s = r.latest[from];
    while (s != kNone && r.stays[s].first > stay.first) s = r.stays[s].before;
    if (s != kNone && r.stays[s].last == stay.first) r.load[stay.first] -= g_.bytes[stay.buffer];
  }
  r.peak = 0;
  r.peak_at = 0;
  for (Id at = 0; at < size; ++at) {
    if (r.load[at] > r.peak) r.peak = r.load[at], r.peak_at = at;
  }
  if (!r.valid) r.peak = ~std::uint64_t{0};
}

}  // namespace ebb::plan
