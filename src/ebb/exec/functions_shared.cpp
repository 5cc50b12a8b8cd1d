// What all compiled functions share of the process: the runtime, batches, what the program holds. As it is, or as it
// would be if the program held its data in another way.
#include <algorithm>

#include "ebb/base/runtime.hpp"
#include "ebb/data/batch.hpp"
#include "ebb/exec/functions.hpp"

namespace ebb::exec {
namespace {

constexpr std::uint64_t kRounding = 64 << 10;  // a scalar more or less moves no smallest budget
constexpr std::uint64_t kSmall = 64 << 10;     // of the program's: scalars, counts, what it prints

std::uint64_t plus(std::uint64_t bytes, std::int64_t more) {
  if (more >= 0) return bytes + static_cast<std::uint64_t>(more);
  return bytes - std::min(bytes, static_cast<std::uint64_t>(-more));
}

}  // namespace

std::uint64_t Functions::least_shared() const {
  std::uint64_t least = shared();
  for (const auto& way : {other_ways_.in_files, other_ways_.in_memory})
    if (way) least = std::min(least, shared(*way));
  return least;
}

std::uint64_t Functions::shared(const OtherWay& way) const {
  const std::uint64_t drawn = data::promise().drawn(), now = data::promise().bytes();
  const std::uint64_t batches = std::max(plus(now, way.dealing), drawn);
  const std::uint64_t others = plus(steps_.beside() - std::max(now, drawn), way.held);
  return runtime::reserve() + batches + (others + kRounding - 1) / kRounding * kRounding + kSmall;
}

// Below the budget from which rows are in memory, each point is where it is with rows in files.
std::vector<plan::FrontierPoint> Functions::by_ways(std::vector<plan::FrontierPoint> points) const {
  if (!other_ways_.any()) return points;
  const auto of = [&](const std::optional<OtherWay>& way) { return way ? shared(*way) : shared(); };
  const std::uint64_t now = shared(), files = of(other_ways_.in_files),
                      memory = of(other_ways_.in_memory);
  const std::uint64_t held_from = std::max(other_ways_.in_memory_from, memory + need_of_all(true));
  for (plan::FrontierPoint& p : points) {
    const std::uint64_t own = p.budget - std::min(p.budget, now);
    p.budget = own + (own + files < held_from ? files : memory);
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const auto& a, const auto& b) { return a.budget < b.budget; });
  return points;
}

}  // namespace ebb::exec
