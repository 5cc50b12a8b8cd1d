// Memory that runs out at every place of a call.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "tests/error_of.hpp"

namespace ebb::test {

// Calls with the first taking of memory refused, then with the second and so on, fewer than `most` times, until
// none is left to refuse. Each refusal is an Error, and leaves nothing. Gives how many there were.
template <class F>
int memory_refusals(std::uint64_t most, F&& call) {
  const auto live = ledger::total().live;
  int refused = 0;
  for (std::uint64_t n = 1; n < most; ++n) {
    memory::FailTake fault(n);
    const std::string line = error_of(call);
    EXPECT_EQ(line != "no error", fault.fired()) << line;
    EXPECT_EQ(ledger::total().live, live);
    if (!fault.fired()) break;
    ++refused;
  }
  return refused;
}

}  // namespace ebb::test
