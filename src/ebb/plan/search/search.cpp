#include "ebb/plan/search/search.hpp"

#include <algorithm>
#include <deque>
#include <set>
#include <stdexcept>
#include <utility>

#include "ebb/plan/search/compose.hpp"
#include "ebb/plan/search/limits.hpp"
#include "ebb/plan/search/pareto_front.hpp"
#include "ebb/plan/search/walk.hpp"

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
  auto live = static_cast<std::int64_t>(graph.held);
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

struct ScheduleFront::Record {
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

  void enlarge(Entry& entry, Schedule& schedule, std::uint64_t most) const;
};

// Gives each node back as much scratch as there is room for: under the load, since only those at
// the peak need less, or under `most`, if that is more.
void ScheduleFront::Record::enlarge(Entry& entry, Schedule& schedule, std::uint64_t most) const {
  most = std::max(most, schedule.load);
  const Graph& graph = graphs.front();
  std::vector<std::uint8_t> before = entry.levels;
  const std::vector<std::uint64_t> load = loads(graph, schedule);
  std::vector<std::uint64_t> room(graph.nodes.size(), ~std::uint64_t{0});
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind != Step::Kind::run) continue;
    room[step.node] = std::min(room[step.node], most - load[i] + step.scratch);
  }
  if (entry.levels.empty()) entry.levels.assign(graph.nodes.size(), level_of[entry.order]);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::uint8_t& at = entry.levels[n];
    at = static_cast<std::uint8_t>(std::min<std::size_t>(at, node.tiles.size()));
    while (at > 0 && (at > 1 ? node.tiles[at - 2].scratch : node.scratch) <= room[n]) --at;
  }
  Schedule larger = this->schedule(entry);
  if (larger.load <= most && larger.seconds <= schedule.seconds) {
    schedule = std::move(larger);
  } else {  // transfers that end later hold their bytes longer
    entry.levels = std::move(before);
  }
}

Schedule ScheduleFront::schedule(std::size_t point) const {
  return record_->schedule(record_->entries.at(point));
}

Schedule ScheduleFront::at(std::uint64_t budget) const {
  const auto after =
      std::upper_bound(points_.begin(), points_.end(), budget,
                       [](std::uint64_t bytes, const Point& point) { return bytes < point.load; });
  if (after == points_.begin()) throw std::out_of_range("plan: budget below the smallest load");
  Record::Entry entry = record_->entries[static_cast<std::size_t>(after - points_.begin()) - 1];
  Schedule schedule = record_->schedule(entry);
  if (budget > schedule.load && record_->level_of[entry.order] > 0)
    record_->enlarge(entry, schedule, budget);
  return schedule;
}

namespace {

// What the extras of a plan come to.
ScheduleFront::Point told(const Ordered& g, const Extras& extras) {
  ScheduleFront::Point p;
  std::set<Id> seen;
  for (const Extra& e : extras) {
    p.recomputed += e.is_run();
    if (e.is_run()) continue;
    const Id b = e.buffer();
    p.read += g.bytes[b];
    if (seen.insert(b).second && (!g.state[b] || g.updated_at[b] != kNone)) p.written += g.bytes[b];
  }
  return p;
}

}  // namespace

ScheduleFront search(const Graph& graph, const SearchOptions& options) {
  validate(graph);
  auto record = std::make_shared<ScheduleFront::Record>();
  record->graphs.push_back(graph);
  const auto nodes = static_cast<Id>(graph.nodes.size());
  const bool large = nodes > kSearch.two_orders_nodes;
  std::size_t levels = 0;
  for (const Node& node : graph.nodes) levels = std::max(levels, node.tiles.size());
  levels = std::min(levels, kSearch.most_levels);
  ParetoFront front;
  std::vector<std::unique_ptr<Walk>> walks;
  // Walks share the work: a large graph is walked with all the scratch and with the least, so that
  // both reach their lowest load, and what lies between comes from enlarging.
  std::vector<std::size_t> walked;
  for (std::size_t level = 0; level < levels && (level == 0 || nodes <= kSearch.shaken_nodes);
       level += Tile::kToHalf)
    walked.push_back(level);
  walked.push_back(levels);
  for (const std::size_t level : walked) {
    if (level > 0) {
      const std::vector<std::uint8_t> all(graph.nodes.size(), static_cast<std::uint8_t>(level));
      record->graphs.push_back(ScheduleFront::Record::at_levels(graph, all));
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
    here.resize(std::min<std::size_t>(here.size(), large || levels > 0 ? 1 : 2));
    for (auto& walk : here) walks.push_back(std::move(walk));
  }
  const double positions = large ? kSearch.positions_of_large * nodes
                                 : kSearch.positions * std::max<Id>(nodes, kSearch.least_nodes);
  const auto work =
      static_cast<std::uint64_t>(options.effort * positions / static_cast<double>(walks.size()));
  for (const auto& walk : walks) walk->search(work);

  std::vector<ScheduleFront::Point> points;
  for (const auto& [load, plan] : front.plans()) {
    ScheduleFront::Record::Entry entry{plan.order, plan.extras, {}};
    ScheduleFront::Point point = told(record->orders[plan.order], plan.extras);
    point.load = load;
    point.seconds = plan.seconds;
    if (const std::uint8_t level = record->level_of[plan.order]; level > 0) {
      Schedule schedule = record->schedule(entry);
      record->enlarge(entry, schedule, 0);
      point.load = schedule.load;
      point.seconds = schedule.seconds;
    }
    if (!points.empty() && point.seconds >= points.back().seconds) continue;
    while (!points.empty() && points.back().load >= point.load) {
      points.pop_back();
      record->entries.pop_back();
    }
    points.push_back(point);
    record->entries.push_back(std::move(entry));
  }
  return ScheduleFront(std::move(points), std::move(record));
}

}  // namespace ebb::plan
