#include "ebb/plan/search/ordered.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <utility>

namespace ebb::plan {
namespace {

// Who must come before whom: makers before readers, readers of state before its update.
struct Edges {
  std::vector<std::vector<Id>> after;  // nodes that wait for this one
  std::vector<Id> waits;               // how many nodes this one waits for
};

Edges edges(const Graph& graph) {
  const std::size_t n = graph.nodes.size();
  std::vector<Id> maker(graph.buffers.size(), kNone), updater(graph.buffers.size(), kNone);
  for (std::size_t i = 0; i < n; ++i) {
    for (Id b : graph.nodes[i].out) maker[b] = static_cast<Id>(i);
    for (Id b : graph.nodes[i].updates) updater[b] = static_cast<Id>(i);
  }
  Edges result{std::vector<std::vector<Id>>(n), std::vector<Id>(n, 0)};
  const auto add = [&](Id from, Id to) {
    if (from == kNone || to == kNone || from == to) return;
    result.after[from].push_back(to);
    ++result.waits[to];
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (Id b : graph.nodes[i].in) {
      add(maker[b], static_cast<Id>(i));
      add(static_cast<Id>(i), updater[b]);
    }
    // Nodes stand in an order that works: more edges along it close no circle.
    if (graph.nodes[i].late) {
      std::size_t before = i;
      while (before > 0 && graph.nodes[before].late) --before;
      add(static_cast<Id>(before), static_cast<Id>(i));
    }
    if (graph.nodes[i].early) {
      std::size_t next = i + 1;
      while (next < n && graph.nodes[next].early) ++next;
      if (next < n) add(static_cast<Id>(i), static_cast<Id>(next));
    }
  }
  return result;
}

// A topological order that always takes the ready node of least rank.
std::vector<Id> by_rank(const Graph& graph, const Edges& edges, const std::vector<double>& rank) {
  using Entry = std::pair<double, Id>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<Id> waits = edges.waits, order;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (waits[i] == 0) ready.push({rank[i], static_cast<Id>(i)});
  }
  while (!ready.empty()) {
    const Id node = ready.top().second;
    ready.pop();
    order.push_back(node);
    for (Id next : edges.after[node]) {
      if (--waits[next] == 0) ready.push({rank[next], next});
    }
  }
  return order;
}

// Takes among the ready nodes the one of least growth, ties by rank; `taken` is told.
template <typename Growth, typename Rank, typename Taken>
std::vector<Id> greedy(const Edges& edges, Growth growth, Rank rank, std::uint64_t work,
                       Taken taken) {
  std::vector<Id> waits = edges.waits, ready, order;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) ready.push_back(static_cast<Id>(i));
  }
  while (!ready.empty() && work >= ready.size()) {
    std::size_t best = 0;
    auto least = std::pair<double, Id>(std::numeric_limits<double>::max(), 0);
    for (std::size_t k = 0; k < ready.size(); ++k) {
      const auto key = std::pair<double, Id>(growth(ready[k]), rank(ready[k]));
      if (key < least) least = key, best = k;
    }
    work -= ready.size();
    const Id node = ready[best];
    ready[best] = ready.back();
    ready.pop_back();
    order.push_back(node);
    taken(node);
    for (Id next : edges.after[node]) {
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
  const auto later = [&](Id a, Id b) { return rank(a) > rank(b); };
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {  // past the work: by rank alone
    std::pop_heap(ready.begin(), ready.end(), later);
    const Id node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (Id next : edges.after[node]) {
      if (--waits[next] > 0) continue;
      ready.push_back(next);
      std::push_heap(ready.begin(), ready.end(), later);
    }
  }
  return order;
}

// Takes among the ready nodes the one after which least is alive: its outputs come, inputs that are
// read for the last time go. Only ready nodes are looked at, so wide graphs cost width × nodes;
// `work` bounds that, and past it the order goes on as given.
std::vector<Id> by_growth(const Graph& graph, const Edges& edges, std::uint64_t work) {
  std::vector<Id> readers(graph.buffers.size(), 0);
  for (const Node& node : graph.nodes) {
    for (Id b : node.in) ++readers[b];
  }
  const auto growth = [&](Id n) {
    double bytes = 0;
    for (Id b : graph.nodes[n].out) {
      if (readers[b] > 0 || graph.buffers[b].kept) bytes += double(graph.buffers[b].bytes);
    }
    for (Id b : graph.nodes[n].in) {
      const Buffer& buffer = graph.buffers[b];
      if (readers[b] == 1 && buffer.origin == Origin::made && !buffer.kept) {
        bytes -= double(buffer.bytes);
      }
    }
    return bytes;
  };
  return greedy(
      edges, growth, [](Id n) { return n; }, work,
      [&](Id n) {
        for (Id b : graph.nodes[n].in) --readers[b];
      });
}

// The same from the end: a node is taken when all that wait for it are; its outputs go, and inputs
// that nobody later reads come.
std::vector<Id> by_growth_from_end(const Graph& graph, const Edges& edges, std::uint64_t work) {
  Edges back{std::vector<std::vector<Id>>(edges.after.size()),
             std::vector<Id>(edges.after.size(), 0)};
  for (std::size_t i = 0; i < edges.after.size(); ++i) {
    for (Id next : edges.after[i]) {
      back.after[next].push_back(static_cast<Id>(i));
      ++back.waits[i];
    }
  }
  std::vector<std::uint8_t> alive(graph.buffers.size());
  for (std::size_t b = 0; b < alive.size(); ++b) {
    alive[b] = graph.buffers[b].kept || graph.buffers[b].origin != Origin::made;
  }
  const auto growth = [&](Id n) {
    double bytes = 0;
    for (Id b : graph.nodes[n].out) bytes -= alive[b] ? double(graph.buffers[b].bytes) : 0;
    for (Id b : graph.nodes[n].in) bytes += alive[b] ? 0 : double(graph.buffers[b].bytes);
    return bytes;
  };
  std::vector<Id> order = greedy(
      back, growth, [](Id n) { return -n; }, work,
      [&](Id n) {
        for (Id b : graph.nodes[n].in) alive[b] = 1;
      });
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

void validate(const Graph& graph) {
  const auto count = static_cast<Id>(graph.buffers.size());
  if (graph.nodes.size() >= (1u << 20) || graph.buffers.size() >= (1u << 22)) {
    throw std::invalid_argument("plan: a graph of at most 2^20 nodes and 2^22 buffers is searched");
  }
  std::vector<std::uint8_t> there(graph.buffers.size()), gone(graph.buffers.size());
  for (Id b = 0; b < count; ++b) there[b] = graph.buffers[b].origin != Origin::made;
  const auto known = [&](std::size_t node, Id b) {
    if (b < 0 || b >= count) {
      throw std::invalid_argument(
          fmt::format("plan: node {} names buffer {} of {}", node, b, count));
    }
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto read = [&](Id b) {
      known(i, b);
      if (!there[b]) {
        throw std::invalid_argument(
            fmt::format("plan: node {} reads buffer {} before it is made", i, b));
      }
      if (gone[b]) {
        throw std::invalid_argument(
            fmt::format("plan: node {} reads state {} after its update", i, b));
      }
    };
    for (Id b : node.in) read(b);
    for (Id b : node.updates) {
      read(b);
      if (graph.buffers[b].origin != Origin::state) {
        throw std::invalid_argument(
            fmt::format("plan: node {} updates buffer {}, not state", i, b));
      }
    }
    for (Id b : node.updates) gone[b] = true;
    for (Id b : node.out) {
      known(i, b);
      if (there[b]) {
        throw std::invalid_argument(fmt::format("plan: buffer {} is made twice", b));
      }
      there[b] = true;
    }
    if (node.reuse != kNone && (node.out.empty() || std::find(node.in.begin(), node.in.end(),
                                                              node.reuse) == node.in.end())) {
      throw std::invalid_argument(
          fmt::format("plan: node {} reuses buffer {}, not an input", i, node.reuse));
    }
  }
}

std::vector<std::vector<Id>> orders(const Graph& graph, bool reorder) {
  const std::size_t n = graph.nodes.size();
  std::vector<std::vector<Id>> result(1);
  result[0].resize(n);
  std::iota(result[0].begin(), result[0].end(), 0);
  if (!reorder || n < 2) return result;
  const auto offer = [&](std::vector<Id> order) {
    if (std::find(result.begin(), result.end(), order) == result.end()) {
      result.push_back(std::move(order));
    }
  };
  const Edges links = edges(graph);
  // Updates as soon as they can: gradients die early.
  std::vector<double> rank(n);
  for (std::size_t i = 0; i < n; ++i) rank[i] = graph.nodes[i].updates.empty() ? double(i) : -1;
  offer(by_rank(graph, links, rank));
  offer(by_growth(graph, links, 64 * n + 4096));
  offer(by_growth_from_end(graph, links, 64 * n + 4096));
  return result;
}

Ordered::Ordered(const Graph& g, std::vector<Id> places, const SpillCost& cost)
    : graph(&g), order(std::move(places)), spill(cost), nodes(static_cast<Id>(order.size())) {
  const std::size_t buffers = g.buffers.size();
  const bool state_moves = spill.allowed && spill.state_allowed;
  base = g.held;
  bytes.resize(buffers);
  maker.assign(buffers, kNone);
  first_use.assign(buffers, kNone);
  updated_at.assign(buffers, kNone);
  state.resize(buffers);
  spillable.resize(buffers);
  away.resize(buffers);
  std::vector<std::uint8_t> moves(buffers);
  for (std::size_t b = 0; b < buffers; ++b) {
    const Buffer& buffer = g.buffers[b];
    bytes[b] = buffer.bytes;
    state[b] = buffer.origin == Origin::state && state_moves && buffer.spillable && !buffer.kept;
    moves[b] = buffer.origin == Origin::made || state[b];
    spillable[b] = spill.allowed && buffer.spillable && moves[b];
    away[b] = state[b] && buffer.away;
    if (!moves[b]) base += buffer.bytes;
    if (state[b]) state_bytes += buffer.bytes;
  }
  std::vector<Id> state_end(buffers, nodes);  // where state is last what it was
  for (Id place = 0; place < nodes; ++place) {
    for (Id b : g.nodes[order[place]].updates) state_end[b] = place;
  }
  in_begin.push_back(0);
  out_begin.push_back(0);
  const auto use = [&](Id place, Id b) {
    if (!moves[b]) return;
    const auto begin = in_list.begin() + in_begin[place];
    if (std::find(begin, in_list.end(), b) != in_list.end()) return;
    in_list.push_back(b);
    if (state[b] && first_use[b] == kNone) first_use[b] = place;
  };
  for (Id place = 0; place < nodes; ++place) {
    const Node& node = g.nodes[order[place]];
    seconds.push_back(node.seconds);
    total_seconds += node.seconds;
    scratch.push_back(node.scratch);
    Id by = node.again && node.updates.empty() ? nodes : kNone;
    for (Id b : node.in) {
      use(place, b);
      if (g.buffers[b].origin == Origin::state) by = std::min(by, state_end[b]);
    }
    for (Id b : node.updates) {
      use(place, b);
      updated_at[b] = place;
    }
    for (Id b : node.out) {
      out_list.push_back(b);
      maker[b] = place;
    }
    again_by.push_back(by);
    const Id from = node.reuse;
    const bool takes = from != kNone && g.buffers[from].origin == Origin::made &&
                       !g.buffers[from].kept && bytes[node.out[0]] <= bytes[from];
    reuse_in.push_back(takes ? from : kNone);
    in_begin.push_back(static_cast<Id>(in_list.size()));
    out_begin.push_back(static_cast<Id>(out_list.size()));
  }
  seconds.push_back(0);
  scratch.push_back(0);
  again_by.push_back(kNone);
  reuse_in.push_back(kNone);
  for (std::size_t b = 0; b < buffers; ++b) {
    if (g.buffers[b].kept && g.buffers[b].origin == Origin::made) use(nodes, static_cast<Id>(b));
  }
  in_begin.push_back(static_cast<Id>(in_list.size()));
  out_begin.push_back(static_cast<Id>(out_list.size()));
}

}  // namespace ebb::plan
