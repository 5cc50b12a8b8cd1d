#include "ebb/plan/search.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <stdexcept>
#include <utility>

#include "ebb/plan/bulk.hpp"
#include "ebb/plan/compose.hpp"
#include "ebb/plan/descent.hpp"
#include "ebb/plan/front.hpp"
#include "ebb/plan/refine.hpp"

namespace ebb::plan {
namespace {

// Live bytes at each step, scratch included.
std::vector<std::uint64_t> loads(const Graph& graph, const Schedule& schedule) {
  std::vector<std::int64_t> change(schedule.steps.size() + 1);
  for (const Instance& i : schedule.instances) {
    const auto bytes = static_cast<std::int64_t>(graph.buffers[i.buffer].bytes);
    change[i.first] += bytes;
    change[i.last + 1] -= bytes;
  }
  std::vector<std::uint64_t> load;
  std::int64_t live = 0;
  for (std::size_t at = 0; at < schedule.steps.size(); ++at) {
    const Step& step = schedule.steps[at];
    live += change[at];
    load.push_back(static_cast<std::uint64_t>(live) + step.scratch);
    for (const Id k : step.out) {
      const Instance& made = schedule.instances[k];
      if (made.takes != kNone) load.back() -= graph.buffers[made.buffer].bytes;
    }
  }
  return load;
}

}  // namespace

struct Frontier::Record {
  std::deque<Graph> graphs;  // at each level of tiles
  std::deque<Ordered> orders;
  std::vector<std::uint8_t> level_of;  // per order
  struct Entry {
    std::size_t order;
    Extras extras;
    std::vector<std::uint8_t> levels;  // per node: which tile; empty: as the order's graph has it
  };
  std::vector<Entry> entries;  // parallel to points

  Schedule schedule(const Entry& entry) const {
    const Ordered& order = orders[entry.order];
    if (entry.levels.empty()) return compose(order, entry.extras);
    const Graph graph = at_levels(graphs.front(), entry.levels);
    return compose(Ordered(graph, order.order, order.spill), entry.extras);
  }

  // `graph` with each node at its level, or at the last one it has. Level 0 is the full scratch.
  static Graph at_levels(const Graph& graph, const std::vector<std::uint8_t>& levels) {
    Graph result = graph;
    for (std::size_t n = 0; n < levels.size(); ++n) {
      Node& node = result.nodes[n];
      if (levels[n] == 0 || node.tiles.empty()) continue;
      const Tile& tile = node.tiles[std::min<std::size_t>(levels[n], node.tiles.size()) - 1];
      node.scratch = tile.scratch;
      node.seconds = tile.seconds;
    }
    return result;
  }

  void enlarge(Entry& entry, Schedule& schedule, std::uint8_t level) const;
};

// Gives each node back as much scratch as there is room for under the load, since only those at
// the peak need less.
void Frontier::Record::enlarge(Entry& entry, Schedule& schedule, std::uint8_t level) const {
  const Graph& graph = graphs.front();
  const std::vector<std::uint64_t> load = loads(graph, schedule);
  std::vector<std::uint64_t> room(graph.nodes.size(), ~std::uint64_t{0});
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind != Step::Kind::run) continue;
    room[step.node] = std::min(room[step.node], schedule.load - load[i] + step.scratch);
  }
  entry.levels.assign(graph.nodes.size(), level);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::uint8_t& at = entry.levels[n];
    at = static_cast<std::uint8_t>(std::min<std::size_t>(at, node.tiles.size()));
    while (at > 0 && (at > 1 ? node.tiles[at - 2].scratch : node.scratch) <= room[n]) --at;
  }
  Schedule larger = this->schedule(entry);
  if (larger.load <= schedule.load && larger.seconds <= schedule.seconds) {
    schedule = std::move(larger);
  } else {  // transfers that end later hold their bytes longer
    entry.levels.clear();
  }
}

Schedule Frontier::schedule(std::size_t point) const {
  return record_->schedule(record_->entries.at(point));
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
// nodes, plans are shaken and all levels of tiles walked up to `kShaken`, and two orders are
// followed up to `kOrders`.
constexpr Id kClose = 64, kShaken = 400, kOrders = 2000;
// A small graph may be a hard one: so much more work goes into it, while that finds better plans.
constexpr std::uint64_t kHard = 8;
constexpr std::size_t kMostLevels = 6;  // of tiles: down to a 64th of the scratch

class Walk {
 public:
  Walk(const Ordered& graph, std::size_t order, const SearchOptions& options, Front& front)
      : g_(graph), order_(order), options_(options), front_(front) {
    replayer_(start_, all_);
    offer(start_, all_);
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
      if (options_.recompute) begin_in_bulk(left(0.85));
    }
    if (g_.nodes <= kShaken) {
      Refine(g_, order_, replayer_, descent_, front_, options_.recompute)(
          options_.floor, g_.nodes <= kClose ? kHard * work : left(0.95), work / 2,
          g_.nodes <= kClose);
    }
    fill(left(1));
  }

 private:
  void offer(const Extras& extras, const Replay& r) {
    if (r.valid) front_.offer(r.peak, r.seconds, order_, extras);
  }

  // Down from plans made in one go, where these are on the front.
  void begin_in_bulk(std::uint64_t work) {
    const std::uint64_t limit = replayer_.work + work;
    std::vector<std::pair<std::uint64_t, Extras>> begins;  // by load
    Replay r;
    for (const double price : prices(g_, all_)) {
      for (const bool spill : {false, true}) {
        if (spill && !g_.spill.allowed) continue;
        Extras extras = in_bulk(g_, all_, {price, spill});
        if (extras.empty()) continue;
        apply(extras, start_, {});
        replayer_(extras, r);
        if (!r.valid || !front_.offer(r.peak, r.seconds, order_, extras)) continue;
        begins.emplace_back(r.peak, std::move(extras));
      }
    }
    std::sort(begins.begin(), begins.end());
    for (std::size_t i = 0; i < begins.size() && replayer_.work < limit; ++i) {
      replayer_(begins[i].second, r);
      down({true, true}, 0.05, (limit - replayer_.work) / (begins.size() - i),
           std::move(begins[i].second), r);
    }
  }

  void down(Score score, double ratio, std::uint64_t work) {
    down(score, ratio, work, start_, all_);
  }
  // From a plan to the lowest load it finds, each time lower by `ratio`, or by as little as there
  // is.
  void down(Score score, double ratio, std::uint64_t work, Extras extras, Replay r) {
    const std::uint64_t limit = replayer_.work + work;
    descent_.begin();
    Extras next;
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
  Extras start_ = needed_reads(g_);
  Replayer replayer_{g_};
  Descent descent_{g_, replayer_, options_.recompute};
  Replay all_;
};

}  // namespace

Frontier search(const Graph& graph, const SearchOptions& options) {
  validate(graph);
  auto record = std::make_shared<Frontier::Record>();
  record->graphs.push_back(graph);
  const auto nodes = static_cast<Id>(graph.nodes.size());
  std::size_t levels = 0;
  for (const Node& node : graph.nodes) levels = std::max(levels, node.tiles.size());
  levels = std::min(levels, kMostLevels);
  Front front;
  std::vector<std::unique_ptr<Walk>> walks;
  // Walks share the work: a large graph is walked with all the scratch and with the least, so that
  // both reach their lowest load, and what lies between comes from enlarging.
  const std::size_t stride = nodes > kShaken ? std::max<std::size_t>(levels, 1) : 1;
  for (std::size_t level = 0; level <= levels; level += stride) {
    if (level > 0) {
      const std::vector<std::uint8_t> all(graph.nodes.size(), static_cast<std::uint8_t>(level));
      record->graphs.push_back(Frontier::Record::at_levels(graph, all));
    }
    std::vector<std::unique_ptr<Walk>> here;
    for (std::vector<Id>& order : orders(record->graphs.back(), options.reorder)) {
      const std::size_t k = record->orders.size();
      record->orders.emplace_back(record->graphs.back(), std::move(order), options.spill);
      record->level_of.push_back(static_cast<std::uint8_t>(level));
      here.push_back(std::make_unique<Walk>(record->orders.back(), k, options, front));
    }
    std::stable_sort(here.begin(), here.end(),
                     [](const auto& a, const auto& b) { return a->peak() < b->peak(); });
    here.resize(std::min<std::size_t>(here.size(), nodes > kOrders || levels > 0 ? 1 : 2));
    for (auto& walk : here) walks.push_back(std::move(walk));
  }
  // The measure of work is one position replayed, some 60 ns.
  const double positions = nodes > kOrders ? 450.0 * nodes : 600.0 * std::max<Id>(nodes, 1000);
  const auto work =
      static_cast<std::uint64_t>(options.effort * positions / static_cast<double>(walks.size()));
  for (const auto& walk : walks) walk->search(work);

  std::vector<Frontier::Point> points;
  for (const auto& [load, plan] : front.plans()) {
    Frontier::Record::Entry entry{plan.order, plan.extras, {}};
    Frontier::Point point{load, plan.seconds};
    if (const std::uint8_t level = record->level_of[plan.order]; level > 0) {
      Schedule schedule = record->schedule(entry);
      record->enlarge(entry, schedule, level);
      point = {schedule.load, schedule.seconds};
    }
    if (!points.empty() && point.seconds >= points.back().seconds) continue;
    while (!points.empty() && points.back().load >= point.load) {
      points.pop_back();
      record->entries.pop_back();
    }
    points.push_back(point);
    record->entries.push_back(std::move(entry));
  }
  return Frontier(std::move(points), std::move(record));
}

}  // namespace ebb::plan
