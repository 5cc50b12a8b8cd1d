// Taking turns inside a parallel region, for sums over rows that must be one chain in row order.
//
// The pool hands out ranges in ascending order and each runs to its end once handed out, so the
// range before one's own is always done or being worked on: waiting for it ends. Work that needs no
// order is done before the wait, while the rows are fetched; what is left for one's turn reads the
// caches.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

namespace ebb::kernels {

class Turns {
 public:
  // Returns when everything before `begin` is done.
  void wait(std::size_t begin) const {
    for (int spin = 0; done_.load(std::memory_order_acquire) != begin; ++spin) {
      if (spin >= kSpins) std::this_thread::yield();
    }
  }
  void done(std::size_t end) { done_.store(end, std::memory_order_release); }

 private:
  static constexpr int kSpins = 1000;
  std::atomic<std::size_t> done_{0};
};

}  // namespace ebb::kernels
