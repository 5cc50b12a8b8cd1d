#include "ebb/kernels/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "ebb/base/pool.hpp"

namespace ebb::kernels {
namespace {

// A random walk over two arrays with room around them: permuted, with gaps, backwards, repeated.
struct Case {
  Walk walk;
  std::size_t element;
  std::vector<std::byte> from, to;
  std::int64_t from_start = 0, to_start = 0;
};

// Steps of a contiguous array whose axes lie in memory in the given order, some with a gap.
std::vector<std::int64_t> steps(const Walk& walk, std::vector<int> order, std::int64_t step,
                                std::mt19937_64& random, std::int64_t& bytes) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(walk.rank));
  for (const int d : order) {
    out[static_cast<std::size_t>(d)] = step;
    step *= walk.dim[d];
    if (random() % 4 == 0)
      step += 3 * static_cast<std::int64_t>(random() % 3) * out[static_cast<std::size_t>(d)];
  }
  bytes = step;
  return out;
}

Case make(std::uint64_t seed, std::int64_t largest) {
  std::mt19937_64 random(seed);
  Case c;
  c.element = std::size_t{1} << random() % 4;
  Walk& w = c.walk;
  const int rank = static_cast<int>(random() % 5);
  std::int64_t elements = 1;
  for (int d = 0; d < rank; ++d) {
    const auto room = static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, std::min<std::int64_t>(70, largest / elements)));
    w.add(random() % 30 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % room), 0, 0);
    elements *= std::max<std::int64_t>(1, w.dim[d]);
  }
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.rbegin(), order.rend(), 0);
  std::int64_t to_bytes = 0, from_bytes = 0;
  const auto element = static_cast<std::int64_t>(c.element);
  const auto to = steps(w, order, element, random, to_bytes);
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  const auto from = steps(w, order, element, random, from_bytes);
  for (int d = 0; d < rank; ++d) {
    const auto k = static_cast<std::size_t>(d);
    w.to[d] = to[k];
    w.from[d] = from[k];
    if (random() % 6 == 0) {
      w.from[d] = -from[k];
      c.from_start += std::max<std::int64_t>(0, w.dim[d] - 1) * from[k];
    } else if (random() % 8 == 0) {
      w.from[d] = 0;
    }
  }
  c.from.resize(static_cast<std::size_t>(std::max<std::int64_t>(from_bytes, 1)));
  c.to.resize(static_cast<std::size_t>(std::max<std::int64_t>(to_bytes, 1)), std::byte{0xee});
  for (auto& b : c.from) b = static_cast<std::byte>(random());
  return c;
}

template <class F>
void each(const Walk& w, F&& f, int d = 0, std::int64_t from = 0, std::int64_t to = 0) {
  if (d == w.rank) return f(from, to);
  for (std::int64_t i = 0; i < w.dim[d]; ++i)
    each(w, f, d + 1, from + i * w.from[d], to + i * w.to[d]);
}

class CopyKernel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { pool::set_threads(GetParam()); }
  void TearDown() override { pool::set_threads(before_); }
  int before_ = pool::threads();
};

// Every byte is right, those beside the walk included.
TEST_P(CopyKernel, RandomWalks) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case c = make(seed, seed % 20 == 0 ? 300000 : 3000);
    std::vector<std::byte> expected = c.to;
    each(c.walk, [&](std::int64_t f, std::int64_t t) {
      std::memcpy(expected.data() + t, c.from.data() + c.from_start + f, c.element);
    });
    copy(c.walk, c.element, c.from.data() + c.from_start, c.to.data());
    ASSERT_TRUE(c.to == expected);
  }
}

TEST_P(CopyKernel, RandomFills) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case c = make(seed, seed % 20 == 0 ? 300000 : 3000);
    std::vector<std::byte> expected = c.to;
    each(c.walk, [&](std::int64_t, std::int64_t t) {
      std::memcpy(expected.data() + t, c.from.data(), c.element);
    });
    fill(c.walk, c.element, c.from.data(), c.to.data());
    ASSERT_TRUE(c.to == expected);
  }
}

TEST_P(CopyKernel, RandomSums) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Case c = make(seed, seed % 20 == 0 ? 300000 : 3000);
    const auto element = static_cast<std::int64_t>(c.element);
    for (int d = 0; d < c.walk.rank; ++d) {  // the same walk, over floats
      c.walk.from[d] = c.walk.from[d] / element * 4;
      c.walk.to[d] = c.walk.to[d] / element * 4;
    }
    std::vector<float> from(c.from.size() / c.element + 1), to(c.to.size() / c.element + 1);
    for (float& v : from) v = static_cast<float>(random() % 1000) * 0.1f;
    for (float& v : to) v = static_cast<float>(random() % 1000) * 0.1f;
    const float* start = from.data() + c.from_start / element;
    std::vector<float> expected = to;
    each(c.walk, [&](std::int64_t f, std::int64_t t) {
      expected[static_cast<std::size_t>(t / 4)] += start[f / 4];
    });
    accumulate(c.walk, start, to.data());
    ASSERT_TRUE(to == expected);
  }
}

// Sizes around the blocks of a transpose, and more than one thread's part.
TEST_P(CopyKernel, Transposes) {
  for (const std::size_t element : {1u, 2u, 4u, 8u}) {
    for (const auto& [rows, columns] :
         {std::pair<int, int>{1, 9}, {15, 16}, {33, 31}, {257, 130}, {700, 513}}) {
      const auto e = static_cast<std::int64_t>(element);
      std::vector<std::byte> x(element * static_cast<std::size_t>(rows * columns)), y(x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<std::byte>(i * 2654435761u >> 13);
      Walk w;  // y (columns, rows)
      w.add(columns, e, rows * e);
      w.add(rows, columns * e, e);
      copy(w, element, x.data(), y.data());
      for (int i = 0; i < columns; ++i)
        for (int j = 0; j < rows; ++j)
          ASSERT_EQ(0,
                    std::memcmp(&y[static_cast<std::size_t>(i * rows + j) * element],
                                &x[static_cast<std::size_t>(j * columns + i) * element], element))
              << rows << "x" << columns << " of " << element << " bytes at " << i << ", " << j;
    }
  }
}

// Rows of elements longer than a thread's part: backwards, every second, to every second, one
// value.
TEST_P(CopyKernel, LongRows) {
  struct Steps {
    std::int64_t from, to;
  };
  constexpr Steps kSteps[] = {{-1, 1}, {2, 1}, {1, 2}, {0, 1}, {3, 2}};
  for (const std::size_t element : {1u, 2u, 4u, 8u}) {
    const auto e = static_cast<std::int64_t>(element);
    for (const Steps& s : kSteps) {
      const std::int64_t many = (std::int64_t{s.from == 0 ? 17 : 3} << 20) / e;  // past the caches
      for (const std::int64_t n : {std::int64_t{100003}, many + 3}) {
        SCOPED_TRACE(testing::Message()
                     << n << " of " << element << " bytes, " << s.from << " to " << s.to);
        std::vector<std::byte> x(static_cast<std::size_t>(3 * n * e)), y(x.size() + 64);
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<std::byte>(i * 2654435761u >> 13);
        const std::int64_t start = s.from < 0 ? (n - 1) * e : 0;
        Walk w;
        w.add(n, s.from * e, s.to * e);
        copy(w, element, x.data() + start, y.data() + element);
        std::vector<std::byte> expected(y.size());
        for (std::int64_t i = 0; i < n; ++i)
          std::memcpy(expected.data() + e + i * s.to * e, x.data() + start + i * s.from * e,
                      element);
        ASSERT_TRUE(y == expected);
      }
    }
  }
}

TEST_P(CopyKernel, PlainRuns) {
  for (const std::size_t bytes : {0u, 1u, 1000u, 70000u, 1500001u}) {
    std::vector<std::byte> x(bytes + 1, std::byte{7}), y(bytes + 1, std::byte{9});
    copy_bytes(x.data(), y.data(), bytes);
    EXPECT_TRUE(std::equal(y.begin(), y.end() - 1, x.begin()));
    zero_bytes(y.data(), bytes);
    EXPECT_TRUE(std::all_of(y.begin(), y.end() - 1, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(y.back(), std::byte{9});
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, CopyKernel, testing::Values(1, 2, 3));

}  // namespace
}  // namespace ebb::kernels
