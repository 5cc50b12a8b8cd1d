// Graphs shaped like the steps that are planned, for the tests of the search and for tools/optimum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "ebb/plan/graph/graph.hpp"

namespace ebb::plan::graphs {

struct Build {
  Graph graph;

  Id buffer(std::uint64_t bytes, Origin origin = Origin::made) {
    graph.buffers.push_back({bytes, origin, false, true});
    return static_cast<Id>(graph.buffers.size()) - 1;
  }
  // A node with one output, which is returned.
  Id node(double seconds, std::vector<Id> in, std::uint64_t bytes) {
    const Id out = buffer(bytes);
    Node node;
    node.seconds = seconds;
    node.in = std::move(in);
    node.out = {out};
    graph.nodes.push_back(std::move(node));
    return out;
  }
  void update(double seconds, std::vector<Id> in, std::vector<Id> state) {
    Node node;
    node.seconds = seconds;
    node.in = std::move(in);
    node.updates = std::move(state);
    node.again = false;
    graph.nodes.push_back(std::move(node));
  }
  void keep(Id buffer) { graph.buffers[buffer].kept = true; }
};

// v_0 → v_1 → … → v_n, and back: the gradient of layer i reads v_{i-1} and the gradient after it.
// Forward 1 s a layer, backward 2 s, every buffer `bytes`.
inline Graph chain(int layers, std::uint64_t bytes = 100) {
  Build b;
  std::vector<Id> v{b.buffer(bytes, Origin::given)};
  for (int i = 1; i <= layers; ++i) v.push_back(b.node(1, {v.back()}, bytes));
  Id d = v.back();
  for (int i = layers; i >= 1; --i) d = b.node(2, {v[i - 1], d}, bytes);
  b.keep(d);
  return b.graph;
}

// Stretches of time: each makes a small state from the one before, and much that its way back
// reads.
inline Graph stretches(int count) {
  Build b;
  Id state = b.buffer(10, Origin::given);
  std::vector<Id> from, saved;
  for (int i = 0; i < count; ++i) {
    from.push_back(state);
    saved.push_back(b.node(1, {state}, 1000));
    state = b.buffer(10);
    b.graph.nodes.back().out.push_back(state);
  }
  Id d = state;
  for (int i = count; i-- > 0;) d = b.node(2, {saved[i], from[i], d}, 10);
  b.keep(d);
  return b.graph;
}

// Down and up again, each level of the way up reading its level of the way down.
inline Graph unet(int depth) {
  Build b;
  const Id x = b.buffer(1 << depth, Origin::given);
  std::vector<Id> at{x}, saved;
  std::vector<std::pair<Id, Id>> inputs;  // of each forward node: what it read
  std::vector<Id> down;
  const auto forward = [&](std::vector<Id> in, int level) {
    const std::uint64_t bytes = std::uint64_t{256} << (depth - level);
    const Id out = b.node(static_cast<double>(bytes) / 256, in, bytes);
    inputs.push_back({in[0], in.size() > 1 ? in[1] : kNone});
    saved.push_back(out);
    return out;
  };
  Id h = x;
  for (int level = 0; level < depth; ++level) down.push_back(h = forward({h}, level));
  for (int level = depth - 1; level >= 0; --level) h = forward({h, down[level]}, level);
  Id d = h;
  for (std::size_t i = saved.size(); i-- > 0;) {
    std::vector<Id> in{inputs[i].first, d};
    if (inputs[i].second != kNone) in.push_back(inputs[i].second);
    const std::uint64_t bytes = b.graph.buffers[inputs[i].first].bytes;
    d = b.node(2 * b.graph.nodes[i].seconds, in, bytes);
  }
  b.keep(d);
  return b.graph;
}

// A dense stack with weights, their gradients and updates. With `clip` a norm over all gradients
// comes before the first update.
inline Graph training(int layers, bool clip, std::uint64_t activation = 1000,
                      std::uint64_t weight = 4000) {
  Build b;
  std::vector<Id> v{b.buffer(activation, Origin::given)}, w, g;
  for (int i = 0; i < layers; ++i) w.push_back(b.buffer(weight, Origin::state));
  for (int i = 0; i < layers; ++i) v.push_back(b.node(1, {v.back(), w[i]}, activation));
  Id d = v.back();
  std::vector<Id> squares;
  for (int i = layers - 1; i >= 0; --i) {
    const Id grad = b.node(1, {v[i], d}, weight);
    g.push_back(grad);
    if (i > 0) d = b.node(1, {d, w[i]}, activation);
    if (clip) squares.push_back(b.node(0.1, {grad}, 8));
    if (!clip) b.update(0.1, {grad}, {w[i]});
  }
  if (clip) {
    const Id norm = b.node(0.1, squares, 8);
    for (int i = 0; i < layers; ++i) b.update(0.1, {g[layers - 1 - i], norm}, {w[i]});
  }
  return b.graph;
}

// A forward graph with skips and its mirror, which reads what was saved.
inline Graph random_training(std::mt19937_64& rng, int forward) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % static_cast<std::uint64_t>(high - low + 1));
  };
  Build b;
  std::vector<Id> v{b.buffer(pick(1, 20), Origin::given)};
  std::vector<std::vector<int>> from(1);
  for (int i = 1; i <= forward; ++i) {
    std::vector<int> in{i - 1};
    if (i > 2 && pick(0, 2) == 0) in.push_back(pick(0, i - 2));
    std::vector<Id> buffers;
    for (int k : in) buffers.push_back(v[k]);
    v.push_back(b.node(pick(1, 20), buffers, pick(1, 20)));
    from.push_back(in);
  }
  std::vector<std::vector<Id>> grads(forward + 1);
  grads[forward].push_back(v[forward]);
  for (int i = forward; i >= 1; --i) {
    std::vector<Id> in = grads[i];
    const bool needs_input = pick(0, 3) != 0;
    if (needs_input) {
      for (int k : from[i]) in.push_back(v[k]);
    }
    if (pick(0, 2) == 0) in.push_back(v[i]);
    std::sort(in.begin(), in.end());
    in.erase(std::unique(in.begin(), in.end()), in.end());
    const Id d = b.node(2 * pick(1, 20), in, b.graph.buffers[v[i - 1]].bytes);
    for (int k : from[i]) grads[k].push_back(d);
  }
  b.keep(static_cast<Id>(b.graph.buffers.size()) - 1);
  return b.graph;
}

// Any graph: nodes read up to three earlier buffers, near ones more often.
inline Graph random_dag(std::mt19937_64& rng, int nodes) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(rng() % static_cast<std::uint64_t>(high - low + 1));
  };
  Build b;
  std::vector<Id> v{b.buffer(pick(1, 20), Origin::given)};
  std::vector<bool> read{true};
  for (int i = 1; i <= nodes; ++i) {
    std::vector<Id> in;
    for (int k = pick(1, 3); k > 0; --k) {
      const int last = static_cast<int>(v.size()) - 1;
      const int near = std::max(0, last - pick(0, 4));
      in.push_back(v[pick(0, 1) ? near : pick(0, last)]);
    }
    std::sort(in.begin(), in.end());
    in.erase(std::unique(in.begin(), in.end()), in.end());
    for (Id k : in) read[k] = true;
    v.push_back(b.node(pick(1, 20), in, pick(1, 20)));
    read.push_back(false);
  }
  for (std::size_t k = 0; k < v.size(); ++k) {
    if (!read[k]) b.keep(v[k]);
  }
  return b.graph;
}

}  // namespace ebb::plan::graphs
