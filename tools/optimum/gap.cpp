// Random graphs and what the search finds for them, for tools/optimum/optimum to compare.
//
//   gap SEED COUNT NODES   → on stdout, per graph: its nodes and buffers, three budgets between the
//                            smallest and the unlimited load, and the seconds of the plan at each
#include <cstdio>
#include <cstdlib>

#include "ebb/plan/search/search.hpp"
#include "tests/plan/search/graphs.hpp"

int main(int argc, char** argv) {
  using namespace ebb::plan;
  if (argc != 4) return std::fputs("usage: gap SEED COUNT NODES\n", stderr), 2;
  const int seed = std::atoi(argv[1]), count = std::atoi(argv[2]), nodes = std::atoi(argv[3]);
  for (int k = 0; k < count; ++k) {
    std::mt19937_64 rng(static_cast<std::uint64_t>(seed + k));
    const Graph graph =
        k % 2 == 0 ? graphs::random_training(rng, nodes / 2) : graphs::random_dag(rng, nodes);
    SearchOptions options;
    options.reorder = false;
    const Frontier frontier = search(graph, options);
    std::printf("graph %d %s\n", seed + k, k % 2 == 0 ? "training" : "dag");
    for (const Buffer& b : graph.buffers) {
      std::printf("buffer %d %d %d\n", static_cast<int>(b.bytes), b.origin == Origin::made, b.kept);
    }
    for (const Node& n : graph.nodes) {
      std::printf("node %.9g %d", n.seconds, n.out[0]);
      for (Id b : n.in) std::printf(" %d", b);
      std::printf("\n");
    }
    const double low = static_cast<double>(frontier.minimum());
    const double high = static_cast<double>(frontier.points().back().load);
    for (const double part : {0.2, 0.5, 0.8}) {
      const auto budget = static_cast<std::uint64_t>(low + part * (high - low));
      std::printf("budget %d %.9g\n", static_cast<int>(budget), frontier.at(budget).seconds);
    }
    std::printf("end\n");
  }
}
