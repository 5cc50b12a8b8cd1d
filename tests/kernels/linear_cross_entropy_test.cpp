#include "ebb/kernels/linear_cross_entropy.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class LinearLossOf : public ::testing::Test {};
TYPED_TEST_SUITE(LinearLossOf, Floats);

constexpr std::int64_t kIgnore = -100;

template <class T, class Label = std::int32_t>
struct Linear {
  LinearShape shape;
  SparseTargets targets;
  Values<T> x, weight;
  std::vector<Label> labels;

  Linear(std::size_t rows, std::size_t classes, std::size_t width, double smoothing)
      : shape{rows, classes, width, sizeof(T), true},
        targets{kIgnore, smoothing},
        x(random_values<T>(rows * width, classes, -1, 1)),
        weight(random_values<T>(classes * width, rows + 1, -1, 1)),
        labels(rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      labels[i] =
          static_cast<Label>(i % 5 == 3 ? kIgnore : static_cast<std::int64_t>(i * 7919 % classes));
    }
  }

  LinearShape part(std::size_t rows, bool backward) const {
    LinearShape s = shape;
    s.rows = rows;
    s.backward = backward;
    return s;
  }

  // sum, count, dweight, dx; rows in parts that end at the given ones, in so much scratch at most.
  Values<T> run(const std::vector<std::size_t>& ends, std::size_t most) const {
    Values<T> out(2 + x.size() + weight.size());
    T sum = T(0.25);
    std::int64_t count = 1000;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      const LinearShape s = part(end - begin, true);
      Bytes scratch(linear_scratch(s, linear_tiles(s, most)));
      linear_cross_entropy_backward<T, Label>(
          s, x.data() + begin * s.width, weight.data(), labels.data() + begin, targets,
          {T(1.5), out.data() + 2 + weight.size() + begin * s.width, out.data() + 2, begin == 0},
          &sum, &count, std::span(scratch));
      begin = end;
    }
    out[0] = sum;
    out[1] = static_cast<T>(count);
    return out;
  }

  Values<T> forward(std::size_t most) const {
    const LinearShape s = part(shape.rows, false);
    Bytes scratch(linear_scratch(s, linear_tiles(s, most)));
    T sum = T(0.25);
    std::int64_t count = 1000;
    linear_cross_entropy(s, x.data(), weight.data(), labels.data(), targets, &sum, &count,
                         std::span(scratch));
    return {sum, static_cast<T>(count)};
  }
};

template <class T, class Label>
void check_linear(std::size_t rows, std::size_t classes, std::size_t width, double smoothing) {
  SCOPED_TRACE(::testing::Message()
               << rows << "x" << classes << "x" << width << " smoothing " << smoothing);
  const Linear<T, Label> p(rows, classes, width, smoothing);
  const auto out = p.run({rows}, 1 << 30);
  std::vector<Ld> dw(classes * width), dx(rows * width), logits(classes);
  Ld sum = 0.25;
  std::int64_t count = 1000;
  for (std::size_t r = 0; r < rows; ++r) {
    if (p.labels[r] == kIgnore) continue;
    ++count;
    Ld total = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      logits[c] = 0;
      for (std::size_t i = 0; i < width; ++i)
        logits[c] += static_cast<Ld>(p.x[r * width + i]) * p.weight[c * width + i];
      total += std::exp(logits[c]);
    }
    for (std::size_t c = 0; c < classes; ++c) {
      const bool hit = c == static_cast<std::size_t>(p.labels[r]);
      const Ld target = static_cast<Ld>(smoothing) / classes + (hit ? 1 - smoothing : 0);
      sum += target * (std::log(total) - logits[c]);
      const Ld g = 1.5L * (std::exp(logits[c]) / total - target);
      for (std::size_t i = 0; i < width; ++i) {
        dx[r * width + i] += g * p.weight[c * width + i];
        dw[c * width + i] += g * p.x[r * width + i];
      }
    }
  }
  EXPECT_EQ(out[1], static_cast<T>(count));
  expect_near(out[0], sum, 1, "sum", 0);
  for (std::size_t i = 0; i < dw.size(); ++i) expect_near(out[2 + i], dw[i], 2, "dweight", i);
  for (std::size_t i = 0; i < dx.size(); ++i)
    expect_near(out[2 + dw.size() + i], dx[i], 2, "dx", i);
}

TYPED_TEST(LinearLossOf, IsTheLossOfTheProduct) {
  for_each_target([](std::int64_t) {
    for (const double smoothing : {0.0, 0.1}) {
      check_linear<TypeParam, std::int32_t>(9, 17, 5, smoothing);
      check_linear<TypeParam, std::int64_t>(4, 1, 3, smoothing);
      check_linear<TypeParam, std::int32_t>(1, 33, 1, smoothing);
      check_linear<TypeParam, std::int32_t>(6, 1100, 7, smoothing);  // three blocks
    }
  });
}

// dx and the loss without dweight, and dweight class by class after them: the bits of all at once.
TYPED_TEST(LinearLossOf, ClassesByThemselvesHaveTheBitsOfTheWhole) {
  using T = TypeParam;
  for (const double smoothing : {0.0, 0.1})
    for (const std::size_t rows : {1, 37, 1100}) {  // the last in two tiles of rows
      const Linear<T> p(rows, 1300, 24, smoothing);
      const LinearShape& s = p.shape;
      const auto whole = p.run({rows}, 1 << 30);
      Values<T> apart(whole.size()), sums(2 * rows);
      T sum = T(0.25);
      std::int64_t count = 1000;
      Bytes scratch(linear_scratch(s, linear_tiles(s, 1 << 20)));
      linear_cross_entropy_backward<T, std::int32_t>(
          s, p.x.data(), p.weight.data(), p.labels.data(), p.targets,
          {T(1.5), apart.data() + 2 + p.weight.size(), nullptr, true, sums.data()}, &sum, &count,
          std::span(scratch));
      apart[0] = sum;
      apart[1] = static_cast<T>(count);
      std::size_t first = 0;
      for (const std::size_t end : {1, 500, 513, 1300}) {
        LinearShape some = s;
        some.classes = end - first;
        Bytes more(linear_dweight_scratch(some));
        linear_cross_entropy_dweight<T, std::int32_t>(
            some, p.x.data(), p.weight.data() + first * s.width, p.labels.data(), p.targets,
            {T(1.5), sums.data(), apart.data() + 2 + first * s.width, true, first, s.classes},
            std::span(more));
        first = end;
      }
      EXPECT_TRUE(same_bits(whole, apart)) << rows << " rows, smoothing " << smoothing;
    }
}

// Whatever the scratch, the threads and the parts: the bits of all logits at once.
TYPED_TEST(LinearLossOf, TilesDoNotShow) {
  const Linear<TypeParam> p(150, 5000, 24, 0.1);
  const std::size_t all = std::size_t{1} << 30;
  ASSERT_TRUE(linear_tiles(p.shape, all).keep);
  ASSERT_EQ(linear_tiles(p.shape, all).rows, p.shape.rows);
  const auto whole = p.run({p.shape.rows}, all);
  std::vector<LinearTiles> seen;
  for (std::size_t most = all; most >= 4096; most = most / 3 * 2) {
    const LinearTiles tiles = linear_tiles(p.shape, most);
    if (!seen.empty() && tiles == seen.back()) continue;
    seen.push_back(tiles);
    EXPECT_TRUE(same_bits(whole, p.run({p.shape.rows}, most)))
        << tiles.rows << "x" << tiles.classes << (tiles.keep ? " kept" : "");
    EXPECT_TRUE(same_bits(Values<TypeParam>{whole[0], whole[1]}, p.forward(most))) << most;
  }
  EXPECT_GE(seen.size(), 5u);
  EXPECT_FALSE(seen.back().keep);
  for (const std::size_t most : {all, std::size_t{1} << 20}) {
    EXPECT_TRUE(same_bits(whole, p.run({1, 50, 51, p.shape.rows}, most))) << most;
    EXPECT_TRUE(same_bits(whole, p.run({75, p.shape.rows}, most))) << most;
  }
}

TYPED_TEST(LinearLossOf, OneResult) {
  const Linear<TypeParam> p(70, 1500, 20, 0);
  for (const std::size_t most : {std::size_t{1} << 30, std::size_t{1} << 17})
    expect_one_result([&] { return p.run({p.shape.rows}, most); });
}

TEST(LinearLoss, ScratchIsWithinWhatIsAllowed) {
  for (const std::size_t classes : {1000u, 50304u, 262144u, 1000000u}) {
    for (const std::size_t rows : {1u, 1024u, 16384u}) {
      const LinearShape s{rows, classes, 768, 4, true};
      for (const std::size_t mib : {8u, 16u, 64u}) {
        const LinearTiles t = linear_tiles(s, mib << 20);
        EXPECT_LE(linear_scratch(s, t), mib << 20) << rows << " " << classes;
        EXPECT_EQ(t, linear_tiles(s, linear_scratch(s, t))) << "not found again by its size";
      }
    }
  }
  EXPECT_TRUE(linear_tiles({1024, 262144, 768, 4, true}, 64 << 20).keep);
}

// A whole block of classes at -inf adds nothing; a NaN anywhere is not lost.
TYPED_TEST(LinearLossOf, ExtremeLogits) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  const LinearShape s{1, kLinearBlock + 3, 1, sizeof(T), true};
  for (const T odd : {-inf, std::numeric_limits<T>::quiet_NaN()}) {
    Values<T> weight(s.classes, T(0)), dx(1), dweight(s.classes), x = {1};
    std::fill(weight.begin() + kLinearBlock, weight.end(), -inf);
    weight.back() = odd;
    const std::int32_t label = 0;
    Bytes scratch(linear_scratch(s, linear_tiles(s, 1 << 20)));
    T sum = 0;
    std::int64_t count = 0;
    linear_cross_entropy<T>(s, x.data(), weight.data(), &label, {}, &sum, &count,
                            std::span(scratch));
    expect_near(sum, std::isnan(odd) ? Ld(odd) : std::log(Ld(kLinearBlock)), 1, "sum", 0);
  }
}

}  // namespace
}  // namespace ebb::kernels::rows_test
