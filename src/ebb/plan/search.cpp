#include "ebb/plan/search.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <stdexcept>
#include <utility>

#include "ebb/plan/compose.hpp"
#include "ebb/plan/descent.hpp"
#include "ebb/plan/front.hpp"
#include "ebb/plan/refine.hpp"

namespace ebb::plan {

struct Frontier::Record {
  Graph graph;
  std::deque<Ordered> orders;
  struct Entry {
    std::size_t order;
    Extras extras;
  };
  std::vector<Entry> entries;  // parallel to points
};

Schedule Frontier::schedule(std::size_t point) const {
  const Record::Entry& entry = record_->entries.at(point);
  return compose(record_->orders[entry.order], entry.extras);
}

Schedule Frontier::at(std::uint64_t budget) const {
  const auto after =
      std::upper_bound(points_.begin(), points_.end(), budget,
                       [](std::uint64_t bytes, const Point& point) { return bytes < point.load; });
  if (after == points_.begin()) throw std::out_of_range("plan: budget below the smallest load");
  return schedule(static_cast<std::size_t>(after - points_.begin()) - 1);
}

namespace {

// Sizes at which the search changes its ways: every neighbour of every plan is tried up to `kClose`
// nodes, plans are shaken up to `kShaken`, and two orders are followed up to `kOrders`.
constexpr Id kClose = 64, kShaken = 400, kOrders = 2000;

class Walk {
 public:
  Walk(const Ordered& graph, std::size_t order, const SearchOptions& options, Front& front)
      : g_(graph), order_(order), options_(options), front_(front) {
    Extras none;
    replayer_(none, all_);
    offer(none, all_);
  }

  std::uint64_t peak() const { return all_.peak; }  // with everything kept

  void search(std::uint64_t work) {
    const std::uint64_t start = replayer_.work;
    // What is left up to a part of the work.
    const auto left = [&](double part) {
      const auto until = start + static_cast<std::uint64_t>(static_cast<double>(work) * part);
      return until - std::min(until, replayer_.work);
    };
    constexpr Score kScores[] = {{true, true}, {false, false}, {true, false}, {false, true}};
    if (g_.nodes <= kClose) {
      for (const double ratio : {0.0, 0.1}) {
        for (const Score& score : kScores) down(score, ratio, left(0.4));
      }
    } else {  // coarse first, so that the lowest load is reached; then finer while there is time
      for (const double ratio : {0.12, 0.05}) {
        for (const Score& score : kScores) down(score, ratio, left(0.7) / 2);
      }
    }
    if (g_.nodes <= kShaken) {
      Refine(g_, order_, replayer_, descent_, front_, options_.recompute)(
          options_.floor, left(0.95), g_.nodes <= kClose);
    }
    fill(left(1));
  }

 private:
  void offer(const Extras& extras, const Replay& r) {
    if (r.valid) front_.offer(r.peak, r.seconds, order_, extras);
  }

  // From the plan that keeps everything to the lowest load it finds, each time lower by `ratio`, or
  // by as little as there is.
  void down(Score score, double ratio, std::uint64_t work) {
    const std::uint64_t limit = replayer_.work + work;
    descent_.begin();
    Extras extras, next;
    Replay r = all_, s;
    std::uint64_t peak = r.peak;
    while (peak > options_.floor && replayer_.work < limit) {
      const auto step = static_cast<std::uint64_t>(static_cast<double>(peak - g_.base) * ratio);
      const std::uint64_t target =
          std::max(options_.floor, peak - std::max<std::uint64_t>(step, 1));
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
  void fill(std::uint64_t work) {
    const std::uint64_t limit = replayer_.work + work;
    Replay r;
    std::set<std::pair<std::uint64_t, std::uint64_t>> tried;
    while (replayer_.work < limit) {
      const Front::Plans& plans = front_.plans();
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

  const Ordered& g_;
  std::size_t order_;
  const SearchOptions& options_;
  Front& front_;
  Replayer replayer_{g_};
  Descent descent_{g_, replayer_, options_.recompute};
  Replay all_;
};

}  // namespace

Frontier search(const Graph& graph, const SearchOptions& options) {
  validate(graph);
  auto record = std::make_shared<Frontier::Record>();
  record->graph = graph;
  const auto nodes = static_cast<Id>(graph.nodes.size());
  for (std::vector<Id>& order : orders(record->graph, options.reorder)) {
    record->orders.emplace_back(record->graph, std::move(order), options.spill);
  }
  Front front;
  std::vector<std::unique_ptr<Walk>> walks;
  for (std::size_t k = 0; k < record->orders.size(); ++k) {
    walks.push_back(std::make_unique<Walk>(record->orders[k], k, options, front));
  }
  std::stable_sort(walks.begin(), walks.end(),
                   [](const auto& a, const auto& b) { return a->peak() < b->peak(); });
  walks.resize(std::min<std::size_t>(walks.size(), nodes > kOrders ? 1 : 2));
  // The measure of work is one position replayed, some 60 ns.
  const double positions = nodes > kOrders ? 850.0 * nodes : 600.0 * std::max<Id>(nodes, 1000);
  const auto work =
      static_cast<std::uint64_t>(options.effort * positions / static_cast<double>(walks.size()));
  for (const auto& walk : walks) walk->search(work);

  std::vector<Frontier::Point> points;
  for (const auto& [load, plan] : front.plans()) {
    points.push_back({load, plan.seconds});
    record->entries.push_back({plan.order, plan.extras});
  }
  return Frontier(std::move(points), std::move(record));
}

}  // namespace ebb::plan
