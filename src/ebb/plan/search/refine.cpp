#include "ebb/plan/search/refine.hpp"

#include <algorithm>
#include <utility>

#include "ebb/plan/search/limits.hpp"

namespace ebb::plan {

bool Refine::offer(const Extras& extras, const Replay& r) {
  if (!r.valid) return false;
  if (r.seconds < front_.seconds_at(r.peak) * (1 - kSearch.worth_going_on)) found_ = replayer_.work;
  return front_.offer(r.peak, r.seconds, order_, extras);
}

// Down to the target, then takes back one by one what is not needed there, dearest first. Whatever
// is met on the way is offered.
void Refine::reach(Extras& extras, Replay& r, std::uint64_t target, Score score) {
  if (!r.valid || !descent_.lower(extras, r, target, score, limit_ - replayer_.work)) {
    offer(extras, r);
    return;
  }
  if (extras.size() > kSearch.taken_back_singly) {
    descent_.restore(extras, r, target);
    offer(extras, r);
    return;
  }
  std::vector<std::pair<double, Extra>> dearest;
  for (const Extra& e : extras) {
    dearest.emplace_back(e.is_run() ? g_.seconds[e.rank()] : g_.read_seconds(e.buffer()), e);
  }
  std::sort(dearest.begin(), dearest.end(), std::greater<>());
  Replay trial;
  for (const auto& [seconds, e] : dearest) {
    const auto at = std::lower_bound(extras.begin(), extras.end(), e);
    if (at == extras.end() || *at != e) continue;  // went with another
    Extras fewer = extras;
    fewer.erase(fewer.begin() + (at - extras.begin()));
    replayer_(fewer, trial);
    if (trial.valid && trial.peak <= target && trial.seconds <= r.seconds) {
      extras = std::move(fewer);
      std::swap(r, trial);
    } else {
      offer(fewer, trial);
    }
    if (spent()) break;
  }
  offer(extras, r);
}

void Refine::neighbours(std::uint64_t load, const Extras& extras) {
  Extras base = extras;
  replayer_(base, now_);
  const Replay at = now_;
  std::vector<Eviction> evictions;
  descent_.prepare(at, load - 1);
  for (const Gap& gap : at.gaps) {
    if (gap.from >= at.peak_at || gap.to <= at.peak_at || g_.bytes[gap.buffer] == 0) continue;
    for (Eviction& e : descent_.evictions(at, gap, at.peak_at)) evictions.push_back(std::move(e));
  }
  for (const Eviction& e : evictions) {
    if (spent()) return;
    Extras more = base;
    apply(more, e.add, e.drop);
    replayer_(more, next_);
    if (load > floor_) reach(more, next_, load - 1, Score{});
  }
  for (std::size_t k = 0; k < base.size() && !spent(); ++k) {
    Extras fewer = base;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
    replayer_(fewer, next_);
    offer(fewer, next_);
    if (next_.peak > load) reach(fewer, next_, load, Score{});
  }
  for (std::size_t k = 0; k < base.size(); ++k) {
    for (Id by = -kSearch.most_shift; by <= kSearch.most_shift && !spent(); ++by) {
      Extras moved = base;
      if (by == 0 || !shift(moved, k, base[k].stage() + by)) continue;
      replayer_(moved, next_);
      offer(moved, next_);
    }
  }
}

// Runs the same node in another stage, where it may.
bool Refine::shift(Extras& extras, std::size_t which, Id stage) const {
  const Extra old = extras[which];
  if (!old.is_run() || stage <= old.rank() || stage > g_.again_by[old.rank()]) return false;
  apply(extras, {Extra::run(stage, old.rank())}, {old});
  return true;
}

// One extra out, in another stage, or new.
void Refine::disturb(Extras& extras) {
  if (g_.nodes == 0) return;
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(rng_() % count); };
  const std::size_t how = pick(4);
  if (how == 0) {
    const auto place = static_cast<Id>(pick(static_cast<std::size_t>(g_.nodes)));
    const Id stage = place + 1 + static_cast<Id>(pick(static_cast<std::size_t>(g_.nodes - place)));
    if (recompute_ && stage <= g_.again_by[place]) apply(extras, {Extra::run(stage, place)}, {});
    return;
  }
  if (extras.empty()) return;
  const std::size_t which = pick(extras.size());
  if (how == 1) {
    shift(extras, which, extras[which].stage() + static_cast<Id>(pick(9)) - 5);
  } else {
    extras.erase(extras.begin() + static_cast<std::ptrdiff_t>(which));
  }
}

// Puts back the reads without which nothing can run.
void Refine::complete(Extras& extras) const {
  Extras missing;
  for (const Extra& read : needed_) {
    const auto same = [&](const Extra& e) { return !e.is_run() && e.buffer() == read.buffer(); };
    if (std::none_of(extras.begin(), extras.end(), same)) missing.push_back(read);
  }
  if (!missing.empty()) apply(extras, std::move(missing), {});
}

void Refine::shake() {
  const auto& plans = front_.plans();
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(rng_() % count); };
  const std::size_t from = pick(plans.size());
  auto plan = std::next(plans.begin(), static_cast<std::ptrdiff_t>(from));
  if (plan->second.order != order_) return;
  Extras extras = plan->second.extras;
  std::uint64_t target;
  if (pick(2) == 0) {  // to its own load, or to that of a plan a little above or below
    const std::size_t low = from > 2 ? from - 2 : 0;
    const std::size_t to = std::min(low + pick(5), plans.size() - 1);
    target = std::next(plans.begin(), static_cast<std::ptrdiff_t>(to))->first;
    for (std::size_t k = 1 + pick(4); k > 0; --k) disturb(extras);
  } else {  // to any load at all, with a part of its extras: small steps do not find all that leaps
            // do
    const std::uint64_t low = plans.begin()->first, high = plans.rbegin()->first;
    target = low + rng_() % (high - low + 1);
    const std::size_t part = pick(4);
    std::erase_if(extras, [&](const Extra&) { return pick(3) >= part; });
  }
  complete(extras);
  replayer_(extras, next_);
  descent_.weigh(&rng_);
  reach(extras, next_, target, Score{pick(2) == 1, pick(2) == 1});
  descent_.weigh(nullptr);
}

void Refine::operator()(std::uint64_t floor, std::uint64_t work, std::uint64_t patience,
                        bool exhaustive) {
  if (g_.nodes == 0) return;
  floor_ = floor;
  limit_ = replayer_.work + work;
  patience_ = patience;
  found_ = replayer_.work;
  descent_.begin();
  while (!spent()) {
    // Explores all that is new, from the largest load down, then shakes for a while.
    bool any = false;
    for (bool found = exhaustive; found && !spent();) {
      found = false;
      auto& plans = front_.plans();
      for (auto at = plans.rbegin(); at != plans.rend(); ++at) {
        if (at->second.explored || at->second.order != order_ || at->first == 0) continue;
        at->second.explored = true;
        const Extras extras = at->second.extras;
        neighbours(at->first, extras);
        found = any = true;
        break;  // the front may have changed under the iterator
      }
    }
    const std::uint64_t start = replayer_.work;
    for (int k = 0; k < 64 && !spent(); ++k) shake();
    if (!any && replayer_.work == start) break;
  }
}

}  // namespace ebb::plan
