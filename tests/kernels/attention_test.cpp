#include "ebb/kernels/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/rotary.hpp"
#include "tests/kernels/seed.hpp"
#include "tests/kernels/targets.hpp"
#include "tests/kernels/threads.hpp"

namespace ebb::kernels {
namespace {

template <class T>
std::vector<T> draw(Random& random, std::size_t n) {
  std::uniform_real_distribution<double> value(-1.5, 1.5);
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(value(random));
  return x;
}

// Scratch at a 64-byte boundary, full of NaNs, with a guard behind it.
class Scratch {
 public:
  explicit Scratch(std::size_t size) : size_(size), store_(size + 128, std::byte{0xff}) {
    start_ = (64 - reinterpret_cast<std::uintptr_t>(store_.data()) % 64) % 64;
  }
  ~Scratch() {
    EXPECT_TRUE(std::all_of(store_.begin() + static_cast<std::ptrdiff_t>(start_ + size_),
                            store_.end(), [](std::byte b) { return b == std::byte{0xff}; }));
  }
  std::span<std::byte> span() { return {store_.data() + start_, size_}; }

 private:
  std::size_t size_, start_ = 0;
  std::vector<std::byte> store_;
};

// Inputs and results of one call, forward and back. Fused: q, k and v in one array.
template <class T>
struct Problem {
  Attention a;
  bool fused;
  std::vector<T> q, k, v, dout;  // q alone if fused
  std::vector<T> out, levels, dq, dk, dv;
  std::unique_ptr<bool[]> mask;

  Problem(Random& random, Attention shape, bool in_one, int mask_rank = 0)
      : a(shape), fused(in_one) {
    const std::size_t width = a.heads * a.size, kv_width = a.kv_heads * a.size;
    a.q_row = fused ? width + 2 * kv_width : width;
    a.k_row = a.v_row = fused ? a.q_row : kv_width;
    q = draw<T>(random, a.batch * a.queries * a.q_row);
    if (!fused) {
      k = draw<T>(random, a.batch * a.keys * kv_width);
      v = draw<T>(random, a.batch * a.keys * kv_width);
    }
    dout = draw<T>(random, a.batch * a.queries * width);
    if (mask_rank) {
      const std::size_t n = a.batch * (mask_rank == 3 ? a.queries : 1) * a.keys;
      mask = std::make_unique<bool[]>(n);
      for (std::size_t i = 0; i < n; ++i) mask[i] = random() % 3 != 0;
      if (mask_rank == 3) std::fill_n(mask.get(), a.keys, false);  // the first query sees nothing
      a.mask = mask.get();
      a.mask_by_query = mask_rank == 3;
    }
    const T poison = std::numeric_limits<T>::quiet_NaN();
    out.assign(dout.size(), poison);
    levels.assign(2 * a.batch * a.heads * a.queries, poison);
    dq.assign(q.size(), poison);
    dk.assign(k.size(), poison);
    dv.assign(v.size(), poison);
  }
  template <class P>
  static auto* part(P& own, P& all, bool fused, std::size_t at) {
    return fused ? all.data() + at : own.data();
  }
  void run() {
    const std::size_t ks = a.heads * a.size, vs = ks + a.kv_heads * a.size;
    const T *kp = part(k, q, fused, ks), *vp = part(v, q, fused, vs);
    Scratch forward(attention_scratch<T>(a)), backward(attention_backward_scratch<T>(a));
    attention<T>(a, q.data(), kp, vp, out.data(), levels.data(), forward.span());
    attention_backward<T>(a, q.data(), kp, vp, out.data(), levels.data(), dout.data(), dq.data(),
                          part(dk, dq, fused, ks), part(dv, dq, fused, vs), backward.span());
  }
  std::vector<T> results() const {
    std::vector<T> all;
    for (const auto* x : {&out, &levels, &dq, &dk, &dv})
      all.insert(all.end(), x->begin(), x->end());
    return all;
  }
};

template <class T>
bool sees(const Problem<T>& p, std::size_t b, std::size_t i, std::size_t j) {
  const Attention& a = p.a;
  const std::int64_t back = a.offset + static_cast<std::int64_t>(i) - static_cast<std::int64_t>(j);
  if (a.causal && (back < 0 || (a.window && back >= static_cast<std::int64_t>(a.window))))
    return false;
  return !a.mask || a.mask[(a.mask_by_query ? b * a.queries + i : b) * a.keys + j];
}

double kept(const Attention& a, std::size_t position) {
  if (a.dropout == 0) return 1;
  const std::uint64_t p = a.draws.first + position;
  const std::uint32_t word = ebb::draw(a.draws.key, a.draws.stream, p / 2);
  return (word >> (p % 2 * 16) & 0xFFFF) >= std::round(a.dropout * 65536) ? 1 / (1 - a.dropout) : 0;
}

// Everything in plain loops of doubles: out, then dq, dk, dv, laid out as the problem's.
template <class T>
struct Expected {
  std::vector<double> out, dq, dk, dv;
  explicit Expected(const Problem<T>& p) {
    const Attention& a = p.a;
    const std::size_t d = a.size, group = a.heads / a.kv_heads;
    const std::size_t ks = p.fused ? a.heads * d : 0, vs = p.fused ? ks + a.kv_heads * d : 0;
    const T *k = p.fused ? p.q.data() : p.k.data(), *v = p.fused ? p.q.data() : p.v.data();
    out.assign(p.out.size(), 0);
    dq.assign(p.dq.size(), 0);
    dk.assign(p.dk.size(), 0);
    dv.assign(p.dv.size(), 0);
    double* dkp = p.fused ? dq.data() : dk.data();
    double* dvp = p.fused ? dq.data() : dv.data();
    std::vector<double> w(a.keys), dw(a.keys);
    for (std::size_t b = 0; b < a.batch; ++b)
      for (std::size_t h = 0; h < a.heads; ++h)
        for (std::size_t i = 0; i < a.queries; ++i) {
          const std::size_t at_q = (b * a.queries + i) * a.q_row + h * d;
          const std::size_t at_o = ((b * a.queries + i) * a.heads + h) * d;
          const auto at = [&](std::size_t j, std::size_t row, std::size_t start) {
            return (b * a.keys + j) * row + start + h / group * d;
          };
          double sum = 0;
          for (std::size_t j = 0; j < a.keys; ++j) {
            double s = 0;
            for (std::size_t c = 0; c < d; ++c)
              s += double(p.q[at_q + c]) * double(k[at(j, a.k_row, ks) + c]);
            sum += w[j] = sees(p, b, i, j) ? std::exp(s * a.scale) : 0;
          }
          if (sum == 0) continue;
          double dot = 0;
          for (std::size_t j = 0; j < a.keys; ++j) {
            w[j] /= sum;
            const double m = kept(a, ((b * a.heads + h) * a.queries + i) * a.keys + j);
            dw[j] = 0;
            for (std::size_t c = 0; c < d; ++c) {
              const double value = double(v[at(j, a.v_row, vs) + c]), g = double(p.dout[at_o + c]);
              out[at_o + c] += w[j] * m * value;
              dvp[at(j, a.v_row, vs) + c] += w[j] * m * g;
              dw[j] += g * value * m;
            }
            dot += w[j] * dw[j];
          }
          for (std::size_t j = 0; j < a.keys; ++j) {
            const double ds = w[j] * (dw[j] - dot) * a.scale;
            for (std::size_t c = 0; c < d; ++c) {
              dq[at_q + c] += ds * double(k[at(j, a.k_row, ks) + c]);
              dkp[at(j, a.k_row, ks) + c] += ds * double(p.q[at_q + c]);
            }
          }
        }
  }
};

template <class T>
void expect_near(const char* what, const std::vector<T>& found,
                 const std::vector<double>& expected) {
  double most = 0.5;
  for (const double x : expected) most = std::max(most, std::abs(x));
  const double allowed = (sizeof(T) == 8 ? 1e-12 : 1e-5) * most;
  int shown = 0;
  for (std::size_t i = 0; i < found.size() && shown < 3; ++i) {
    if (std::abs(double(found[i]) - expected[i]) <= allowed) continue;
    ADD_FAILURE() << what << " at " << i << ": " << found[i] << ", not " << expected[i];
    ++shown;
  }
}

template <class T>
void check(Random& random, const Attention& a, bool fused = false, int mask_rank = 0) {
  SCOPED_TRACE("batch " + std::to_string(a.batch) + " queries " + std::to_string(a.queries) +
               " keys " + std::to_string(a.keys) + " heads " + std::to_string(a.heads) + "/" +
               std::to_string(a.kv_heads) + " size " + std::to_string(a.size) + " causal " +
               std::to_string(a.causal) + " window " + std::to_string(a.window) + " mask " +
               std::to_string(mask_rank) + (fused ? " fused" : ""));
  Problem<T> p(random, a, fused, mask_rank);
  const Expected<T> expected(p);
  p.run();
  expect_near("out", p.out, expected.out);
  expect_near("dq", p.dq, expected.dq);
  expect_near("dk", p.dk, expected.dk);
  expect_near("dv", p.dv, expected.dv);
}

Attention shape(std::size_t batch, std::size_t queries, std::size_t keys, std::size_t heads,
                std::size_t kv_heads, std::size_t size) {
  Attention a;
  a.batch = batch;
  a.queries = queries;
  a.keys = keys;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.size = size;
  a.scale = 1 / std::sqrt(static_cast<double>(size));
  return a;
}

Attention causal(Attention a, std::size_t window = 0, std::int64_t offset = 0) {
  a.causal = true;
  a.window = window;
  a.offset = offset;
  return a;
}

TEST(Attention, HeadSizes) {
  Random random(1);
  for (const std::size_t size : {1, 3, 8, 16, 17, 32, 40, 64, 72, 128}) {
    check<float>(random, causal(shape(1, 37, 37, 2, 2, size)));
    check<double>(random, shape(1, 19, 41, 2, 1, size));
  }
}

TEST(Attention, TilesAndTheirEdges) {
  Random random(2);
  for (const std::size_t n : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 256, 257, 300}) {
    check<float>(random, causal(shape(1, n, n, 1, 1, 24)));
    check<float>(random, shape(1, n, 301 - n, 1, 1, 8));
    check<float>(random, causal(shape(1, n, n, 1, 1, 16), 33));
  }
}

TEST(Attention, GroupsMasksWindowsOffsets) {
  Random random(3);
  for (const bool fused : {false, true})
    for (const int mask : {0, 2, 3})
      for (const std::size_t window : {0, 1, 50}) {
        check<float>(random, causal(shape(2, 150, 150, 6, 2, 20), window), fused, mask);
        check<double>(random, shape(2, 30, 30, 4, 1, 12), fused, mask);
      }
  check<float>(random, causal(shape(1, 40, 200, 2, 2, 16), 0, 160));
  check<float>(random, causal(shape(1, 40, 200, 2, 2, 16), 30, 160));
  check<float>(random, causal(shape(1, 60, 50, 2, 2, 16), 0, -20));  // 20 queries see nothing
  check<float>(random, causal(shape(1, 200, 20, 1, 1, 16), 5));      // most do
}

TEST(Attention, NothingSeenIsZero) {
  Random random(4);
  Problem<float> p(random, shape(1, 3, 5, 1, 1, 8), false, 3);
  p.run();
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(p.out[i], 0);
    EXPECT_EQ(p.dq[i], 0);
  }
  EXPECT_EQ(p.levels[1], 0);
  for (const float x : p.dk) EXPECT_TRUE(std::isfinite(x));
}

TEST(Attention, EmptySizes) {
  Random random(5);
  check<float>(random, shape(0, 4, 4, 2, 2, 8));
  check<float>(random, shape(2, 0, 4, 2, 2, 8));
  check<float>(random, shape(2, 4, 0, 2, 2, 8));
}

TEST(Attention, LargeScores) {
  Random random(6);
  Attention a = causal(shape(1, 150, 150, 1, 1, 16));
  a.scale = 60;  // exponents of thousands
  Problem<double> wide(random, a, false);
  Problem<float> p(random, a, false);
  std::copy(wide.q.begin(), wide.q.end(), p.q.begin());
  std::copy(wide.k.begin(), wide.k.end(), p.k.begin());
  p.run();
  for (const float x : p.results()) EXPECT_TRUE(std::isfinite(x));
}

TEST(Attention, DropoutIsThatOfTheWholeMatrix) {
  Random random(7);
  for (const std::size_t keys : {5, 64, 131, 256}) {
    Attention a = shape(2, 33, keys, 2, 1, 16);
    a.dropout = 0.25;
    a.draws = {{3, 4}, 5, 12345};
    check<float>(random, a);
    check<double>(random, causal(a, 0, 10));
  }
}

// ---- bits ----

template <class T>
std::vector<T> results_of(Problem<T>& p) {
  p.run();
  return p.results();
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

std::vector<Attention> bit_shapes() {
  Attention dropped = causal(shape(1, 140, 140, 2, 1, 16));
  dropped.dropout = 0.1;
  return {causal(shape(1, 300, 300, 1, 1, 40)),
          causal(shape(1, 300, 300, 3, 3, 64), 70),
          shape(3, 90, 170, 4, 2, 24),
          causal(shape(1, 600, 600, 8, 8, 8)),
          dropped,
          causal(shape(1, 1800, 1800, 1, 1, 8)),
          causal(shape(1, 1500, 1500, 2, 1, 8), 400),
          shape(1, 500, 1300, 3, 1, 8),
          causal(shape(1, 1, 400, 4, 2, 48), 0, 399),
          shape(2, 4, 300, 2, 1, 23)};
}

// With one short key head and several threads dq is computed apart, with long ones the tiles of
// keys wait for each other; with eight heads on one thread, a task of the way forward has more
// queries: all ways are met.
TEST(Attention, ThreadsShowNowhere) {
  for (const Attention& a : bit_shapes()) {
    Random random(8);
    Problem<float> p(random, a, false);
    std::vector<float> first;
    for (const int count : {1, 2, 3, 8}) {
      const Threads threads(count);
      const auto now = results_of(p);
      if (first.empty()) first = now;
      EXPECT_TRUE(same(first, now)) << count << " threads, " << a.heads << " heads";
    }
  }
}

TEST(Attention, TargetsShowNowhere) {
  for (const Attention& a : bit_shapes()) {
    Random random(9);
    Problem<float> p(random, a, false);
    const Expected<float> expected(p);
    std::vector<float> first;
    for_each_target([&](std::int64_t target) {
      const auto now = results_of(p);
      expect_near("out", p.out, expected.out);
      expect_near("dk", p.dk, expected.dk);
      if (!has_fma(target)) return;
      if (first.empty()) first = now;
      EXPECT_TRUE(same(first, now));
    });
  }
}

// An example's rows are the same whatever stands beside it, and so is a query's without the rest.
TEST(Attention, RowsStandAlone) {
  Random random(10);
  const std::size_t queries = 300;
  for (const auto& [kv_heads, d, window] :
       {std::tuple(2, 16, 0), std::tuple(1, 23, 0), std::tuple(2, 64, 0), std::tuple(1, 40, 150)}) {
    const auto of = [&, h = static_cast<std::size_t>(kv_heads), size = static_cast<std::size_t>(d),
                     back = static_cast<std::size_t>(window)](std::size_t first) {
      return causal(shape(1, queries - first, queries, 2, h, size), back,
                    static_cast<std::int64_t>(first));
    };
    Problem<float> whole(random, of(0), false);
    whole.v[5] = std::numeric_limits<float>::infinity();
    whole.run();
    const std::size_t row = 2 * static_cast<std::size_t>(d);
    for (const std::size_t first : {1, 37, 130, 295, 296, 297, 298, 299}) {
      Problem<float> rest(random, of(first), false);
      std::copy(whole.q.begin() + static_cast<std::ptrdiff_t>(first * row), whole.q.end(),
                rest.q.begin());
      rest.k = whole.k;
      rest.v = whole.v;
      rest.run();
      EXPECT_EQ(0, std::memcmp(rest.out.data(), whole.out.data() + first * row,
                               rest.out.size() * sizeof(float)))
          << "from " << first << ", heads of " << d << ", window " << window;
    }
  }
}

TEST(Attention, RandomShapes) {
  const std::uint64_t seed = seed_of(11);
  SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  const auto upto = [&](std::size_t n) { return 1 + random() % n; };
  for (int i = 0; i < 40; ++i) {
    const std::size_t kv_heads = upto(3);
    Attention a = shape(upto(3), upto(180), upto(180), kv_heads * upto(3), kv_heads, upto(70));
    if (random() % 2) a = causal(a, random() % 2 ? upto(100) : 0, std::int64_t(random() % 40) - 10);
    const bool fused = random() % 2;
    if (fused) a.keys = a.queries;
    if (random() % 4 == 0) a.dropout = 0.3;
    check<float>(random, a, fused, random() % 2 ? 0 : 2 + static_cast<int>(random() % 2));
  }
}

TEST(Attention, ScratchIsSmallAndLinear) {
  const Threads one(1);
  const Attention a = shape(1, 4096, 4096, 8, 8, 64);
  EXPECT_LE(attention_scratch<float>(a), 2u << 20);
  EXPECT_LE(attention_backward_scratch<float>(a), 2u << 20);
  EXPECT_LE(attention_scratch<float>(shape(1, 64, 64, 1, 1, 256)), 2u << 20);
  const auto bytes = [](std::size_t t) {
    return attention_backward_scratch<float>(shape(1, t, t, 8, 8, 64));
  };
  EXPECT_EQ(bytes(8192) - bytes(4096), 2 * (bytes(4096) - bytes(2048)));
}

// ---- rotary ----

template <class T>
void check_rotary(Random& random, const Rotary& r) {
  const std::vector<T> x = draw<T>(random, r.batch * r.positions * r.width);
  std::vector<T> y(x.size(), std::numeric_limits<T>::quiet_NaN()), in_place = x;
  rotary<T>(r, x.data(), y.data());
  rotary<T>(r, in_place.data(), in_place.data());
  EXPECT_TRUE(same(y, in_place));
  std::vector<double> expected(x.begin(), x.end());
  for (std::size_t row = 0; row < r.batch * r.positions; ++row)
    for (std::size_t h = 0; h < r.heads; ++h)
      for (std::size_t i = 0; i < r.size / 2; ++i) {
        const double position = static_cast<double>(r.offset + row % r.positions);
        const double angle =
            (r.back ? -1 : 1) * position * std::pow(r.base, -2.0 * double(i) / double(r.size));
        const std::size_t at = row * r.width + h * r.size + i;
        const double low = double(x[at]), high = double(x[at + r.size / 2]);
        expected[at] = low * std::cos(angle) - high * std::sin(angle);
        expected[at + r.size / 2] = high * std::cos(angle) + low * std::sin(angle);
      }
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    most = std::max(most, std::abs(expected[i] - double(y[i])));
  EXPECT_LE(most, sizeof(T) == 8 ? 1e-12 : 3e-7) << "width " << r.width << " size " << r.size;
}

TEST(Rotary, TurnsPairs) {
  Random random(12);
  for (const std::size_t size : {2, 6, 16, 34, 64, 128})
    for (const std::size_t offset : {0, 1, 63, 1000}) {
      check_rotary<float>(random, {.batch = 2,
                                   .positions = 70,
                                   .width = 3 * size,
                                   .heads = 3,
                                   .size = size,
                                   .offset = offset});
      check_rotary<float>(random, {.batch = 1,
                                   .positions = 9,
                                   .width = 4 * size + 5,
                                   .heads = 2,
                                   .size = size,
                                   .offset = offset,
                                   .back = true});
      check_rotary<double>(random, {.batch = 2,
                                    .positions = 65,
                                    .width = size,
                                    .heads = 1,
                                    .size = size,
                                    .base = 500,
                                    .offset = offset});
    }
}

TEST(Rotary, CutsShowNowhere) {
  Random random(13);
  const Rotary all{.batch = 3, .positions = 300, .width = 96, .heads = 2, .size = 40};
  const auto x = draw<float>(random, 3 * 300 * 96);
  std::vector<float> first;
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    std::vector<float> y(x.size());
    rotary<float>(all, x.data(), y.data());
    if (first.empty()) first = y;
    EXPECT_TRUE(same(first, y));
  }
  Rotary tail = all;  // the last 170 positions of the first example
  tail.batch = 1;
  tail.offset = 130;
  tail.positions = 170;
  std::vector<float> y(170 * 96);
  rotary<float>(tail, x.data() + 130 * 96, y.data());
  EXPECT_EQ(0, std::memcmp(y.data(), first.data() + 130 * 96, y.size() * sizeof(float)));
}

}  // namespace
}  // namespace ebb::kernels
