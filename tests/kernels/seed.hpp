// Seeds of randomised tests: EBB_TEST_SEED, which a failure names, or the test's own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace ebb::kernels {

using Random = std::mt19937_64;

inline std::uint64_t seed_of(std::uint64_t otherwise) {
  const char* text = std::getenv("EBB_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}
inline std::uint64_t any_seed() { return seed_of(std::random_device{}()); }

}  // namespace ebb::kernels
