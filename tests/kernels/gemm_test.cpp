#include "ebb/kernels/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/half.hpp"
#include "ebb/base/pool.hpp"
#include "tests/kernels/seed.hpp"
#include "tests/kernels/targets.hpp"
#include "tests/kernels/threads.hpp"

namespace ebb::kernels {
namespace {

// Bytes at a 64-byte boundary, filled with NaN patterns, with guards that show a write past the end.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : size_(size), store_(size + 128, std::byte{0xff}) {
    const auto address = reinterpret_cast<std::uintptr_t>(store_.data());
    start_ = (64 - address % 64) % 64;
  }
  std::span<std::byte> span() { return {store_.data() + start_, size_}; }
  bool guard_intact() const {
    return std::all_of(store_.begin() + static_cast<std::ptrdiff_t>(start_ + size_), store_.end(),
                       [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
  std::size_t size_, start_ = 0;
  std::vector<std::byte> store_;
};

// A matrix of any storage, with its values as doubles (exactly what is stored).
struct Matrix {
  std::size_t rows = 0, columns = 0, ld = 0;
  Storage type = Storage::f32;
  std::vector<std::byte> data;

  std::size_t size() const { return type == Storage::f64 ? 8 : type == Storage::f32 ? 4 : 2; }
  double at(std::size_t i, std::size_t j) const {
    const std::byte* p = data.data() + (i * ld + j) * size();
    const auto read = [p](auto v) {
      std::memcpy(&v, p, sizeof v);
      return v;
    };
    switch (type) {
      case Storage::f64:
        return read(double());
      case Storage::f32:
        return read(float());
      case Storage::bf16:
        return to_float(read(bf16()));
      case Storage::f16:
        return to_float(read(f16()));
    }
    return 0;
  }
  void set(std::size_t i, std::size_t j, double value) {
    std::byte* p = data.data() + (i * ld + j) * size();
    const auto write = [p](auto v) { std::memcpy(p, &v, sizeof v); };
    switch (type) {
      case Storage::f64:
        return write(value);
      case Storage::f32:
        return write(static_cast<float>(value));
      case Storage::bf16:
        return write(to_bf16(static_cast<float>(value)));
      case Storage::f16:
        return write(to_f16(static_cast<float>(value)));
    }
  }
};

std::size_t pick(Random& random, std::size_t low, std::size_t high) {
  return std::uniform_int_distribution<std::size_t>(low, high)(random);
}

Matrix make(Random& random, std::size_t rows, std::size_t columns, std::size_t ld, Storage type) {
  Matrix x{rows, columns, ld, type, {}};
  // Not a byte more than the last row needs, so that asan sees a read past it.
  x.data.resize(rows == 0 || columns == 0 ? 0 : ((rows - 1) * ld + columns) * x.size());
  std::uniform_real_distribution<double> value(-1, 1);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) x.set(i, j, value(random));
  }
  return x;
}

struct Case {
  std::size_t m, n, k;
  bool a_t = false, b_t = false, accumulate = false;
  Storage a_type = Storage::f32, b_type = Storage::f32, c_type = Storage::f32;
  std::size_t slack = 0;  // added to each leading dimension
};

Gemm gemm_of(const Case& s, const Matrix& a, const Matrix& b, Matrix& c) {
  return {.m = s.m,
          .n = s.n,
          .k = s.k,
          .a = {a.data.data(), a.type, a.ld, s.a_t},
          .b = {b.data.data(), b.type, b.ld, s.b_t},
          .c = c.data.data(),
          .ldc = c.ld,
          .c_type = c.type,
          .accumulate = s.accumulate};
}

struct Problem {
  Case shape;
  Matrix a, b, c;
  Problem(Random& random, const Case& s) : shape(s) {
    a = s.a_t ? make(random, s.k, s.m, s.m + s.slack, s.a_type)
              : make(random, s.m, s.k, s.k + s.slack, s.a_type);
    b = s.b_t ? make(random, s.n, s.k, s.k + s.slack, s.b_type)
              : make(random, s.k, s.n, s.n + s.slack, s.b_type);
    c = make(random, s.m, s.n, s.n + s.slack, s.c_type);
  }
  double a_at(std::size_t i, std::size_t k) const { return shape.a_t ? a.at(k, i) : a.at(i, k); }
  double b_at(std::size_t k, std::size_t j) const { return shape.b_t ? b.at(j, k) : b.at(k, j); }
  Gemm gemm() { return gemm_of(shape, a, b, c); }
};

void run(const Gemm& g) {
  Bytes scratch(gemm_scratch(g));
  gemm(g, scratch.span());
  EXPECT_TRUE(scratch.guard_intact());
}

// One chain of FMAs in the type of C: what the product must be, to the bit.
double chain(const Problem& p, std::size_t i, std::size_t j) {
  if (p.shape.c_type == Storage::f64) {
    double sum = p.shape.accumulate ? p.c.at(i, j) : 0.0;
    for (std::size_t k = 0; k < p.shape.k; ++k) sum = std::fma(p.a_at(i, k), p.b_at(k, j), sum);
    return sum;
  }
  float sum = p.shape.accumulate ? static_cast<float>(p.c.at(i, j)) : 0.0f;
  for (std::size_t k = 0; k < p.shape.k; ++k) {
    sum = std::fma(static_cast<float>(p.a_at(i, k)), static_cast<float>(p.b_at(k, j)), sum);
  }
  return sum;
}

// The sum in long double, and the sum of magnitudes that bounds its rounding.
double exact(const Problem& p, std::size_t i, std::size_t j, double& magnitude) {
  long double sum = p.shape.accumulate ? p.c.at(i, j) : 0.0;
  magnitude = std::abs(static_cast<double>(sum));
  for (std::size_t k = 0; k < p.shape.k; ++k) {
    const double term = p.a_at(i, k) * p.b_at(k, j);
    sum += term;
    magnitude += std::abs(term);
  }
  return static_cast<double>(sum);
}

bool best_has_fma() {
  const std::int64_t all = hwy::SupportedTargets();
  return has_fma(all & -all);
}

std::string text(const Case& s) {
  const auto name = [](Storage t) {
    constexpr const char* kNames[] = {"f32", "f64", "bf16", "f16"};
    return std::string(kNames[static_cast<int>(t)]);
  };
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " " +
         (s.a_t ? "T" : "N") + (s.b_t ? "T" : "N") + (s.accumulate ? " accumulate " : " ") +
         name(s.a_type) + " " + name(s.b_type) + " " + name(s.c_type) + " slack " +
         std::to_string(s.slack);
}

void check(Random& random, const Case& shape, bool bits) {
  SCOPED_TRACE(text(shape));
  Problem p(random, shape);
  const Problem before = p;
  run(p.gemm());
  const double epsilon = shape.c_type == Storage::f64 ? 0x1p-53 : 0x1p-24;
  int shown = 0;
  for (std::size_t i = 0; i < shape.m && shown < 3; ++i) {
    for (std::size_t j = 0; j < shape.n && shown < 3; ++j) {
      double magnitude = 0;
      const double expected = exact(before, i, j, magnitude), got = p.c.at(i, j);
      const double bound = 2 * epsilon * static_cast<double>(shape.k + 1) * magnitude;
      if (!(std::abs(got - expected) <= bound)) {
        ADD_FAILURE() << "at " << i << ", " << j << ": " << got << ", not " << expected;
        ++shown;
      } else if (bits && got != chain(before, i, j)) {
        ADD_FAILURE() << "bits at " << i << ", " << j << ": " << got << " is not the chain";
        ++shown;
      }
    }
  }
  // Nothing between the rows of C is touched.
  for (std::size_t i = 0; shape.n > 0 && i + 1 < shape.m; ++i) {
    for (std::size_t j = shape.n; j < p.c.ld; ++j) ASSERT_EQ(p.c.at(i, j), before.c.at(i, j));
  }
}

Case random_case(Random& random) {
  constexpr std::size_t kSizes[] = {0, 1, 2, 3, 5, 6, 7, 8, 11, 13, 16, 17, 31, 32, 33, 50, 64, 67};
  const auto size = [&](std::size_t most) {
    return pick(random, 0, 2) == 0 ? pick(random, 1, most)
                                   : kSizes[pick(random, 0, std::size(kSizes) - 1)];
  };
  Case s{size(250), size(250), size(600)};
  s.a_t = pick(random, 0, 1) != 0;
  s.b_t = pick(random, 0, 1) != 0;
  s.accumulate = pick(random, 0, 1) != 0;
  s.slack = pick(random, 0, 1) == 0 ? 0 : pick(random, 1, 9);
  if (pick(random, 0, 3) == 0) {
    s.a_type = s.b_type = s.c_type = Storage::f64;
  } else {
    constexpr Storage kInputs[] = {Storage::f32, Storage::f32, Storage::bf16, Storage::f16};
    s.a_type = kInputs[pick(random, 0, 3)];
    s.b_type = kInputs[pick(random, 0, 3)];
  }
  return s;
}

TEST(Gemm, RandomShapesOnEveryTarget) {
  const Threads threads(2);
  for_each_target([](std::int64_t target) {
    for (std::uint64_t seed = seed_of(1), end = seed + 150; seed < end; ++seed) {
      Random random(seed);
      SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
      check(random, random_case(random), has_fma(target));
      if (testing::Test::HasFailure()) return;
    }
  });
}

using Sizes = std::array<std::size_t, 3>;  // m, n, k

// One row, one column, few rows, one block, several blocks, deep, wide, groups of panels, along the
// rows of C.
constexpr Sizes kEveryPlan[] = {{1, 300, 270},  {2, 65, 300},    {300, 1, 270},   {12, 700, 100},
                                {13, 700, 100}, {100, 333, 600}, {400, 130, 300}, {161, 97, 1100},
                                {7, 5, 3000},   {1000, 9, 260},  {5, 6000, 40},   {57, 777, 900},
                                {1100, 501, 30}};

TEST(Gemm, ShapesOfEveryPlan) {
  const Threads threads(2);
  const bool bits = best_has_fma();
  Random random(7);
  for (const bool a_t : {false, true}) {
    for (const bool b_t : {false, true}) {
      for (const auto& [m, n, k] : kEveryPlan) {
        check(random, {m, n, k, a_t, b_t, false}, bits);
        check(random, {m, n, k, a_t, b_t, true, Storage::f32, Storage::f32, Storage::f32, 3}, bits);
        check(random, {m, n, k, a_t, b_t, true, Storage::bf16, Storage::f16, Storage::f32, 1},
              bits);
      }
    }
  }
}

TEST(Gemm, PartsOfC) {  // more rows and columns than are worked on at a time
  const Threads threads(2);
  Random random(8);
  for (const Storage type : {Storage::f32, Storage::f64}) {
    // more rows than columns: tasks are rows; fewer: columns
    for (const auto& [m, n] : {std::array<std::size_t, 2>{2200, 2150}, {2150, 2200}}) {
      Problem p(random, {m, n, 261, true, true, false, type, type, type});
      run(p.gemm());
      for (int i = 0; i < 10000; ++i) {
        const std::size_t row = pick(random, 0, m - 1), column = pick(random, 0, n - 1);
        const double got = p.c.at(row, column), expected = chain(p, row, column);
        ASSERT_TRUE(!best_has_fma() || got == expected) << row << ", " << column;
        ASSERT_NEAR(got, expected, 1e-4) << row << ", " << column;
      }
    }
  }
}

TEST(Gemm, AnySplitOfKGivesTheSameBits) {
  for (std::uint64_t seed = seed_of(100), end = seed + 30; seed < end; ++seed) {
    SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    Case shape = random_case(random);
    shape.k = pick(random, 2, 900);
    Problem whole(random, shape);
    Problem parts = whole;
    run(whole.gemm());
    Gemm g = parts.gemm();
    for (std::size_t k = 0; k < shape.k;) {
      Gemm part = g;
      part.k = pick(random, 1, shape.k - k);
      part.accumulate = shape.accumulate || k > 0;
      part.a.data = parts.a.data.data() + k * (shape.a_t ? g.a.ld : 1) * parts.a.size();
      part.b.data = parts.b.data.data() + k * (shape.b_t ? 1 : g.b.ld) * parts.b.size();
      run(part);
      k += part.k;
    }
    ASSERT_EQ(whole.c.data, parts.c.data);
  }
}

TEST(Gemm, ThreadsGiveTheSameBits) {
  Random random(200);
  const Sizes shapes[] = {{333, 277, 355}, {1024, 70, 45}, {333, 700, 900}, {32, 1024, 784},
                          {1, 2000, 700},  {900, 20, 500}, {9, 901, 400},   {400, 300, 3000}};
  for (const auto& [m, n, k] : shapes) {
    for (const bool b_t : {false, true}) {
      const Problem start(random, {m, n, k, !b_t, b_t, true});
      Problem first = start;
      {
        const Threads one(1);
        run(first.gemm());
      }
      for (const int count : {2, 3}) {
        const Threads several(count);
        Problem p = start;
        run(p.gemm());
        ASSERT_EQ(p.c.data, first.c.data) << m << "x" << n << "x" << k << " on " << count;
      }
    }
  }
}

TEST(Gemm, TargetsWithFmaGiveTheSameBits) {
  const Threads threads(2);
  Random random(300);
  const Problem start(random, {123, 211, 301, false, true, true});
  std::vector<std::byte> first;
  for_each_target([&](std::int64_t target) {
    if (!has_fma(target)) return;
    Problem p = start;
    run(p.gemm());
    if (first.empty()) first = p.c.data;
    EXPECT_EQ(p.c.data, first);
  });
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return 0;
}

TEST(Gemm, BiasAndActivation) {
  const Threads threads(2);
  Random random(400);
  for (const Storage type : {Storage::f32, Storage::f64}) {
    for (int a = 0; a <= static_cast<int>(Activation::silu); ++a) {
      for (const auto& [m, n, k] : std::vector<std::array<std::size_t, 3>>{
               {1, 19, 300}, {40, 1, 33}, {37, 61, 0}, {200, 35, 300}, {13, 700, 80}}) {
        const Case shape{m, n, k, false, true, k % 2 == 1, type, type, type, 2};
        SCOPED_TRACE(text(shape) + " activation " + std::to_string(a));
        Problem plain(random, shape);
        if (n == 1) plain.c = make(random, m, 1, 1, type);
        Problem fused = plain;
        Matrix bias = make(random, 1, n, n, type), pre = plain.c;
        run(plain.gemm());
        Gemm g = fused.gemm();
        g.bias = bias.data.data();
        g.activation = static_cast<Activation>(a);
        g.pre = pre.data.data();
        run(g);
        const double tolerance = type == Storage::f64 ? 1e-13 : 1e-5;
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            const double sum = type == Storage::f64 ? plain.c.at(i, j) + bias.at(0, j)
                                                    : static_cast<float>(plain.c.at(i, j)) +
                                                          static_cast<float>(bias.at(0, j));
            ASSERT_EQ(pre.at(i, j), sum) << i << ", " << j;
            const double expected = activate(g.activation, sum);
            ASSERT_NEAR(fused.c.at(i, j), expected, tolerance * (1 + std::abs(expected)));
          }
        }
        // The activation of one value does not depend on where it stands: the same sums, as the
        // start of a product over no k, in rows of another length.
        std::vector<std::byte> again = pre.data;
        if (n > 1) {
          Gemm apart = g;
          apart.bias = apart.pre = nullptr;
          apart.c = again.data();
          apart.k = 0;
          apart.accumulate = true;
          apart.n = n - 1;
          run(apart);
          const std::size_t bytes = (n - 1) * pre.size();
          for (std::size_t i = 0; i < m; ++i) {
            const std::size_t row = i * pre.ld * pre.size();
            ASSERT_EQ(std::memcmp(again.data() + row, fused.c.data.data() + row, bytes), 0);
          }
        }
      }
    }
  }
}

TEST(Gemm, Batches) {
  const Threads threads(2);
  for (std::uint64_t seed = seed_of(500), end = seed + 40; seed < end; ++seed) {
    SCOPED_TRACE("EBB_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    Case shape = random_case(random);
    shape.m = std::min<std::size_t>(shape.m, 70);
    const std::size_t count = pick(random, 0, 9);
    const bool share_a = pick(random, 0, 2) == 0, share_b = pick(random, 0, 2) == 0;
    SCOPED_TRACE(text(shape) + " count " + std::to_string(count));
    // One tall matrix of `count` blocks for each operand.
    const auto blocks = [&](std::size_t rows, std::size_t columns, Storage type) {
      return make(random, rows * std::max<std::size_t>(count, 1), columns, columns + shape.slack,
                  type);
    };
    Matrix a =
        shape.a_t ? blocks(shape.k, shape.m, shape.a_type) : blocks(shape.m, shape.k, shape.a_type);
    Matrix b =
        shape.b_t ? blocks(shape.n, shape.k, shape.b_type) : blocks(shape.k, shape.n, shape.b_type);
    Matrix c = blocks(shape.m, shape.n, shape.c_type), one_by_one = c;
    GemmBatch batch;
    batch.first = gemm_of(shape, a, b, c);
    batch.count = count;
    batch.a_stride = share_a ? 0 : (shape.a_t ? shape.k : shape.m) * a.ld;
    batch.b_stride = share_b ? 0 : (shape.b_t ? shape.n : shape.k) * b.ld;
    batch.c_stride = shape.m * c.ld;
    for (std::size_t i = 0; i < count; ++i) {
      Gemm g = batch.first;
      g.a.data = a.data.data() + i * batch.a_stride * a.size();
      g.b.data = b.data.data() + i * batch.b_stride * b.size();
      g.c = one_by_one.data.data() + i * batch.c_stride * c.size();
      run(g);
    }
    Bytes scratch(gemm_scratch(batch));
    gemm(batch, scratch.span());
    ASSERT_TRUE(scratch.guard_intact());
    ASSERT_EQ(c.data, one_by_one.data);
  }
}

TEST(Gemm, ScratchIsModest) {
  const Threads threads(2);
  for (const auto& [m, n, k] : std::vector<std::array<std::size_t, 3>>{{2048, 2048, 2048},
                                                                       {1024, 50304, 768},
                                                                       {1024, 768, 50304},
                                                                       {50304, 768, 1024},
                                                                       {64, 100000, 100000},
                                                                       {100000, 100000, 64}}) {
    for (const Storage type : {Storage::f32, Storage::f64}) {
      Gemm g{.m = m, .n = n, .k = k, .a = {nullptr, type, 0, true}, .b = {nullptr, type, 0, true}};
      g.c_type = type;
      EXPECT_LE(gemm_scratch(g), std::size_t{9} << 19) << m << "x" << n << "x" << k;
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
