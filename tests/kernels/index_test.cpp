#include "ebb/kernels/index.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "ebb/base/pool.hpp"

namespace ebb::kernels {
namespace {

struct Sizes {
  std::size_t outer, size, inner, count;
};

// One thread's worth; wide rows; narrow rows; many outer rows: each way of sharing out.
const Sizes kSizes[] = {{1, 5, 3, 7},      {2, 9, 4, 0},       {1, 40, 520, 300},
                        {1, 1, 700, 90},   {1, 500, 3, 20000}, {1, 7, 1, 60000},
                        {12, 30, 33, 100}, {2, 50, 77, 400},   {3, 11, 0, 5}};

template <class I>
std::vector<I> random_indices(std::size_t count, std::size_t below, std::mt19937_64& random) {
  std::vector<I> out(count);
  for (I& i : out) i = static_cast<I>(random() % below);
  return out;
}

template <class T>
std::vector<T> random_values(std::size_t count, std::mt19937_64& random) {
  std::vector<T> out(count);
  for (T& v : out) v = static_cast<T>(static_cast<double>(random() % 20001) * 1e-4 - 1);
  return out;
}

class IndexKernel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { pool::set_threads(GetParam()); }
  void TearDown() override { pool::set_threads(before_); }
  int before_ = pool::threads();
  std::mt19937_64 random_{static_cast<std::uint64_t>(GetParam())};
};

TEST_P(IndexKernel, Gather) {
  for (const Sizes& s : kSizes) {
    const auto x = random_values<float>(s.outer * s.size * s.inner, random_);
    const auto indices = random_indices<std::int32_t>(s.count, s.size, random_);
    std::vector<float> y(s.outer * s.count * s.inner);
    gather(s.outer, s.size, s.inner * sizeof(float), x.data(), indices.data(), s.count, y.data());
    for (std::size_t o = 0; o < s.outer; ++o)
      for (std::size_t j = 0; j < s.count; ++j)
        for (std::size_t c = 0; c < s.inner; ++c)
          ASSERT_EQ(y[(o * s.count + j) * s.inner + c],
                    x[(o * s.size + static_cast<std::size_t>(indices[j])) * s.inner + c]);
  }
}

// The bits of one chain per element in the order of the indices.
template <class T>
void check_scatter(std::mt19937_64& random) {
  for (const Sizes& s : kSizes) {
    const auto u = random_values<T>(s.outer * s.count * s.inner, random);
    const auto indices = random_indices<std::int64_t>(s.count, s.size, random);
    std::vector<T> y = random_values<T>(s.outer * s.size * s.inner, random), expected = y;
    for (std::size_t o = 0; o < s.outer; ++o)
      for (std::size_t j = 0; j < s.count; ++j)
        for (std::size_t c = 0; c < s.inner; ++c)
          expected[(o * s.size + static_cast<std::size_t>(indices[j])) * s.inner + c] +=
              u[(o * s.count + j) * s.inner + c];
    // In two parts of the indices: the sum goes on where it stopped.
    std::vector<T> parts = y;
    if (s.outer == 1) {
      const std::size_t cut = s.count / 3;
      scatter_add(1, s.size, s.inner, u.data(), indices.data(), cut, parts.data());
      scatter_add(1, s.size, s.inner, u.data() + cut * s.inner, indices.data() + cut, s.count - cut,
                  parts.data());
      ASSERT_TRUE(parts == expected) << s.size << " x " << s.inner;
    }
    scatter_add(s.outer, s.size, s.inner, u.data(), indices.data(), s.count, y.data());
    ASSERT_TRUE(y == expected) << s.size << " x " << s.inner;
  }
}
TEST_P(IndexKernel, ScatterAddF32) { check_scatter<float>(random_); }
TEST_P(IndexKernel, ScatterAddF64) { check_scatter<double>(random_); }
TEST_P(IndexKernel, ScatterAddI32) { check_scatter<std::int32_t>(random_); }

TEST_P(IndexKernel, TakeAndPutAlong) {
  for (const Sizes& s : kSizes) {
    const auto x = random_values<float>(s.outer * s.size * s.inner, random_);
    const std::size_t n = s.outer * s.count * s.inner;
    const auto indices = random_indices<std::int32_t>(n, s.size, random_);
    std::vector<float> y(n), base = x, expected = x;
    take_along(s.outer, s.size, s.inner, sizeof(float), x.data(), indices.data(), s.count,
               y.data());
    put_along_add(s.outer, s.size, s.inner, y.data(), indices.data(), s.count, base.data());
    for (std::size_t o = 0; o < s.outer; ++o)
      for (std::size_t j = 0; j < s.count; ++j)
        for (std::size_t c = 0; c < s.inner; ++c) {
          const std::size_t at = (o * s.count + j) * s.inner + c;
          const std::size_t row =
              (o * s.size + static_cast<std::size_t>(indices[at])) * s.inner + c;
          ASSERT_EQ(y[at], x[row]);
          expected[row] += y[at];
        }
    ASSERT_TRUE(base == expected);
  }
}

TEST_P(IndexKernel, OneHot) {
  const auto indices = random_indices<std::uint8_t>(5000, 30, random_);
  std::vector<double> y(5000 * 30, -1);
  const double one = 1;
  one_hot(indices.data(), 5000, 30, sizeof(double), &one, y.data());
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], i % 30 == indices[i / 30] ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, IndexKernel, testing::Values(1, 2, 3));

TEST(FirstOutOfRange, FindsTheFirst) {
  std::vector<std::int64_t> indices(5000, 3);
  EXPECT_EQ(first_out_of_range(indices.data(), indices.size(), 4), -1);
  EXPECT_EQ(first_out_of_range(indices.data(), 0, 0), -1);
  indices[4321] = 4;
  indices[4800] = -1;
  EXPECT_EQ(first_out_of_range(indices.data(), indices.size(), 4), 4321);
  EXPECT_EQ(first_out_of_range(indices.data(), indices.size(), 5), 4800);
  EXPECT_EQ(first_out_of_range(indices.data(), indices.size(), 3), 0);
  const std::uint8_t bytes[] = {0, 255};
  EXPECT_EQ(first_out_of_range(bytes, 2, 255), 1);
  EXPECT_EQ(first_out_of_range(bytes, 2, 1000), -1);
}

}  // namespace
}  // namespace ebb::kernels
