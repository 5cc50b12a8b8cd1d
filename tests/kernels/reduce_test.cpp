// Reductions against plain loops, and the canonical order: bits that depend on shape and axes
// alone.
#include "ebb/kernels/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "ebb/base/half.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/convert.hpp"
#include "hwy/targets.h"

namespace ebb::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

template <class T>
std::vector<T> random_values(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random(seed);
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(static_cast<double>(random() >> 11) * 0x1p-53 * 6 - 3);
  return x;
}

// For each output element, the offsets of what makes it up, in row-major order.
std::vector<std::vector<std::size_t>> groups(const Dims& shape, std::uint32_t axes) {
  std::size_t size = 1, outputs = 1;
  for (std::size_t a = 0; a < shape.size(); ++a) {
    size *= static_cast<std::size_t>(shape[a]);
    if (!(axes >> a & 1)) outputs *= static_cast<std::size_t>(shape[a]);
  }
  std::vector<std::vector<std::size_t>> all(outputs);
  for (std::size_t i = 0; i < size; ++i) {
    std::size_t rest = i, place = 0, step = 1;
    for (std::size_t a = shape.size(); a-- > 0;) {
      const auto n = static_cast<std::size_t>(shape[a]);
      if (!(axes >> a & 1)) place += rest % n * step, step *= n;
      rest /= n;
    }
    all[place].push_back(i);
  }
  return all;
}

struct Layout {
  Dims shape;
  std::uint32_t axes;
};
std::vector<Layout> layouts() {
  return {{{}, 0},
          {{}, 1},
          {{1}, 1},
          {{7}, 1},
          {{7}, 0},
          {{5000}, 1},
          {{100003}, 1},
          {{3, 17}, 2},
          {{3, 17}, 1},
          {{3, 17}, 3},
          {{300, 1}, 1},
          {{2, 9001}, 2},
          {{200, 500}, 1},
          {{200, 500}, 2},
          {{200, 500}, 3},
          {{4, 5, 6}, 1},
          {{4, 5, 6}, 2},
          {{4, 5, 6}, 4},
          {{4, 5, 6}, 5},
          {{4, 5, 6}, 6},
          {{4, 5, 6}, 3},
          {{4, 5, 6}, 7},
          {{3, 1, 5}, 2},
          {{2, 3, 4, 5}, 10},
          {{2, 3, 4, 5}, 5},
          {{40, 3, 50, 7}, 5},
          {{2, 3, 2, 3, 2, 3, 2, 3}, 0xaa},
          {{70000, 3}, 1}};
}

double reference(Reduce op, const std::vector<double>& v, double correction) {
  double sum = 0, product = 1, most = -INFINITY, least = INFINITY;
  for (const double x : v)
    sum += x, product *= x, most = std::fmax(most, x), least = std::fmin(least, x);
  const double mean = sum / static_cast<double>(v.size());
  switch (op) {
    case Reduce::sum:
      return sum;
    case Reduce::mean:
      return mean;
    case Reduce::prod:
      return product;
    case Reduce::max:
      return most;
    case Reduce::min:
      return least;
    case Reduce::var: {
      double squares = 0;
      for (const double x : v) squares += (x - mean) * (x - mean);
      return squares / (static_cast<double>(v.size()) - correction);
    }
    case Reduce::logsumexp: {
      double exps = 0;
      for (const double x : v) exps += std::exp(x - most);
      return std::log(exps) + most;
    }
  }
  return 0;
}

template <class T>
void check_against_reference(double tolerance) {
  for (const Layout& l : layouts()) {
    const auto g = groups(l.shape, l.axes);
    const Reduction r = reduction(l.shape, l.axes);
    std::size_t size = 1;
    for (auto n : l.shape) size *= static_cast<std::size_t>(n);
    ASSERT_EQ(r.outputs, g.size());
    const std::vector<T> x = random_values<T>(size + l.axes, size);
    std::vector<T> y(g.size());
    std::vector<std::int64_t> place(g.size());
    argmax(r, x.data(), place.data());
    for (int op = 0; op <= static_cast<int>(Reduce::var); ++op) {
      const bool sample = static_cast<Reduce>(op) == Reduce::var && r.count > 1;
      reduce(static_cast<Reduce>(op), r, x.data(), y.data(), {.correction = sample ? 1.0 : 0.0});
      for (std::size_t o = 0; o < g.size(); ++o) {
        std::vector<double> values;
        for (const std::size_t i : g[o]) values.push_back(x[i]);
        const double want = reference(static_cast<Reduce>(op), values, sample ? 1.0 : 0.0);
        const double scale = std::fmax(std::fabs(want), std::sqrt(static_cast<double>(r.count)));
        if (std::fabs(want) > 1e30 || (want != 0 && std::fabs(want) < 1e-30))
          continue;  // long products
        ASSERT_NEAR(y[o], want, tolerance * scale)
            << "op " << op << " rank " << l.shape.size() << " axes " << l.axes << " output " << o;
      }
    }
    for (std::size_t o = 0; o < g.size(); ++o) {
      std::size_t best = 0;
      for (std::size_t k = 1; k < g[o].size(); ++k)
        if (x[g[o][k]] > x[g[o][best]]) best = k;
      ASSERT_EQ(place[o], static_cast<std::int64_t>(best)) << "axes " << l.axes << " output " << o;
    }
  }
}

TEST(Reduce, AgreesWithPlainLoopsInF32) { check_against_reference<float>(4e-5); }
TEST(Reduce, AgreesWithPlainLoopsInF64) { check_against_reference<double>(1e-13); }

// The order as the header states it, written out for one run.
float block_sum(const float* x, std::size_t n) {
  float lane[16] = {};
  for (std::size_t i = 0; i < n; ++i) lane[i % 16] += x[i];
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}
float run_sum(const float* x, std::size_t n) {
  float sum = 0;
  for (std::size_t i = 0; i < n; i += 4096)
    sum += block_sum(x + i, std::min<std::size_t>(4096, n - i));
  return sum;
}

TEST(Reduce, SumsHaveTheStatedOrderOnEveryTargetAndThreadCount) {
  const int before = pool::threads();
  for (const std::int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    if (!(hwy::SupportedTargets() & target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    for (const int threads : {1, 2, 3}) {
      pool::set_threads(threads);
      for (const std::size_t n : {1u, 15u, 16u, 17u, 4096u, 4097u, 1000003u}) {
        const std::vector<float> x = random_values<float>(n, n);
        float y;
        reduce(Reduce::sum, reduction(Dims{static_cast<std::int64_t>(n)}, 1), x.data(), &y);
        ASSERT_EQ(y, run_sum(x.data(), n)) << n;
      }
      const std::size_t rows = 37, columns = 5003;
      const Dims shape = {37, 5003};
      const std::vector<float> x = random_values<float>(3, rows * columns);
      std::vector<float> y(columns);
      reduce(Reduce::sum, reduction(shape, 2), x.data(), y.data());
      for (std::size_t i = 0; i < rows; ++i) ASSERT_EQ(y[i], run_sum(&x[i * columns], columns));
      reduce(Reduce::sum, reduction(shape, 1), x.data(), y.data());
      for (std::size_t j = 0; j < columns; ++j) {
        float chain = 0;
        for (std::size_t i = 0; i < rows; ++i) chain += x[i * columns + j];
        ASSERT_EQ(y[j], chain);
      }
      reduce(Reduce::sum, reduction(shape, 3), x.data(), y.data());
      float chain = 0;
      for (std::size_t i = 0; i < rows; ++i) chain += run_sum(&x[i * columns], columns);
      ASSERT_EQ(y[0], chain);
    }
    hwy::SetSupportedTargetsForTest(0);
  }
  pool::set_threads(before);
}

TEST(Reduce, EveryOpHasTheSameBitsOnOneTwoAndThreeThreads) {
  const int before = pool::threads();
  const Dims shape = {60, 31, 130};
  const std::vector<float> x = random_values<float>(8, 60 * 31 * 130);
  for (std::uint32_t axes = 0; axes < 8; ++axes) {
    const Reduction r = reduction(shape, axes);
    for (int op = 0; op <= static_cast<int>(Reduce::var); ++op) {
      std::vector<float> first(r.outputs), y(r.outputs);
      for (const int threads : {1, 2, 3}) {
        pool::set_threads(threads);
        reduce(static_cast<Reduce>(op), r, x.data(), (threads == 1 ? first : y).data());
        if (threads > 1) {
          EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * 4), 0)
              << "op " << op << " axes " << axes;
        }
      }
    }
  }
  pool::set_threads(before);
}

TEST(Reduce, ABatchInPartsIsTheWholeBatch) {
  // Sums that include axis 0, in parts of 13, 1 and 23 rows, each starting from the last.
  for (const auto& [inner, axes] :
       std::map<std::vector<std::int64_t>, std::uint32_t>{{{1}, 1},
                                                          {{1}, 3},
                                                          {{29}, 1},
                                                          {{29}, 3},
                                                          {{5, 6}, 1},
                                                          {{5, 6}, 3},
                                                          {{5, 6}, 5},
                                                          {{5, 6}, 7}}) {
    const auto shape_of = [&, inner = inner](std::int64_t rows) {
      Dims shape = {rows};
      shape.insert(shape.end(), inner.begin(), inner.end());
      return shape;
    };
    std::size_t row = 1;
    for (auto n : inner) row *= static_cast<std::size_t>(n);
    const std::vector<float> x = random_values<float>(row, 37 * row);
    const Reduction all = reduction(shape_of(37), axes);
    std::vector<float> whole(all.outputs), parts(all.outputs, 0.0f);
    reduce(Reduce::sum, all, x.data(), whole.data());
    std::size_t done = 0;
    for (const std::int64_t rows : {13, 1, 23}) {
      reduce(Reduce::sum, reduction(shape_of(rows), axes), x.data() + done * row, parts.data(),
             {.accumulate = true});
      done += static_cast<std::size_t>(rows);
    }
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * 4), 0)
        << "axes " << axes << " row " << row;
  }
}

TEST(Reduce, ARowDoesNotDependOnItsNeighbours) {
  const std::size_t n = 70001;  // long enough for the threads to work inside one row
  const std::vector<float> x = random_values<float>(4, 3 * n);
  for (int op = 0; op <= static_cast<int>(Reduce::var); ++op) {
    float together[3], alone;
    reduce(static_cast<Reduce>(op), reduction(Dims{3, static_cast<std::int64_t>(n)}, 2), x.data(),
           together);
    for (std::size_t i = 0; i < 3; ++i) {
      reduce(static_cast<Reduce>(op), reduction(Dims{1, static_cast<std::int64_t>(n)}, 2),
             &x[i * n], &alone);
      EXPECT_EQ(std::memcmp(&alone, &together[i], 4), 0) << "op " << op;
    }
  }
}

TEST(Reduce, EmptyAndSpecialValues) {
  float y[3] = {5, 5, 5};
  reduce<float>(Reduce::sum, reduction(Dims{0, 3}, 1), nullptr, y);
  EXPECT_EQ(y[2], 0);
  reduce<float>(Reduce::prod, reduction(Dims{0}, 1), nullptr, y);
  EXPECT_EQ(y[0], 1);
  reduce<float>(Reduce::mean, reduction(Dims{0}, 1), nullptr, y);
  EXPECT_TRUE(std::isnan(y[0]));
  reduce<float>(Reduce::logsumexp, reduction(Dims{0}, 1), nullptr, y);
  EXPECT_EQ(y[0], -INFINITY);
  reduce<float>(Reduce::sum, reduction(Dims{0, 3}, 2), nullptr, nullptr);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t at : {0u, 5u, 16u, 19u}) {
    std::vector<float> x(20, 1.0f);
    x[at] = nan;
    std::int64_t place;
    for (const Reduce op : {Reduce::max, Reduce::min, Reduce::sum, Reduce::logsumexp}) {
      reduce(op, reduction(Dims{20}, 1), x.data(), y);
      EXPECT_TRUE(std::isnan(y[0])) << at;
      reduce(op, reduction(Dims{20, 1}, 1), x.data(), y);
      EXPECT_TRUE(std::isnan(y[0])) << at;
    }
    argmax(reduction(Dims{20}, 1), x.data(), &place);
    EXPECT_EQ(place, static_cast<std::int64_t>(at));
    argmax(reduction(Dims{20, 1}, 1), x.data(), &place);
    EXPECT_EQ(place, static_cast<std::int64_t>(at));
  }
  const float low[] = {-INFINITY, -INFINITY}, high[] = {1, INFINITY}, big[] = {1000, 1000};
  reduce(Reduce::logsumexp, reduction(Dims{2}, 1), low, y);
  EXPECT_EQ(y[0], -INFINITY);
  reduce(Reduce::logsumexp, reduction(Dims{2}, 1), high, y);
  EXPECT_EQ(y[0], INFINITY);
  reduce(Reduce::logsumexp, reduction(Dims{2}, 1), big, y);
  EXPECT_FLOAT_EQ(y[0], 1000 + std::log(2.0f));
  for (const float beside : {INFINITY, -INFINITY}) {  // a NaN wins over what is infinite
    for (const std::size_t at : {0u, 5u, 16u, 19u}) {
      std::vector<float> x(40, beside);
      x[at] = nan;
      reduce(Reduce::logsumexp, reduction(Dims{2, 20}, 2), x.data(), y);
      EXPECT_TRUE(std::isnan(y[0])) << beside << " " << at;
      EXPECT_EQ(y[1], beside) << at;
    }
  }
}

TEST(Reduce, IntegersAndHalves) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const std::int32_t x[] = {most, 1, 5, -3};
  std::int32_t y;
  reduce(Reduce::sum, reduction(Dims{4}, 1), x, &y);
  EXPECT_EQ(y, std::numeric_limits<std::int32_t>::min() + 2);
  reduce(Reduce::max, reduction(Dims{4, 1}, 1), x, &y);
  EXPECT_EQ(y, most);
  reduce(Reduce::min, reduction(Dims{4}, 1), x, &y);
  EXPECT_EQ(y, -3);
  // 16-bit: the sum is the f32 sum, rounded once.
  const std::size_t rows = 9, columns = 1100;
  const std::vector<float> wide = random_values<float>(5, rows * columns);
  std::vector<bf16> half(wide.size());
  std::vector<float> widened(wide.size());
  convert(wide.data(), half.data(), wide.size());
  convert(half.data(), widened.data(), wide.size());
  for (const std::uint32_t axes : {1u, 2u, 3u}) {
    const Reduction r = reduction(Dims{9, 1100}, axes);
    for (const Reduce op :
         {Reduce::sum, Reduce::mean, Reduce::max, Reduce::var, Reduce::logsumexp}) {
      std::vector<bf16> h(r.outputs);
      std::vector<float> f(r.outputs);
      reduce(op, r, half.data(), h.data());
      reduce(op, r, widened.data(), f.data());
      for (std::size_t o = 0; o < r.outputs; ++o) ASSERT_EQ(h[o].bits, to_bf16(f[o]).bits) << o;
    }
  }
}

TEST(Reduce, CumsumRunsBothWays) {
  const std::int64_t x[] = {1, 2, 3, 4, 5, 6};
  std::int64_t y[6];
  cumsum(x, y, 1, 6, 1, false);
  EXPECT_EQ((std::vector<std::int64_t>(y, y + 6)),
            (std::vector<std::int64_t>{1, 3, 6, 10, 15, 21}));
  cumsum(x, y, 2, 3, 1, true);
  EXPECT_EQ((std::vector<std::int64_t>(y, y + 6)), (std::vector<std::int64_t>{6, 5, 3, 15, 11, 6}));
  cumsum(x, y, 1, 3, 2, false);
  EXPECT_EQ((std::vector<std::int64_t>(y, y + 6)), (std::vector<std::int64_t>{1, 2, 4, 6, 9, 12}));
  const std::size_t inner = 1300, n = 40;
  const std::vector<float> a = random_values<float>(2, n * inner);
  std::vector<float> b(a.size());
  cumsum(a.data(), b.data(), 1, n, inner, false);
  for (std::size_t j = 0; j < inner; ++j) {
    float chain = 0;
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(b[i * inner + j], chain += a[i * inner + j]);
  }
  for (const bool reverse : {false, true}) {  // rows side by side
    cumsum(a.data(), b.data(), n + 3, inner - 102, 1, reverse);
    for (std::size_t r = 0; r < n + 3; ++r) {
      float chain = 0;
      for (std::size_t i = 0; i < inner - 102; ++i) {
        const std::size_t at = r * (inner - 102) + (reverse ? inner - 103 - i : i);
        ASSERT_EQ(b[at], chain += a[at]) << r << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
