// Plans met by the search of which none is better than another in both load and seconds.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>

#include "ebb/plan/search/replay.hpp"

namespace ebb::plan {

class ParetoFront {
 public:
  struct Plan {
    double seconds;
    std::size_t order;
    Extras extras;
    bool explored = false;  // its neighbours were tried
  };
  using Plans = std::map<std::uint64_t, Plan>;  // by load

  // Enters a plan and drops those it beats; false where one that is there is as good.
  bool offer(std::uint64_t load, double seconds, std::size_t order, const Extras& extras) {
    auto at = plans_.upper_bound(load);
    if (at != plans_.begin() && std::prev(at)->second.seconds <= seconds) return false;
    at = plans_.lower_bound(load);
    while (at != plans_.end() && at->second.seconds >= seconds) at = plans_.erase(at);
    plans_.emplace(load, Plan{seconds, order, extras});
    return true;
  }

  // Of the best plan with this load at most.
  double seconds_at(std::uint64_t load) const {
    const auto at = plans_.upper_bound(load);
    return at == plans_.begin() ? std::numeric_limits<double>::infinity()
                                : std::prev(at)->second.seconds;
  }

  const Plans& plans() const { return plans_; }
  Plans& plans() { return plans_; }

 private:
  Plans plans_;
};

}  // namespace ebb::plan
