// What a walk through a data set holds at its largest.
#pragma once

#include <cstdint>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/data/dataset.hpp"

namespace ebb::test {

// Bytes above those held before, over the batches of an epoch up to the one that is `enough`.
template <class Enough>
std::uint64_t walk_peak(const Dataset& set, Enough&& enough) {
  memory::trim();
  const auto live = ledger::total().live;
  ledger::reset_peak();
  for (const Batch& b : set.epochs(1))
    if (enough(b)) break;
  return ledger::total().peak - live;
}

}  // namespace ebb::test
