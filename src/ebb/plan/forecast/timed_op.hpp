// One op, timed by itself: what measuring a machine is made of.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "ebb/ops/apply.hpp"
#include "ebb/plan/forecast/measure.hpp"

namespace ebb::plan {

inline constexpr double kLongest = 0.002;      // seconds of tries in the caches, …
inline constexpr double kLongestFar = 0.0007;  // … and out of them
inline constexpr int kMostTries = 400, kLeastTries = 3;

// The fastest of many short tries: whoever else is on the machine only makes it slower.
template <class F, class Before>
double fastest(F&& once, Before&& before, double longest) {
  double best = 1;
  const double begin = now();
  for (int tries = 0; tries < kLeastTries || (tries < kMostTries && now() - begin < longest);
       ++tries) {
    before();
    const double start = now();
    once();
    best = std::min(best, now() - start);
  }
  return std::max(best, 1e-9);
}

template <class F>
double fastest(F&& once) {
  const auto nothing = [] {};
  return fastest(once, nothing, kLongest);
}

struct Took {
  ops::Cost cost;
  double seconds = 0;
  double flops() const { return cost.flops / seconds; }
  double bytes() const { return cost.bytes / seconds; }
};

struct How {
  std::int64_t below = 1;  // integers are indices below this, drawn
  bool in_place = false;   // results take over what the op lets them
  bool far = false;        // no cache holds anything when it begins
};

// Where the process may take little, nothing of one op is left in memory when the next is tried: neither its bytes
// nor its code. For as long as it lives.
class InLittleMemory {
 public:
  explicit InLittleMemory(std::uint64_t room);  // bytes that may be taken
  ~InLittleMemory();
  InLittleMemory(const InLittleMemory&) = delete;
  InLittleMemory& operator=(const InLittleMemory&) = delete;
  static void give_back();

 private:
  const bool before_;
};

// Runs an op in memory of its own, on the threads that kernels find here.
Took took(const ops::OpType& type, const void* op, const std::vector<Spec>& in, How how);

template <class Op>
Took took(const Op& op, std::initializer_list<Spec> in, How how = {}) {
  return took(ops::op_type<Op>(), &op, in, how);
}

}  // namespace ebb::plan
