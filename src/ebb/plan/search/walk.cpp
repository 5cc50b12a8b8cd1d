#include "ebb/plan/search/walk.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "ebb/plan/search/limits.hpp"
#include "ebb/plan/search/refine.hpp"
#include "ebb/plan/search/seed_plans.hpp"

namespace ebb::plan {

Walk::Walk(const Ordered& graph, std::size_t order, const SearchOptions& options,
           ParetoFront& front)
    : g_(graph), order_(order), options_(options), front_(front) {
  replayer_(start_, all_);
  offer(start_, all_);
}

void Walk::search(std::uint64_t work) {
  const std::uint64_t start = replayer_.work;
  const bool exhaustive = g_.nodes <= kSearch.exhaustive_nodes;
  // What is left up to a share of the work.
  const auto left = [&](double share) {
    const auto until = start + static_cast<std::uint64_t>(static_cast<double>(work) * share);
    return until - std::min(until, replayer_.work);
  };
  constexpr Score kScores[] = {{true, true}, {false, false}, {true, false}, {false, true}};
  // Down from plans made in one go; half of that from the lowest, which leads to the lowest load.
  std::vector<Extras> begins = seed_plans();
  const double share = exhaustive ? 0.1 : 0.4;
  for (std::size_t i = 0; i < begins.size(); ++i)
    down_from(std::move(begins[i]), i == 0 ? 0.25 : 0.05,
              left(share) / (i == 0 ? 2 : begins.size() - i));
  if (exhaustive) {
    for (const double ratio : {0.0, 0.1}) {
      for (const Score& score : kScores) down(score, ratio, left(0.4));
    }
  } else {  // coarse first, then finer while there is time
    for (const double ratio : {0.12, 0.05}) {
      for (const Score& score : kScores) down(score, ratio, left(0.85) / 2);
    }
  }
  if (g_.nodes <= kSearch.shaken_nodes) {
    Refine(g_, order_, replayer_, descent_, front_, options_.recompute)(
        options_.floor, exhaustive ? kSearch.exhaustive_work * work : left(0.95), work / 2,
        exhaustive);
  }
  fill(left(1));
}

void Walk::offer(const Extras& extras, const Replay& r) {
  if (r.valid) front_.offer(r.peak, r.seconds, order_, extras);
}

// Plans made in one go, the lowest load first: those on the front, and others of little load,
// which may lead to other places.
std::vector<Extras> Walk::seed_plans() {
  struct Found {
    std::uint64_t load;
    bool best;  // of all so far with this load
    Extras extras;
  };
  std::vector<Found> found;
  Replay r;
  SeedPlans make(g_, all_);
  const auto begin = [&](const SeedOptions& how) {
    Extras extras = make(how);
    replayer_.work += static_cast<std::uint64_t>(g_.nodes);
    if (extras.empty()) return;
    apply(extras, start_, {});
    replayer_(extras, r);
    if (!r.valid) return;
    found.push_back({r.peak, front_.offer(r.peak, r.seconds, order_, extras), std::move(extras)});
  };
  const bool coarse = options_.effort < kSearch.coarse_effort;
  std::vector<double> prices = make.prices();
  if (coarse && prices.size() > 2) prices = {prices.front(), prices.back()};
  const auto to_the_file = [&](bool state) {
    for (const bool wait : {false, true}) begin({-1, true, 1, state, wait});
    for (const double price : prices)
      if (options_.recompute) begin({price, true, 1, state});
  };
  if (g_.spill.allowed) to_the_file(false);
  if (g_.spill.state_allowed) {
    begin({-1, false, 1, true});
    to_the_file(true);
  }
  if (options_.recompute) {
    for (const double price : prices) begin({price});
    for (int n = 2; n <= make.most_segments(); n *= 2)
      for (std::size_t k = 0; k < (coarse ? 1 : 3) && k <= prices.size(); ++k)
        begin({k == 0 ? -1 : prices[k - 1], false, n});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.load < b.load; });
  std::vector<Extras> result;
  for (Found& f : found)
    if (f.best || f.load <= 2 * found[0].load) result.push_back(std::move(f.extras));
  return result;
}

void Walk::down_from(Extras extras, double ratio, std::uint64_t work) {
  if (work == 0) return;
  Replay r;
  replayer_(extras, r);
  down({true, true}, ratio, work, std::move(extras), std::move(r));
}
void Walk::down(Score score, double ratio, std::uint64_t work) {
  down(score, ratio, work, start_, all_);
}
// From a plan to the lowest load it finds, each time lower by `ratio`, or by as little as there
// is.
void Walk::down(Score score, double ratio, std::uint64_t work, Extras extras, Replay r) {
  const std::uint64_t limit = replayer_.work + work;
  descent_.begin();
  Extras next;
  std::uint64_t peak = r.peak;
  while (peak > options_.floor && replayer_.work < limit) {
    const auto step = static_cast<std::uint64_t>(static_cast<double>(peak - g_.base) * ratio);
    const std::uint64_t target = std::max(options_.floor, peak - std::max<std::uint64_t>(step, 1));
    next = extras;
    const bool reached = descent_.lower(next, r, target, score, limit - replayer_.work);
    if (reached) descent_.restore(next, r, target);
    offer(next, r);
    if (!reached) {
      if (ratio < 0.005) break;
      ratio /= 4;
      replayer_(extras, r);
      continue;
    }
    std::swap(extras, next);
    peak = r.peak;
  }
}

// Between neighbours on the front that are far apart in time: the lower one with as much taken
// back as there is room for.
void Walk::fill(std::uint64_t work) {
  const std::uint64_t limit = replayer_.work + work;
  Replay r;
  std::set<std::pair<std::uint64_t, std::uint64_t>> tried;
  while (replayer_.work < limit) {
    const ParetoFront::Plans& plans = front_.plans();
    double widest = 0;
    auto best = plans.end();
    std::uint64_t middle = 0;
    for (auto low = plans.begin(); std::next(low) != plans.end(); ++low) {
      const auto high = std::next(low);
      const std::uint64_t target = low->first + (high->first - low->first) / 2;
      const double apart = low->second.seconds - high->second.seconds;
      if (low->second.order != order_ || apart <= widest || target == low->first) continue;
      if (tried.contains({low->first, high->first})) continue;
      widest = apart;
      best = low;
      middle = target;
    }
    if (best == plans.end()) break;
    tried.insert({best->first, std::next(best)->first});
    Extras extras = best->second.extras;
    replayer_(extras, r);
    descent_.restore(extras, r, middle);
    offer(extras, r);
  }
}

}  // namespace ebb::plan
