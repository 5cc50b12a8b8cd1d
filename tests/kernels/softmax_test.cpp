#include "ebb/kernels/softmax.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class SoftmaxOf : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxOf, Floats);

Ld log_sum_exp(const auto* x, std::size_t n) {
  Ld max = x[0], sum = 0;
  for (std::size_t i = 0; i < n; ++i) max = std::max<Ld>(max, x[i]);
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  return max + std::log(sum);
}

TYPED_TEST(SoftmaxOf, Values) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const std::size_t n : kLengths) {
      const std::size_t rows = 3;
      const auto x = random_values<T>(rows * n, n, -20, 20);
      Values<T> y(rows * n), l(rows * n);
      softmax(x.data(), y.data(), rows, n);
      log_softmax(x.data(), l.data(), rows, n);
      for (std::size_t i = 0; i < rows * n; ++i) {
        const Ld lse = log_sum_exp(x.data() + i / n * n, n);
        expect_near(y[i], std::exp(x[i] - lse), 0.01, "softmax", i);
        expect_near(l[i], x[i] - lse, 4, "log_softmax", i);
      }
    }
  });
}

TYPED_TEST(SoftmaxOf, Gradients) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const std::size_t n : kLengths) {
      const std::size_t rows = 3;
      const auto x = random_values<T>(rows * n, n, -4, 4), dy = random_values<T>(rows * n, n + 1);
      Values<T> y(rows * n), l(rows * n), dx(rows * n), dl(rows * n);
      softmax(x.data(), y.data(), rows, n);
      log_softmax(x.data(), l.data(), rows, n);
      softmax_backward(y.data(), dy.data(), dx.data(), rows, n);
      log_softmax_backward(l.data(), dy.data(), dl.data(), rows, n);
      for (std::size_t row = 0; row < rows; ++row) {
        Ld dot = 0, sum = 0;
        for (std::size_t i = row * n; i < row * n + n; ++i) {
          dot += Ld(y[i]) * dy[i];
          sum += dy[i];
        }
        for (std::size_t i = row * n; i < row * n + n; ++i) {
          expect_near(dx[i], y[i] * (dy[i] - dot), 1, "softmax dx", i);
          expect_near(dl[i], dy[i] - std::exp(Ld(l[i])) * sum, 8, "log_softmax dx", i);
        }
      }
    }
  });
}

TYPED_TEST(SoftmaxOf, ExtremeRows) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), huge = std::numeric_limits<T>::max();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto both = [](Values<T> x) {
    Values<T> y(x.size()), l(x.size());
    softmax(x.data(), y.data(), 1, x.size());
    log_softmax(x.data(), l.data(), 1, x.size());
    return std::pair(y, l);
  };
  for_each_target([&](std::int64_t) {
    auto [y, l] = both({-inf, 0, -inf, 0});
    EXPECT_EQ(y, (Values<T>{0, T(0.5), 0, T(0.5)}));
    EXPECT_EQ(l[0], -inf);
    EXPECT_NEAR(l[1], std::log(0.5), 1e-6);
    std::tie(y, l) = both({huge, -huge, 0});
    EXPECT_EQ(y, (Values<T>{1, 0, 0}));
    EXPECT_EQ(l[0], 0);
    std::tie(y, l) = both({-inf});
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(l[0]));
    for (const T bad : {nan, inf}) {
      for (const std::size_t n : {3, 16, 40}) {
        for (std::size_t at = 0; at < n; ++at) {
          Values<T> x(n, T(1));
          x[at] = bad;
          std::tie(y, l) = both(x);
          for (std::size_t i = 0; i < n; ++i) {
            if (std::isinf(bad) && i != at) continue;  // e^-inf is 0 beside it
            EXPECT_TRUE(std::isnan(y[i]) && std::isnan(l[i])) << bad << " at " << at << ", " << i;
          }
        }
      }
    }
  });
}

TYPED_TEST(SoftmaxOf, NothingToDo) {
  TypeParam none = 7;
  softmax(&none, &none, 0, 5);
  softmax(&none, &none, 5, 0);
  log_softmax_backward(&none, &none, &none, 5, 0);
  EXPECT_EQ(none, 7);
}

// Large enough to be written past the caches; with long and short rows, whole vectors and not.
TYPED_TEST(SoftmaxOf, OneResultHoweverItRuns) {
  using T = TypeParam;
  for (const std::size_t n : {17, 64, 1024, 8192}) {
    SCOPED_TRACE(n);
    const std::size_t rows = (std::size_t{9} << 20) / sizeof(T) / n / (n == 1024 ? 1 : 4) + 1;
    const auto x = random_values<T>(rows * n, n, -9, 9), dy = random_values<T>(rows * n, n + 1);
    for (const bool log : {false, true}) {
      const auto run = [&] {
        Values<T> y(rows * n), dx(rows * n);
        (log ? log_softmax<T> : softmax<T>)(x.data(), y.data(), rows, n);
        (log ? log_softmax_backward<T> : softmax_backward<T>)(y.data(), dy.data(), dx.data(), rows,
                                                              n);
        y.insert(y.end(), dx.begin(), dx.end());
        return y;
      };
      expect_one_result(run);
      const auto whole = run();
      // A row alone, and in place.
      const std::size_t row = rows / 2;
      Values<T> one(x.begin() + row * n, x.begin() + row * n + n);
      (log ? log_softmax<T> : softmax<T>)(one.data(), one.data(), 1, n);
      EXPECT_TRUE(same_bits(one, Values<T>(whole.begin() + row * n, whole.begin() + row * n + n)));
    }
  }
}

}  // namespace
}  // namespace ebb::kernels::rows_test
