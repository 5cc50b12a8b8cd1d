// A fork-join pool. Workers sleep when idle; the caller works too. It waits for work that others have
// begun, not for threads: one that the system does not run costs nothing.
//
// The bits rule: threads split outputs, never sums. Which thread runs a part may differ from run to
// run, so a part's result may depend on nothing but its own range.
#pragma once

#include <cstddef>
#include <type_traits>

namespace ebb::pool {

// Threads a parallel region may use, the caller included. At first: EBB_THREADS, or the CPUs this
// process may run on, by its affinity and by the quota of its control group.
int threads();
void set_threads(int count);  // 1 to 1024; not while another thread computes

// Which thread of the running region this is: 0 (the caller) to threads() - 1; 0 outside a region.
int thread_index();

using Body = void (*)(void* context, std::size_t begin, std::size_t end);

// Calls body on disjoint ranges that cover [0, count), `grain` long but for the last, on all threads.
// Ranges are handed out in ascending order, and whoever has one finishes it before taking another.
// Returns when all are done; rethrows the first exception. Inside a region, with one thread, or when
// another region is running, the calling thread does it all, as one range.
void run(std::size_t count, std::size_t grain, Body body, void* context);

template <class F>
void parallel_for(std::size_t count, std::size_t grain, F&& f) {
  using Fn = std::remove_reference_t<F>;
  run(
      count, grain,
      [](void* context, std::size_t begin, std::size_t end) {
        (*static_cast<Fn*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace ebb::pool
