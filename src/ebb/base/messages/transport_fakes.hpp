// Ranks of one process, for tests: each has a Transport, and is mostly a thread.
//
//   FakeNetwork network(4, {.seed = 7, .delay_seconds = 1e-3});
//   auto first = network.open(0);
//   network.silence(2);                    // stops answering, as a stopped or cut-off process does
//
// Messages are late by a drawn time, so those of different tags overtake each other; of one tag they keep
// their order, as the seam promises. Every other send, drawn too, is over only when it is received.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ebb/base/messages/transport.hpp"

namespace ebb {

struct FakeNetworkOptions {
  std::uint64_t seed = 1;
  double delay_seconds = 0;            // at most; drawn for each message
  std::function<double()> clock = {};  // seconds; none: the machine's, else a test's own time
};

class FakeNetwork {
 public:
  using Options = FakeNetworkOptions;
  explicit FakeNetwork(int ranks, Options options = {});
  ~FakeNetwork();

  std::unique_ptr<Transport> open(int rank);  // on a host "fake<rank>"; outlived by the network

  void silence(int rank);  // nothing of what it sends from now on arrives, nor what is sent to it
  void wake(int rank);     // it answers again, and what was sent meanwhile arrives
  void fail_sends(int rank);         // to it, from now on: as to a peer whose connection is gone
  std::vector<int> aborted() const;  // ranks that have called abort, in order
  std::vector<int> closed() const;
  std::uint64_t under_way() const;  // sent, and not received

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace ebb
