// conv2d and its gradients: values against a plain double reference, and the bits rule.
#include "ebb/kernels/conv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ebb/base/pool.hpp"
#include "tests/kernels/seed.hpp"
#include "tests/kernels/targets.hpp"
#include "tests/kernels/threads.hpp"

namespace ebb::kernels {
namespace {

std::string show(const Conv2dShape& s) {
  std::string text;
  for (const std::size_t n :
       {s.batch, s.in_h, s.in_w, s.in_c, s.out_c, s.kernel_h, s.kernel_w, s.stride_h, s.stride_w,
        s.dilation_h, s.dilation_w, s.pad_top, s.pad_bottom, s.pad_left, s.pad_right, s.groups,
        static_cast<std::size_t>(s.winograd)}) {
    text += std::to_string(n) + " ";
  }
  return "batch h w cin cout kh kw stride×2 dilation×2 pad×4 groups winograd = " + text;
}

template <class T>
std::vector<T> random_values(std::size_t count, Random& random) {
  std::uniform_real_distribution<double> value(-1, 1);
  std::vector<T> v(count);
  for (T& x : v) x = static_cast<T>(value(random));
  return v;
}

// Scratch of exactly the promised size, with a guard behind it and garbage in it.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64))) {
    std::memset(static_cast<void*>(data_), 0xff, (bytes + 127) / 64 * 64);
  }
  ~Scratch() {
    for (std::size_t i = bytes_; i < (bytes_ + 127) / 64 * 64; ++i) {
      EXPECT_EQ(data_[i], std::byte{0xff}) << "kernel wrote beyond its scratch";
    }
    std::free(data_);
  }
  std::span<std::byte> span() { return {data_, bytes_}; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

struct Sizes {
  std::size_t x, w, y;
};
Sizes sizes(const Conv2dShape& s) {
  return {s.batch * s.in_h * s.in_w * s.in_c,
          s.out_c * s.kernel_h * s.kernel_w * (s.in_c / s.groups),
          s.batch * s.out_h() * s.out_w() * s.out_c};
}

// Calls f(y index, x index, w index) for every product a convolution is made of.
template <class F>
void each_product(const Conv2dShape& s, F&& f) {
  const std::size_t oh = s.out_h(), ow = s.out_w();
  const std::size_t in = s.in_c / s.groups, out = s.out_c / s.groups;
  for (std::size_t n = 0; n < s.batch; ++n)
    for (std::size_t i = 0; i < oh; ++i)
      for (std::size_t j = 0; j < ow; ++j)
        for (std::size_t kh = 0; kh < s.kernel_h; ++kh)
          for (std::size_t kw = 0; kw < s.kernel_w; ++kw) {
            const std::size_t h = i * s.stride_h + kh * s.dilation_h;
            const std::size_t w = j * s.stride_w + kw * s.dilation_w;
            if (h < s.pad_top || h - s.pad_top >= s.in_h) continue;
            if (w < s.pad_left || w - s.pad_left >= s.in_w) continue;
            const std::size_t pixel = (n * s.in_h + h - s.pad_top) * s.in_w + w - s.pad_left;
            for (std::size_t co = 0; co < s.out_c; ++co)
              for (std::size_t ci = 0; ci < in; ++ci)
                f(((n * oh + i) * ow + j) * s.out_c + co, pixel * s.in_c + co / out * in + ci,
                  ((co * s.kernel_h + kh) * s.kernel_w + kw) * in + ci);
          }
}

template <class T>
struct Results {
  std::vector<T> y, dx, dw;
  bool operator==(const Results& o) const {
    const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
      return a.size() == b.size() &&
             (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
    };
    return same(y, o.y) && same(dx, o.dx) && same(dw, o.dw);
  }
};

template <class T>
struct Problem {
  Conv2dShape s;
  std::vector<T> x, w, bias, dy, dw;
  bool with_bias;

  Problem(const Conv2dShape& shape, Random& random) : s(shape), with_bias(random() % 2 == 0) {
    const Sizes n = sizes(s);
    x = random_values<T>(n.x, random);
    w = random_values<T>(n.w, random);
    bias = random_values<T>(s.out_c, random);
    dy = random_values<T>(n.y, random);
    dw = random_values<T>(n.w, random);
  }

  Results<T> run(bool accumulate) const {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    Results<T> r{std::vector<T>(dy.size(), nan), std::vector<T>(x.size(), nan),
                 accumulate ? dw : std::vector<T>(dw.size(), nan)};
    {
      Scratch scratch(conv2d_scratch_bytes<T>(s));
      conv2d<T>(s, x.data(), w.data(), with_bias ? bias.data() : nullptr, r.y.data(),
                scratch.span());
    }
    {
      Scratch scratch(conv2d_input_grad_scratch_bytes<T>(s));
      conv2d_input_grad<T>(s, dy.data(), w.data(), r.dx.data(), scratch.span());
    }
    Scratch scratch(conv2d_weight_grad_scratch_bytes<T>(s));
    conv2d_weight_grad<T>(s, x.data(), dy.data(), r.dw.data(), accumulate, scratch.span());
    return r;
  }

  Results<double> reference(bool accumulate) const {
    Results<double> r{std::vector<double>(dy.size()), std::vector<double>(x.size()),
                      std::vector<double>(dw.size())};
    for (std::size_t i = 0; i < r.y.size() && with_bias; ++i) r.y[i] = bias[i % s.out_c];
    for (std::size_t i = 0; i < r.dw.size() && accumulate; ++i) r.dw[i] = dw[i];
    each_product(s, [&](std::size_t yi, std::size_t xi, std::size_t wi) {
      r.y[yi] += static_cast<double>(x[xi]) * static_cast<double>(w[wi]);
      r.dx[xi] += static_cast<double>(dy[yi]) * static_cast<double>(w[wi]);
      r.dw[wi] += static_cast<double>(dy[yi]) * static_cast<double>(x[xi]);
    });
    return r;
  }
};

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, double tolerance,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    ASSERT_LE(error, tolerance * (1 + std::abs(want[i]))) << what << "[" << i << "] got " << got[i];
  }
}

// Which of the three go by Winograd's algorithm.
struct Taken {
  bool forward, input_grad, weight_grad;
  explicit Taken(Conv2dShape s) {
    const Conv2dWork work = conv2d_work(s);
    s.winograd = false;
    const Conv2dWork plain = conv2d_work(s);
    forward = work.forward != plain.forward;
    input_grad = work.input_grad != plain.input_grad;
    weight_grad = work.weight_grad != plain.weight_grad;
  }
};

template <class T>
void expect_right(const Problem<T>& p, bool accumulate) {
  SCOPED_TRACE(show(p.s));
  const Results<T> got = p.run(accumulate);
  const Results<double> want = p.reference(accumulate);
  const double tolerance = sizeof(T) == 4 ? 1e-4 : 1e-12;
  const Taken by_winograd(p.s);
  expect_near(got.y, want.y, tolerance * (by_winograd.forward ? 4 : 1), "y");
  expect_near(got.dx, want.dx, tolerance * (by_winograd.input_grad ? 4 : 1), "dx");
  expect_near(got.dw, want.dw, tolerance * (by_winograd.weight_grad ? 4 : 1), "dw");
}

// Shapes by what matters of them.
struct Images {
  std::size_t batch, h, w, channels;
};
Conv2dShape conv(const Images& x, std::size_t out_c, std::size_t kernel_h = 1,
                 std::size_t kernel_w = 1) {
  return {.batch = x.batch,
          .in_h = x.h,
          .in_w = x.w,
          .in_c = x.channels,
          .out_c = out_c,
          .kernel_h = kernel_h,
          .kernel_w = kernel_w};
}
Conv2dShape padded(Conv2dShape s, std::size_t top, std::size_t bottom, std::size_t left,
                   std::size_t right) {
  s.pad_top = top, s.pad_bottom = bottom, s.pad_left = left, s.pad_right = right;
  return s;
}
Conv2dShape padded(const Conv2dShape& s, std::size_t all) { return padded(s, all, all, all, all); }
Conv2dShape strided(Conv2dShape s, std::size_t h, std::size_t w) {
  s.stride_h = h, s.stride_w = w;
  return s;
}
Conv2dShape dilated(Conv2dShape s, std::size_t h, std::size_t w) {
  s.dilation_h = h, s.dilation_w = w;
  return s;
}
Conv2dShape grouped(Conv2dShape s, std::size_t groups) {
  s.groups = groups;
  return s;
}
Conv2dShape by_winograd(Conv2dShape s) {
  s.winograd = true;
  return s;
}

Conv2dShape random_shape(Random& random) {
  const auto pick = [&](std::size_t low, std::size_t high) {
    return low + static_cast<std::size_t>(random() % (high - low + 1));
  };
  Conv2dShape s = conv({pick(1, 4), pick(1, 12), pick(1, 12), 1}, 1, pick(1, 4), pick(1, 5));
  s = strided(s, pick(1, 3), pick(1, 3));
  s = dilated(s, pick(1, 3), pick(1, 2));
  s = padded(s, pick(0, 3), pick(0, 3), pick(0, 3), pick(0, 3));
  switch (pick(0, 3)) {
    case 0:
      s.groups = pick(2, 4);
      s.in_c = s.groups * pick(1, 5);
      s.out_c = s.groups * pick(1, 5);
      break;
    case 1:
      s.groups = s.in_c = s.out_c = pick(2, 37);
      break;  // depthwise
    default:
      s.in_c = pick(1, 40);
      s.out_c = pick(1, 40);
      break;
  }
  if (pick(0, 4) == 0) s.in_h = s.kernel_h = 1, s.pad_top = s.pad_bottom = 0;  // conv1d
  if (pick(0, 4) == 0) s.kernel_h = s.kernel_w = 1;
  if (pick(0, 4) == 0) s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = 0;
  s.winograd = pick(0, 1) == 0;  // mostly without effect
  return s;
}

// One that Winograd's algorithm takes, as a rule.
Conv2dShape random_winograd_shape(Random& random) {
  Conv2dShape s = random_shape(random);
  s.winograd = true;
  s.kernel_h = s.kernel_w = 3;
  s.stride_h = s.stride_w = s.dilation_h = s.dilation_w = s.groups = 1;
  s.in_h = 4 + random() % 17;
  s.in_w = 4 + random() % 17;
  s.in_c = 16 + random() % 40;
  s.out_c = 16 + random() % 120;
  return s;
}

TEST(Conv, ValuesOfRandomShapes) {
  const std::uint64_t seed = any_seed();
  SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  for (int i = 0; i < 150 && !testing::Test::HasFatalFailure(); ++i) {
    const Conv2dShape s = random_shape(random);
    expect_right(Problem<float>(s, random), i % 2 == 0);
    expect_right(Problem<double>(s, random), i % 2 != 0);
  }
}

TEST(Conv, ValuesByWinograd) {
  const std::uint64_t seed = any_seed();
  SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  int forward = 0, input_grad = 0, weight_grad = 0;
  for (int i = 0; i < 30 && !testing::Test::HasFatalFailure(); ++i) {
    const Conv2dShape s = random_winograd_shape(random);
    const Taken taken(s);
    forward += taken.forward;
    input_grad += taken.input_grad;
    weight_grad += taken.weight_grad;
    expect_right(Problem<float>(s, random), i % 2 == 0);
    expect_right(Problem<double>(s, random), i % 2 != 0);
  }
  EXPECT_GE(forward, 10);
  EXPECT_GE(input_grad, 10);
  EXPECT_GE(weight_grad, 3);
}

// A sum over so many channels that it is cut; more tiles than are taken at a time; an image of
// several runs of tiles, the last of them shorter, in several groups; every vector width.
TEST(Conv, ValuesByWinogradOfLayers) {
  Random random(5);
  const auto layer = [](std::size_t batch, std::size_t side, std::size_t in, std::size_t out) {
    return by_winograd(padded(conv({batch, side, side + 1, in}, out, 3, 3), 1));
  };
  for (const Conv2dShape& s :
       {layer(2, 16, 300, 33), layer(12, 15, 16, 17), layer(5, 35, 40, 50), layer(3, 11, 70, 40)}) {
    const Taken taken(s);
    EXPECT_TRUE(taken.forward && taken.input_grad) << show(s);
    for_each_target([&](std::int64_t) { expect_right(Problem<float>(s, random), true); });
    expect_right(Problem<double>(s, random), false);
  }
  EXPECT_TRUE(Taken(layer(5, 35, 40, 50)).weight_grad);
  // Nothing but padding; no images.
  Conv2dShape none = padded(layer(2, 0, 40, 40), 5);
  none.in_w = 0;
  EXPECT_TRUE(Taken(none).forward);
  expect_right(Problem<float>(none, random), true);
  expect_right(Problem<float>(layer(0, 16, 32, 32), random), false);
}

TEST(Conv, WorkIsLessByWinograd) {
  const Conv2dShape plain = padded(conv({64, 32, 32, 64}, 64, 3, 3), 1);
  Conv2dShape winograd = by_winograd(plain);
  const Conv2dWork a = conv2d_work(plain), b = conv2d_work(winograd);
  EXPECT_EQ(a.forward, 64.0 * 32 * 32 * 9 * 64 * 64);
  EXPECT_EQ(a.input_grad, a.forward);
  EXPECT_EQ(a.weight_grad, a.forward);
  EXPECT_LT(b.forward, a.forward / 2);
  EXPECT_EQ(b.input_grad, b.forward);
  EXPECT_LT(b.weight_grad, 0.6 * a.forward);
  winograd.stride_h = 2;  // nothing for it
  EXPECT_EQ(conv2d_work(winograd).forward, a.forward / 2);
}

// Errors against the plain sum's, over many outputs of a layer of usual size.
TEST(Conv, WinogradRoundsAboutAsWell) {
  Random random(11);
  Problem<float> p(padded(conv({2, 16, 16, 64}, 32, 3, 3), 1), random);
  const Results<double> want = p.reference(false);
  const auto off = [&](const std::vector<float>& got, const std::vector<double>& right) {
    double sum = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      sum += std::pow(static_cast<double>(got[i]) - right[i], 2);
      size += right[i] * right[i];
    }
    return std::sqrt(sum / size);
  };
  const Results<float> plain = p.run(false);
  p.s.winograd = true;
  const Results<float> winograd = p.run(false);
  const auto check = [](double a, double b) {
    EXPECT_NE(a, b);
    EXPECT_LT(b, 2.5 * a);
    EXPECT_LT(b, 2e-6);
  };
  check(off(plain.y, want.y), off(winograd.y, want.y));
  check(off(plain.dx, want.dx), off(winograd.dx, want.dx));
  check(off(plain.dw, want.dw), off(winograd.dw, want.dw));
}

TEST(Conv, ValuesOfLayers) {
  Random random(7);
  // Long chains (cut into stretches), wide images (cut into pieces of a row), many images a block.
  const Conv2dShape shapes[] = {
      padded(conv({2, 8, 8, 130}, 33, 3, 3), 1),
      padded(conv({2, 1, 1500, 5}, 17, 1, 7), 0, 0, 6, 0),
      padded(conv({70, 3, 3, 16}, 16, 3, 3), 1),
      padded(strided(conv({3, 32, 32, 3}, 16, 3, 3), 2, 2), 0, 1, 0, 1),
      conv({2, 20, 20, 600}, 8),
      strided(conv({2, 9, 9, 64}, 128), 2, 2),
      grouped(conv({1, 5, 5, 4}, 12, 3, 3), 4),
      // Strides wider than the kernel: rows of places close up at their ends.
      padded(strided(conv({6, 2, 3, 33}, 33), 2, 3), 0, 2, 2, 1),
      strided(conv({2, 7, 8, 9}, 17), 1, 3),
      // Blocks of pixels that lie apart, several of the same size and one that is smaller.
      strided(conv({21, 15, 14, 24}, 20), 2, 2),
      // So many output channels that dy is copied.
      conv({3, 6, 5, 20}, 512),
      padded(conv({40, 3, 3, 5}, 576, 2, 2), 1, 0, 0, 0),
      // Depthwise with many taps: several pixels at a time, but at the edges.
      grouped(padded(conv({2, 9, 19, 37}, 37, 7, 7), 3), 37),
      grouped(padded(dilated(strided(conv({2, 11, 25, 16}, 16, 6, 7), 2, 2), 1, 2), 1, 0, 4, 2),
              16),
  };
  for (const Conv2dShape& s : shapes) {
    expect_right(Problem<float>(s, random), true);
    expect_right(Problem<double>(s, random), false);
  }
}

TEST(Conv, SizesZeroAndOne) {
  Random random(3);
  const Conv2dShape one = conv({1, 1, 1, 1}, 1);
  expect_right(Problem<float>(one, random), true);
  Conv2dShape s = padded(conv({2, 3, 3, 2}, 3, 3, 3), 2, 0, 1, 0);
  for (std::size_t Conv2dShape::*zero :
       {&Conv2dShape::batch, &Conv2dShape::in_h, &Conv2dShape::in_w, &Conv2dShape::in_c,
        &Conv2dShape::out_c}) {
    Conv2dShape z = s;
    z.*zero = 0;
    z.pad_bottom = z.pad_right = 3;
    expect_right(Problem<float>(z, random), false);
    expect_right(Problem<double>(z, random), true);
  }
  // No channels to sum over, in several blocks of places that lie apart: the bias alone.
  Problem<float> none(strided(conv({9, 40, 40, 0}, 4), 2, 2), random);
  none.with_bias = true;
  expect_right(none, true);
  s.kernel_h = 9;  // does not fit: no places, and a gradient of zero
  ASSERT_EQ(s.out_h(), 0u);
  expect_right(Problem<float>(s, random), false);
}

TEST(Conv, SameBitsForAnyThreadsAndTarget) {
  const std::uint64_t seed = any_seed();
  SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  for (int i = 0; i < 40; ++i) {
    Conv2dShape s = i % 4 == 0 ? random_winograd_shape(random) : random_shape(random);
    s.batch *= 3;
    SCOPED_TRACE(show(s));
    const Problem<float> p(s, random);
    std::vector<Results<float>> all;
    for (const int threads : {1, 2, 3}) {
      const Threads set(threads);
      for_each_target([&](std::int64_t target) {
        if (has_fma(target)) all.push_back(p.run(true));
      });
      all.push_back(p.run(true));
    }
    for (const auto& r : all) ASSERT_TRUE(r == all.front());
  }
}

TEST(Conv, SameBitsForAnySplitOfTheBatch) {
  const std::uint64_t seed = any_seed();
  SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  for (int i = 0; i < 60; ++i) {
    Conv2dShape s = i % 4 == 0 ? random_winograd_shape(random) : random_shape(random);
    s.batch = 2 + random() % 5;
    SCOPED_TRACE(show(s));
    const Problem<float> whole(s, random);
    const Results<float> want = whole.run(true);
    const Sizes n = sizes(s);
    Results<float> got{{}, {}, whole.dw};
    for (std::size_t first = 0; first < s.batch;) {
      const std::size_t rows = 1 + random() % (s.batch - first);
      Problem<float> part = whole;
      part.s.batch = rows;
      const auto cut = [&](const std::vector<float>& v, std::size_t total) {
        const auto each = static_cast<std::ptrdiff_t>(total / s.batch);
        const auto b = static_cast<std::ptrdiff_t>(first), e = static_cast<std::ptrdiff_t>(rows);
        return std::vector<float>(v.begin() + b * each, v.begin() + (b + e) * each);
      };
      part.x = cut(whole.x, n.x);
      part.dy = cut(whole.dy, n.y);
      part.dw = got.dw;
      const Results<float> r = part.run(true);
      got.y.insert(got.y.end(), r.y.begin(), r.y.end());
      got.dx.insert(got.dx.end(), r.dx.begin(), r.dx.end());
      got.dw = r.dw;
      first += rows;
    }
    ASSERT_TRUE(got == want);
  }
}

}  // namespace
}  // namespace ebb::kernels
