#include "ebb/base/memory/budget.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "ebb/base/runtime.hpp"

namespace ebb {
namespace {

// All that are alive.
struct Budgets {
  std::mutex lock;
  std::vector<std::uint64_t> bytes;

  std::uint64_t smallest() const {
    return bytes.empty() ? 0 : *std::min_element(bytes.begin(), bytes.end());
  }
};

Budgets& budgets() {
  static Budgets* all = new Budgets;  // outlives every budget, statics included
  return *all;
}

}  // namespace

Budget::Budget(ByteSize size) : bytes_(size.bytes) {
  if (bytes_ == 0) return;
  Budgets& all = budgets();
  const std::lock_guard lock(all.lock);
  all.bytes.push_back(bytes_);
  runtime::set_budget(all.smallest());
}

Budget::~Budget() {
  if (bytes_ == 0) return;
  Budgets& all = budgets();
  const std::lock_guard lock(all.lock);
  all.bytes.erase(std::find(all.bytes.begin(), all.bytes.end(), bytes_));
  runtime::set_budget(all.smallest());
}

Budget::Budget(Budget&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
Budget& Budget::operator=(Budget&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::uint64_t Budget::now() {
  Budgets& all = budgets();
  const std::lock_guard lock(all.lock);
  return all.smallest();
}

}  // namespace ebb
