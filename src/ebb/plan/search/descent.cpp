#include "ebb/plan/search/descent.hpp"

#include <algorithm>
#include <iterator>
#include <queue>

#include "ebb/plan/search/limits.hpp"

namespace ebb::plan {

void apply(Extras& extras, Extras add, Extras drop) {
  std::sort(add.begin(), add.end());
  std::sort(drop.begin(), drop.end());
  Extras kept, merged;
  std::set_difference(extras.begin(), extras.end(), drop.begin(), drop.end(),
                      std::back_inserter(kept));
  std::set_union(kept.begin(), kept.end(), add.begin(), add.end(), std::back_inserter(merged));
  merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
  extras = std::move(merged);
}

void Descent::begin() {
  known_.resize(g_.bytes.size());
  for (std::size_t b = 0; b < known_.size(); ++b) {
    known_[b] = g_.spillable[b] || g_.maker[b] == kNone ? 0 : g_.seconds[g_.maker[b]];
  }
}

void Descent::weigh(std::mt19937_64* rng) {
  weight_.clear();
  if (!rng) return;
  for (std::size_t b = 0; b < g_.bytes.size(); ++b) {
    weight_.push_back(0.5 + static_cast<double>((*rng)() % 1024) / 512);
  }
}

void Descent::prepare(const Replay& r, std::uint64_t target) {
  target_ = static_cast<std::int64_t>(target);
  tree_.build(r.load);
  stage_seconds_.assign(g_.nodes + 1, 0);
  for (const Position& p : r.positions) {
    if (!p.main && p.what.is_run()) stage_seconds_[p.what.stage()] += g_.seconds[p.what.rank()];
  }
  ++round_;
  add_.clear();
  drop_.clear();
  transfers_ = r.transfer_seconds;
}

void Descent::take(const Replay& r, const Gap& gap, const Eviction& e) {
  for (const Eviction::Change& c : e.changes) tree_.add(c.first, c.last, c.bytes);
  for (const Extra& x : e.add) {
    add_.push_back(x);
    if (x.is_run()) {
      added_stage_[x.rank()] = x.stage();
      added_round_[x.rank()] = round_;
      stage_seconds_[x.stage()] += g_.seconds[x.rank()];
    } else {
      transfers_ += g_.read_seconds(x.buffer());
    }
  }
  drop_.insert(drop_.end(), e.drop.begin(), e.drop.end());
  evicted_round_[gap.buffer] = round_;
  evicted_stage_[gap.buffer] = gap.to < static_cast<Id>(r.positions.size())
                                   ? r.positions[gap.to].what.stage()
                                   : g_.nodes + 1;
}

// Evicts at one position until it is at the target. A gap is scored by what its buffer last cost,
// and worked out anew only when it comes to the top.
bool Descent::choose(const Replay& r, Id at, Score score) {
  struct Entry {
    double score;
    std::size_t gap;
    std::size_t version;  // of the decisions it was worked out for; 0: a bound
    bool operator<(const Entry& o) const {
      return score != o.score ? score > o.score : gap > o.gap;
    }
  };
  std::int64_t need = tree_.max(at, at) - target_;
  const auto rated = [&](const Gap& gap, double seconds, std::int64_t gain) {
    double weight = static_cast<double>(std::min(gain, need));
    if (score.longest) weight *= gap.to - gap.from;
    if (!weight_.empty()) weight *= weight_[gap.buffer];
    return seconds > 0 ? seconds / weight : seconds;
  };
  std::priority_queue<Entry> queue;
  for (std::size_t k = 0; k < r.gaps.size(); ++k) {
    const Gap& gap = r.gaps[k];
    if (gap.from >= at || gap.to <= at || g_.bytes[gap.buffer] == 0) continue;
    if (evicted_round_[gap.buffer] == round_) continue;
    const auto bytes = static_cast<std::int64_t>(g_.bytes[gap.buffer]);
    queue.push({rated(gap, known_[gap.buffer], bytes), k, 0});
  }
  replayer_.work += r.gaps.size() / 8;
  std::size_t version = 1;
  bool any = false;
  while (need > 0 && !queue.empty()) {
    const Entry top = queue.top();
    queue.pop();
    const Gap& gap = r.gaps[top.gap];
    Eviction e = cheapest(r, gap, at);
    if (!e.possible) {  // not to be looked at again before all that is cheaper
      known_[gap.buffer] = std::max(4 * known_[gap.buffer], e.seconds);
      continue;
    }
    known_[gap.buffer] = score.whole ? e.whole : e.seconds;
    const double now = rated(gap, known_[gap.buffer], e.gain);
    if (top.version != version && !queue.empty() && now > queue.top().score * (1 + 1e-9)) {
      queue.push({now, top.gap, version});
      continue;
    }
    take(r, gap, e);
    need = tree_.max(at, at) - target_;
    ++version;
    any = true;
  }
  return any && need <= 0;
}

bool Descent::round(Extras& extras, Replay& r, Score score) {
  prepare(r, static_cast<std::uint64_t>(target_));
  bool reached = true;
  const std::size_t enough = 8 + r.positions.size() / 16;
  while (reached && tree_.largest() > target_ && add_.size() < enough) {
    reached = choose(r, tree_.where(), score);
  }
  if (add_.empty()) return false;
  apply(extras, add_, drop_);
  replayer_(extras, r);
  return true;
}

bool Descent::lower(Extras& extras, Replay& r, std::uint64_t target, Score score,
                    std::uint64_t work) {
  target_ = static_cast<std::int64_t>(target);
  const std::uint64_t limit = replayer_.work + work;
  std::uint64_t lowest = r.peak;
  int since = 0;  // rounds without a lower peak: evictions that only move it about
  while (r.peak > target) {
    if (since > kSearch.patience || replayer_.work > limit || !round(extras, r, score))
      return false;
    since = r.peak < lowest ? 0 : since + 1;
    lowest = std::min(lowest, r.peak);
  }
  return true;
}

void Descent::restore(Extras& extras, Replay& r, std::uint64_t target) {
  prepare(r, target);
  struct Made {
    double seconds;
    Id at;
  };
  std::vector<Made> made;
  for (Id at = 0; at < static_cast<Id>(r.positions.size()); ++at) {
    const Position& p = r.positions[at];
    if (p.main) continue;
    made.push_back({p.what.is_run()
                        ? g_.seconds[p.what.rank()]
                        : g_.read_seconds(p.what.buffer()) + g_.spill.seconds_per_transfer,
                    at});
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const Made& a, const Made& b) { return a.seconds > b.seconds; });
  std::vector<Id> begins(r.positions.size() + 1, 0);  // stays by first position
  std::vector<Id> stay_at(r.stays.size());
  for (const Stay& s : r.stays) ++begins[std::max(s.first, 0)];
  for (std::size_t k = 0, sum = 0; k < begins.size(); ++k) {
    const Id count = begins[k];
    begins[k] = static_cast<Id>(sum);
    sum += static_cast<std::size_t>(count);
  }
  std::vector<Id> fill = begins;
  for (std::size_t s = 0; s < r.stays.size(); ++s) {
    stay_at[fill[std::max(r.stays[s].first, 0)]++] = static_cast<Id>(s);
  }
  Extras drop;
  for (const Made& m : made) {
    bool fits = true;
    std::vector<Eviction::Change> changes;
    for (Id k = begins[m.at]; fits && k < begins[m.at + 1]; ++k) {
      const Stay& stay = r.stays[stay_at[k]];
      if (stay.first != m.at || stay.last == m.at) continue;
      if (stay.before == kNone) {
        fits = false;
        break;
      }
      const Id last = r.stays[stay.before].last;
      const auto bytes = static_cast<std::int64_t>(g_.bytes[stay.buffer]);
      const Extra& user = r.positions[last].what;
      const bool taken = user.is_run() && g_.reuse_in[user.rank()] == stay.buffer;
      changes.push_back({taken ? last : last + 1, m.at - 1, bytes});
      tree_.add(changes.back().first, changes.back().last, bytes);
      fits = tree_.max(changes.back().first, changes.back().last) <= target_;
    }
    if (fits) {
      drop.push_back(r.positions[m.at].what);
    } else {
      for (const auto& c : changes) tree_.add(c.first, c.last, -c.bytes);
    }
  }
  replayer_.work += made.size();
  if (drop.empty()) return;
  const Extras before = extras;
  apply(extras, {}, std::move(drop));
  replayer_(extras, r);
  if (r.peak > target) {
    extras = before;
    replayer_(extras, r);
  }
}

}  // namespace ebb::plan
