// Ranks as threads of one test, over a network that is late, reorders and loses (base/messages/transport_fakes.hpp).
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ebb/base/messages/transport_fakes.hpp"
#include "ebb/dist/world.hpp"

namespace ebb::test {

// f(rank) on each rank's thread; what each has thrown, "": nothing.
inline std::vector<std::string> on_ranks(int ranks, const std::function<void(int)>& f) {
  std::vector<std::string> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        f(r);
      } catch (const std::exception& e) {
        thrown[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return thrown;
}

// f(world) on each.
inline std::vector<std::string> in_worlds(FakeNetwork& network, int ranks,
                                          const std::function<void(dist::World&)>& f,
                                          const dist::WorldOptions& options = {}) {
  return on_ranks(ranks, [&](int rank) {
    dist::World world([&] { return network.open(rank); }, options);
    f(world);
  });
}

inline void expect_none(const std::vector<std::string>& thrown) {
  for (const std::string& t : thrown)
    if (!t.empty()) throw std::runtime_error("a rank has thrown: " + t);
}

}  // namespace ebb::test
