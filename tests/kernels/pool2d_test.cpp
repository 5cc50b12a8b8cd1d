// Pooling and its gradients: values against a plain reference, and the bits rule.
#include "ebb/kernels/pool2d.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/seed.hpp"
#include "tests/kernels/targets.hpp"
#include "tests/kernels/threads.hpp"

namespace ebb::kernels {
namespace {

Pool2dShape random_shape(Random& random) {
  const auto pick = [&](std::size_t low, std::size_t high) {
    return low + static_cast<std::size_t>(random() % (high - low + 1));
  };
  Pool2dShape s{.batch = pick(0, 3),
                .in_h = pick(1, 11),
                .in_w = pick(1, 11),
                .channels = pick(1, 37),
                .window_h = pick(1, 4),
                .window_w = pick(1, 4),
                .stride_h = pick(1, 4),
                .stride_w = pick(1, 4)};
  s.pad_top = pick(0, s.window_h);  // a window may lie outside the image altogether
  s.pad_bottom = pick(0, s.window_h);
  s.pad_left = pick(0, s.window_w);
  s.pad_right = pick(0, s.window_w);
  if (pick(0, 3) == 0) {
    s.stride_h = s.window_h, s.stride_w = s.window_w;
    s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = 0;
  }
  return s;
}

// Values from a small set, so that windows hold several equal largest ones.
template <class T>
std::vector<T> coarse_values(std::size_t count, Random& random) {
  std::vector<T> v(count);
  for (T& x : v) x = static_cast<T>(static_cast<int>(random() % 7) - 3);
  return v;
}

template <class T>
struct Results {
  std::vector<T> max, max_dx, pick, avg, avg_dx;
  bool operator==(const Results& o) const = default;
};

template <class T>
struct Problem {
  Pool2dShape s;
  bool count_padding;
  std::vector<T> x, v, dy;

  Problem(const Pool2dShape& shape, Random& random) : s(shape), count_padding(random() % 2 == 0) {
    const std::size_t in = s.batch * s.in_h * s.in_w * s.channels;
    x = coarse_values<T>(in, random);
    v = coarse_values<T>(in, random);
    dy = coarse_values<T>(s.batch * s.out_h() * s.out_w() * s.channels, random);
  }

  Results<T> run() const {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const std::vector<T> out(dy.size(), nan), in(x.size(), nan);
    Results<T> r{out, in, out, out, in};
    max_pool2d<T>(s, x.data(), r.max.data());
    max_pool2d_grad<T>(s, x.data(), dy.data(), r.max_dx.data());
    max_pool2d_pick<T>(s, x.data(), v.data(), r.pick.data());
    avg_pool2d<T>(s, x.data(), r.avg.data(), count_padding);
    avg_pool2d_grad<T>(s, dy.data(), r.avg_dx.data(), count_padding);
    return r;
  }

  Results<double> reference() const {
    const std::vector<double> out(dy.size()), in(x.size());
    Results<double> r{out, in, out, out, in};
    const std::size_t oh = s.out_h(), ow = s.out_w();
    for (std::size_t y = 0; y < dy.size(); ++y) {
      const std::size_t c = y % s.channels, j = y / s.channels % ow, i = y / s.channels / ow % oh,
                        n = y / s.channels / ow / oh;
      std::vector<std::size_t> cells;
      for (std::size_t a = 0; a < s.window_h; ++a) {
        for (std::size_t b = 0; b < s.window_w; ++b) {
          const std::size_t h = i * s.stride_h + a, w = j * s.stride_w + b;
          if (h < s.pad_top || h - s.pad_top >= s.in_h || w < s.pad_left ||
              w - s.pad_left >= s.in_w)
            continue;
          cells.push_back(((n * s.in_h + h - s.pad_top) * s.in_w + w - s.pad_left) * s.channels +
                          c);
        }
      }
      r.max[y] = -std::numeric_limits<double>::infinity();
      if (cells.empty()) continue;
      const auto best = std::max_element(cells.begin(), cells.end(),
                                         [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
      r.max[y] = x[*best];
      r.max_dx[*best] += dy[y];
      r.pick[y] = v[*best];
      const double count =
          static_cast<double>(count_padding ? s.window_h * s.window_w : cells.size());
      for (const std::size_t cell : cells) {
        r.avg[y] += x[cell] / count;
        r.avg_dx[cell] += dy[y] / count;
      }
    }
    return r;
  }
};

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (static_cast<double>(got[i]) == want[i]) continue;  // infinities too
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], tolerance) << what << "[" << i << "]";
  }
}

template <class T>
void expect_right(const Problem<T>& p) {
  const Results<T> got = p.run();
  const Results<double> want = p.reference();
  expect_near(got.max, want.max, "max");
  expect_near(got.max_dx, want.max_dx, "max_dx");
  expect_near(got.pick, want.pick, "pick");
  expect_near(got.avg, want.avg, "avg");
  expect_near(got.avg_dx, want.avg_dx, "avg_dx");
}

TEST(Pool2d, ValuesOfRandomShapes) {
  const std::uint64_t seed = any_seed();
  SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
    const Pool2dShape s = random_shape(random);
    expect_right(Problem<float>(s, random));
    expect_right(Problem<double>(s, random));
  }
}

TEST(Pool2d, SizesZeroAndOne) {
  Random random(5);
  const Pool2dShape one{.batch = 1, .in_h = 1, .in_w = 1, .channels = 1};
  expect_right(Problem<float>(one, random));
  for (std::size_t Pool2dShape::*zero :
       {&Pool2dShape::batch, &Pool2dShape::in_h, &Pool2dShape::in_w, &Pool2dShape::channels}) {
    Pool2dShape s{.batch = 2,
                  .in_h = 4,
                  .in_w = 5,
                  .channels = 3,
                  .window_h = 2,
                  .window_w = 2,
                  .pad_top = 1,
                  .pad_bottom = 1,
                  .pad_left = 1,
                  .pad_right = 1};
    s.*zero = 0;
    expect_right(Problem<float>(s, random));
    expect_right(Problem<double>(s, random));
  }
}

TEST(Pool2d, NanWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Pool2dShape s{.batch = 1, .in_h = 1, .in_w = 4, .channels = 1, .window_w = 4};
  const std::vector<float> x{2, nan, 3, nan};
  float y = 0;
  max_pool2d<float>(s, x.data(), &y);
  EXPECT_TRUE(std::isnan(y));
  const float dy = 1;
  std::vector<float> dx(4, 7);
  max_pool2d_grad<float>(s, x.data(), &dy, dx.data());
  EXPECT_EQ(dx, (std::vector<float>{0, 1, 0, 0}));
}

TEST(Pool2d, SameBitsForAnyThreadsAndTarget) {
  const std::uint64_t seed = any_seed();
  SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 20; ++i) {
    Pool2dShape s = random_shape(random);
    s.batch = 1 + i % 3 * 8;
    s.in_h += 20;
    s.in_w += 20;
    Problem<float> p(s, random);
    for (float& value : p.dy) value = normal(random);
    std::vector<Results<float>> all;
    for (const int threads : {1, 2, 3}) {
      const Threads set(threads);
      for_each_target([&](std::int64_t) { all.push_back(p.run()); });
    }
    for (const auto& r : all) ASSERT_TRUE(r == all.front());
  }
}

}  // namespace
}  // namespace ebb::kernels
