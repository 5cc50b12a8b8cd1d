#include "ebb/kernels/batch_norm.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class BatchNormOf : public ::testing::Test {};
TYPED_TEST_SUITE(BatchNormOf, Floats);

template <class T>
struct Problem {
  std::size_t rows, channels;
  Values<T> x, weight, bias, dy;
  Values<T> mean, var, y, dx, dweight, dbias;

  Problem(std::size_t r, std::size_t c, double low = -2, double high = 3)
      : rows(r),
        channels(c),
        x(random_values<T>(r * c, 1, low, high)),
        weight(random_values<T>(c, 2)),
        bias(random_values<T>(c, 3)),
        dy(random_values<T>(r * c, 4)),
        mean(c),
        var(c),
        y(r * c),
        dx(r * c),
        dweight(c),
        dbias(c) {}

  Values<T> run() {
    Bytes scratch(batch_norm_scratch<T>(rows, channels));
    batch_norm_stats(x.data(), mean.data(), var.data(), rows, channels, std::span(scratch));
    batch_norm_apply(x.data(), mean.data(), var.data(), weight.data(), bias.data(), y.data(), rows,
                     channels, kEps);
    batch_norm_backward(x.data(), mean.data(), var.data(), weight.data(), dy.data(), dx.data(),
                        dweight.data(), dbias.data(), rows, channels, kEps, std::span(scratch));
    Values<T> all;
    for (const auto* v : {&mean, &var, &y, &dx, &dweight, &dbias}) {
      all.insert(all.end(), v->begin(), v->end());
    }
    return all;
  }
};

template <class T>
void check_values(std::size_t rows, std::size_t channels) {
  SCOPED_TRACE(::testing::Message() << rows << "x" << channels);
  Problem<T> p(rows, channels);
  p.run();
  const double scale = rows <= 3 ? 1000 : 30 + std::sqrt(static_cast<double>(rows));
  for (std::size_t c = 0; c < channels; ++c) {
    Ld mean = 0, var = 0, level = 0, along = 0;
    for (std::size_t r = 0; r < rows; ++r) mean += p.x[r * channels + c];
    mean /= rows;
    for (std::size_t r = 0; r < rows; ++r) {
      const Ld away = p.x[r * channels + c] - mean;
      var += away * away;
    }
    var /= rows;
    const Ld rstd = 1 / std::sqrt(var + kEps);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t i = r * channels + c;
      level += p.dy[i];
      along += p.dy[i] * (p.x[i] - mean) * rstd;
    }
    expect_near(p.mean[c], mean, 1, "mean", c);
    expect_near(p.var[c], var, 1, "var", c);
    expect_near(p.dbias[c], level, scale, "dbias", c);
    expect_near(p.dweight[c], along, scale, "dweight", c);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t i = r * channels + c;
      const Ld xh = (p.x[i] - mean) * rstd;
      expect_near(p.y[i], xh * p.weight[c] + p.bias[c], rows <= 3 ? 300 : 8, "y", i);
      expect_near(p.dx[i], p.weight[c] * rstd * (p.dy[i] - level / rows - xh * along / rows), scale,
                  "dx", i);
    }
  }
}

TYPED_TEST(BatchNormOf, Values) {
  for_each_target([](std::int64_t) {
    for (const std::size_t channels : {1, 3, 16, 100, 255, 256, 257, 600, 1100}) {
      for (const std::size_t rows : {1, 2, 9, 130}) check_values<TypeParam>(rows, channels);
    }
    // Whole blocks of folded rows, one less, one more; and a part of a row beyond them.
    for (const std::size_t rows : {16383, 16384, 16385, 32768 + 1, 20000}) {
      check_values<TypeParam>(rows, 8);
    }
    check_values<TypeParam>(128 * 1024, 1);
  });
}

TYPED_TEST(BatchNormOf, AFarMeanLosesNothingButItsOwnRounding) {
  Problem<TypeParam> p(3000, 5, 1000, 1001);
  p.run();
  for (std::size_t c = 0; c < p.channels; ++c) {
    Ld mean = 0, var = 0;
    for (std::size_t r = 0; r < p.rows; ++r) mean += p.x[r * p.channels + c];
    mean /= p.rows;
    for (std::size_t r = 0; r < p.rows; ++r) {
      var += (p.x[r * p.channels + c] - mean) * (p.x[r * p.channels + c] - mean);
    }
    EXPECT_NEAR(p.var[c], static_cast<double>(var / p.rows), sizeof(TypeParam) == 4 ? 1e-5 : 1e-12);
  }
}

TYPED_TEST(BatchNormOf, OneResultHoweverItRuns) {
  using T = TypeParam;
  const std::size_t big = (std::size_t{9} << 20) / sizeof(T);
  for (const std::size_t channels : {3, 64, 1000}) {
    Problem<T> p((channels == 64 ? big : big / 8) / channels, channels);
    expect_one_result([&] { return p.run(); });
  }
}

TYPED_TEST(BatchNormOf, NothingToDo) {
  Problem<TypeParam> no_channels(4, 0);
  EXPECT_EQ(no_channels.run().size(), 0u);
  Problem<TypeParam> no_rows(0, 2);
  no_rows.run();
  EXPECT_EQ(no_rows.dbias[0], 0);
  EXPECT_EQ(no_rows.dweight[1] == 0 || std::isnan(no_rows.dweight[1]), true);
}

}  // namespace
}  // namespace ebb::kernels::rows_test
