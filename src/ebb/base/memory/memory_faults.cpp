#include "ebb/base/memory/memory_faults.hpp"

#include "ebb/base/memory/memory_state.hpp"

namespace ebb::memory {

FailTake::FailTake(std::uint64_t nth, bool forever) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.fail_at = s.takes + nth;
  s.fail_forever = forever;
  s.failed = false;
}

FailTake::~FailTake() {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.fail_at = 0;
}

std::uint64_t FailTake::takes() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.takes;
}

bool FailTake::fired() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.failed;
}

}  // namespace ebb::memory
