// What the tests of row kernels share: seeded data, and one result from every way of running.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "ebb/base/pool.hpp"
#include "tests/kernels/targets.hpp"

namespace ebb::kernels::rows_test {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kEps = 1e-5;  // what norms add to a variance

// Aligned as tensors are: large outputs are written past the caches only where they are.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class U>
  Aligned(const Aligned<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* p, std::size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const Aligned&) const { return true; }
};
template <class T>
using Values = std::vector<T, Aligned<T>>;
using Bytes = Values<std::byte>;
using Ld = long double;
using Floats = ::testing::Types<float, double>;

template <class T>
Values<T> random_values(std::size_t n, std::uint64_t seed, double low = -2, double high = 2) {
  std::mt19937_64 bits(seed * 7919 + n);
  std::uniform_real_distribution<double> u(low, high);
  Values<T> v(n);
  for (auto& x : v) x = static_cast<T>(u(bits));
  return v;
}

template <class T>
struct Limit;
template <>
struct Limit<float> {
  static constexpr double value = 4e-6;
};
template <>
struct Limit<double> {
  static constexpr double value = 1e-13;
};

// Absolute up to 1, relative above; `scale` for results that are sums of larger things.
template <class T>
void expect_near(T got, Ld want, double scale, const char* what, std::size_t i) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << what << "[" << i << "] is " << got << ", not NaN";
  } else if (std::isinf(want)) {
    EXPECT_EQ(got, static_cast<T>(want)) << what << "[" << i << "]";
  } else {
    const double error = static_cast<double>(std::fabs(static_cast<Ld>(got) - want));
    const double size = std::max(scale, std::fabs(static_cast<double>(want)));
    EXPECT_LE(error, Limit<T>::value * size)
        << what << "[" << i << "] is " << got << ", not " << static_cast<double>(want);
  }
}

template <class T>
bool same_bits(const Values<T>& a, const Values<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// run() gives some Values: the same bits with 1, 2 and 3 threads and on all targets with FMA.
template <class F>
void expect_one_result(F&& run) {
  const int before = pool::threads();
  const auto want = run();
  for (const int threads : {1, 2, 3}) {
    pool::set_threads(threads);
    SCOPED_TRACE(threads);
    EXPECT_TRUE(same_bits(want, run())) << "threads";
    for_each_target([&](std::int64_t target) {
      if (has_fma(target)) {
        EXPECT_TRUE(same_bits(want, run())) << "target";
      }
    });
  }
  pool::set_threads(before);
}

// Row lengths around the widths of vectors, lanes and unrolled loops.
inline const std::size_t kLengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257};

}  // namespace ebb::kernels::rows_test
