// How a recurrent call is cut, and where its scratch lies. For the files of the kernel.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/recurrent.hpp"

namespace ebb::kernels::recurrent {

// Rows that go through the steps together: enough that the weight, read once a step, does not
// count; few enough that their gates stay in L2.
inline constexpr std::size_t kBlockRows = 48;
inline constexpr std::size_t kForkedFrom = 400'000;  // multiply-adds

// In elements: a multiple of a line, and of four vectors of any target.
inline constexpr std::size_t padded(std::size_t n) { return round_up(n, 64); }

inline std::size_t work(const Recurrence& over, std::size_t gates) {
  return over.batch * over.steps * gates * over.hidden * over.hidden;
}

// Blocks of rows, as equal as can be; for several threads, as many for each.
struct Blocks {
  std::size_t batch, count;
  Blocks(const Recurrence& over, std::size_t gates) : batch(over.batch) {
    count = ceil_div(batch, kBlockRows);
    const auto threads = static_cast<std::size_t>(pool::threads());
    if (threads == 1 || work(over, gates) < kForkedFrom) return;
    count = std::min(batch, round_up(count, threads));
  }
  std::size_t begin(std::size_t block) const { return block * batch / count; }
  std::size_t most() const { return count == 0 ? 0 : ceil_div(batch, count); }
};

// The packed weight for all, then for each thread: two buffers of (rows, padded hidden), one of
// (rows, 64) for the gates being made, and a row of zeros.
struct Layout {
  Blocks blocks;
  std::size_t row, packed, states, own;  // in elements
  Layout(const Recurrence& over, std::size_t gates)
      : blocks(over, gates),
        row(padded(over.hidden)),
        packed(padded(gates * over.hidden * row)),
        states(blocks.most() * row),
        own(2 * states + blocks.most() * 64 + row) {}
};

// A thread's part of the scratch.
template <class T>
struct Own {
  T *first, *second;  // (rows, row)
  T* made;            // (rows, 64)
  T* zeros;           // (row)
  Own(T* scratch, const Layout& layout) {
    const auto thread = static_cast<std::size_t>(pool::thread_index());
    first = scratch + layout.packed + thread * layout.own;
    second = first + layout.states;
    made = second + layout.states;
    zeros = made + layout.blocks.most() * 64;
    std::fill(zeros, zeros + layout.row, T(0));
  }
};

// The steps in the order they are taken.
struct Steps {
  std::size_t count;
  bool reverse;
  explicit Steps(const Recurrence& over) : count(over.steps), reverse(over.reverse) {}
  std::size_t time(std::size_t step) const { return reverse ? count - 1 - step : step; }
};

inline bool takes_part(const Recurrence& over, std::size_t row, std::size_t time) {
  return over.lengths == nullptr ||
         over.offset + static_cast<std::int64_t>(time) < over.lengths[row];
}

}  // namespace ebb::kernels::recurrent
