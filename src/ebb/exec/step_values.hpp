// What is written before a step's first action: the key of random draws, and values that the function asks
// for by name, such as the learning rate. One place for all programs of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebb/plan/plan.hpp"

namespace ebb::exec {

class StepValues {
 public:
  explicit StepValues(const plan::Plan& plan);  // which outlives this

  void fill();  // all but the key, which differs from micro-batch to micro-batch
  std::int64_t* key() const { return key_; }
  std::byte* of(const trace::Before& value) const;  // found by its name

 private:
  const std::vector<trace::Before>& values_;  // of the last program, which has all of them
  std::vector<std::byte> bytes_;              // the key, then the values, each at a cache line
  std::int64_t* key_ = nullptr;
};

}  // namespace ebb::exec
