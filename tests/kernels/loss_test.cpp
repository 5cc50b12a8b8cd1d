#include "ebb/kernels/loss.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class LossOf : public ::testing::Test {};
TYPED_TEST_SUITE(LossOf, Floats);

constexpr std::int64_t kIgnore = -100;

template <class T>
Ld log_sum_exp(const T* x, std::size_t n) {
  Ld max = x[0], sum = 0;
  for (std::size_t i = 0; i < n; ++i) max = std::max<Ld>(max, x[i]);
  for (std::size_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  return max + std::log(sum);
}

template <class T, class Label>
struct Sparse {
  std::size_t rows, classes;
  SparseTargets targets;
  Values<T> logits;
  std::vector<Label> labels;

  Sparse(std::size_t r, std::size_t c, double smoothing)
      : rows(r),
        classes(c),
        targets{kIgnore, smoothing},
        logits(random_values<T>(r * c, c, -6, 6)),
        labels(r) {
    for (std::size_t i = 0; i < r; ++i) {
      labels[i] = static_cast<Label>(i % 5 == 3 ? kIgnore : static_cast<std::int64_t>(i * 7 % c));
    }
  }

  // The sum, from 0.25 on, in parts that end at the given rows; then the gradient.
  Values<T> run(std::vector<std::size_t> ends, std::int64_t* count = nullptr) const {
    std::int64_t own_count = 0;
    if (count == nullptr) count = &own_count;
    Values<T> out(1 + rows * classes);
    out[0] = T(0.25);
    Bytes scratch(loss_scratch<T>(rows));
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      sparse_cross_entropy(logits.data() + begin * classes, labels.data() + begin, end - begin,
                           classes, targets, &out[0], count, std::span(scratch));
      begin = end;
    }
    sparse_cross_entropy_backward(logits.data(), labels.data(), rows, classes, targets, T(1.5),
                                  out.data() + 1);
    return out;
  }
};

template <class T, class Label>
void check_sparse(std::size_t rows, std::size_t classes, double smoothing) {
  SCOPED_TRACE(::testing::Message() << rows << "x" << classes << " smoothing " << smoothing);
  const Sparse<T, Label> p(rows, classes, smoothing);
  std::int64_t count = 1000;
  const auto out = p.run({rows}, &count);
  Ld sum = 0.25;
  std::int64_t want_count = 1000;
  for (std::size_t row = 0; row < rows; ++row) {
    const T* x = p.logits.data() + row * classes;
    const Ld lse = log_sum_exp(x, classes);
    const bool ignored = p.labels[row] == kIgnore;
    want_count += !ignored;
    for (std::size_t i = 0; i < classes; ++i) {
      const bool hit = !ignored && i == static_cast<std::size_t>(p.labels[row]);
      const Ld target = smoothing / classes + (hit ? 1 - smoothing : 0);
      if (!ignored) sum += target * (lse - x[i]);
      const Ld want = ignored ? Ld(0) : 1.5L * (std::exp(x[i] - lse) - target);
      expect_near(out[1 + row * classes + i], want, 1, "dlogits", row * classes + i);
    }
  }
  EXPECT_EQ(count, want_count);
  expect_near(out[0], sum, 1, "sum", 0);
}

TYPED_TEST(LossOf, SparseCrossEntropy) {
  for_each_target([](std::int64_t) {
    for (const std::size_t classes : kLengths) {
      for (const double smoothing : {0.0, 0.1}) {
        check_sparse<TypeParam, std::int32_t>(9, classes, smoothing);
        check_sparse<TypeParam, std::int64_t>(4, classes, smoothing);
      }
    }
  });
}

TYPED_TEST(LossOf, SparseCutAnywhereAndOneResult) {
  const Sparse<TypeParam, std::int32_t> p(700, 100, 0.1);
  expect_one_result([&] { return p.run({p.rows}); });
  const auto whole = p.run({p.rows});
  for (const std::size_t cut : {1, 3, 4, 350, 699}) {
    EXPECT_TRUE(same_bits(whole, p.run({cut, p.rows}))) << cut;
  }
  EXPECT_TRUE(same_bits(whole, p.run({5, 100, 101, 600, p.rows})));
}

TEST(Loss, BadLabelsAreFound) {
  const std::int32_t labels[] = {0, 4, -100, 5, -1};
  EXPECT_EQ(first_bad_label(labels, 3, 5, -100), kLabelsInRange);
  EXPECT_EQ(first_bad_label(labels, 5, 5, -100), 3);
  EXPECT_EQ(first_bad_label(labels, 5, 6, -100), 4);
  EXPECT_EQ(first_bad_label(labels, 5, 6, -1), 2);
  EXPECT_EQ(first_bad_label(labels, 5, 0, -100), 0);
  const std::int64_t far[] = {1, std::int64_t{1} << 32};  // 0 in 32 bits
  EXPECT_EQ(first_bad_label(far, 2, 5, -100), 1);
  EXPECT_EQ(first_bad_label(far, 0, 5, -100), kLabelsInRange);
}

TYPED_TEST(LossOf, ExtremeLogits) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  const Values<T> x = {1000, -1000, 0, -inf, 0, 0};
  const std::int32_t labels[] = {0, 1};
  T sum = 0;
  std::int64_t count = 0;
  Bytes scratch(loss_scratch<T>(2));
  sparse_cross_entropy(x.data(), labels, 2, 3, {}, &sum, &count, std::span(scratch));
  expect_near(sum, std::log(2.0L), 1, "sum", 0);
  const Values<T> targets = {1, 0, 0, 0, T(0.5), T(0.5)};
  sum = 0;
  cross_entropy(x.data(), targets.data(), 2, 3, &sum, std::span(scratch));
  expect_near(sum, std::log(2.0L), 1, "sum", 0);  // the -inf logit has target 0
}

TYPED_TEST(LossOf, CrossEntropy) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const std::size_t n : kLengths) {
      const std::size_t rows = 5;
      const auto x = random_values<T>(rows * n, n, -6, 6), t = random_values<T>(rows * n, 9, 0, 1);
      Values<T> dx(rows * n);
      T sum = T(0.5);
      Bytes scratch(loss_scratch<T>(rows));
      cross_entropy(x.data(), t.data(), rows, n, &sum, std::span(scratch));
      cross_entropy_backward(x.data(), t.data(), rows, n, T(2), dx.data());
      Ld want = 0.5;
      for (std::size_t row = 0; row < rows; ++row) {
        const Ld lse = log_sum_exp(x.data() + row * n, n);
        Ld mass = 0;
        for (std::size_t i = row * n; i < row * n + n; ++i) {
          want += t[i] * (lse - x[i]);
          mass += t[i];
        }
        for (std::size_t i = row * n; i < row * n + n; ++i) {
          expect_near(dx[i], 2 * (std::exp(x[i] - lse) * mass - t[i]), 8, "dlogits", i);
        }
      }
      expect_near(sum, want, 1, "sum", 0);
    }
  });
}

struct Definition {
  ElementLoss loss;
  Ld (*value)(Ld x, Ld t);
  Ld (*slope)(Ld x, Ld t);
};
const Definition kDefinitions[] = {
    {{PairLoss::binary_cross_entropy},
     [](Ld x, Ld t) { return std::max<Ld>(x, 0) - x * t + std::log1p(std::exp(-std::fabs(x))); },
     [](Ld x, Ld t) { return 1 / (1 + std::exp(-x)) - t; }},
    {{PairLoss::squared},
     [](Ld x, Ld t) { return (x - t) * (x - t); },
     [](Ld x, Ld t) { return 2 * (x - t); }},
    {{PairLoss::absolute},
     [](Ld x, Ld t) { return std::fabs(x - t); },
     [](Ld x, Ld t) { return Ld((x > t) - (x < t)); }},
    {{PairLoss::huber, 0.75},
     [](Ld x, Ld t) {
       const Ld a = std::fabs(x - t);
       return a <= 0.75L ? a * a / 2 : 0.75L * (a - 0.375L);
     },
     [](Ld x, Ld t) { return std::min<Ld>(std::max<Ld>(x - t, -0.75L), 0.75L); }},
};

template <class T>
Values<T> run_element(const ElementLoss& loss, const Values<T>& x, const Values<T>& t,
                      std::size_t rows, std::size_t n, const std::vector<std::size_t>& ends) {
  Values<T> out(1 + x.size());
  Bytes scratch(loss_scratch<T>(rows));
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    element_loss(loss, x.data() + begin * n, t.data() + begin * n, end - begin, n, &out[0],
                 std::span(scratch));
    begin = end;
  }
  element_loss_backward(loss, x.data(), t.data(), x.size(), T(-3), out.data() + 1);
  return out;
}

TYPED_TEST(LossOf, ElementLosses) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const auto& definition : kDefinitions) {
      for (const std::size_t n : kLengths) {
        const std::size_t rows = 7;
        auto x = random_values<T>(rows * n, n, -30, 30), t = random_values<T>(rows * n, 5, 0, 1);
        for (std::size_t i = 0; i < x.size(); i += 3) x[i] = t[i] + x[i] / 40;
        x.back() = t.back();
        const auto out = run_element(definition.loss, x, t, rows, n, {rows});
        Ld want = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          want += definition.value(x[i], t[i]);
          expect_near(out[1 + i], -3 * definition.slope(x[i], t[i]), 1, "dx", i);
        }
        expect_near(out[0], want, 1, "sum", static_cast<std::size_t>(definition.loss.kind));
      }
    }
  });
}

TYPED_TEST(LossOf, ElementLossesCutAnywhereAndOneResult) {
  using T = TypeParam;
  for (const auto& definition : kDefinitions) {
    for (const std::size_t n : {1, 13, 100}) {
      const std::size_t rows = 100000 / n;
      const auto x = random_values<T>(rows * n, n), t = random_values<T>(rows * n, 5, 0, 1);
      const auto run = [&] { return run_element(definition.loss, x, t, rows, n, {rows}); };
      expect_one_result(run);
      const auto whole = run();
      EXPECT_TRUE(same_bits(whole, run_element(definition.loss, x, t, rows, n, {1, 77, rows})));
      EXPECT_TRUE(same_bits(whole, run_element(definition.loss, x, t, rows, n, {rows / 2, rows})));
    }
  }
}

TYPED_TEST(LossOf, SureAnswersCostLittleNotNothing) {
  using T = TypeParam;
  const Values<T> x = {20, -20, 200}, t = {1, 0, 1};
  T sum = 0;
  Bytes scratch(loss_scratch<T>(3));
  element_loss({PairLoss::binary_cross_entropy}, x.data(), t.data(), 3, 1, &sum,
               std::span(scratch));
  EXPECT_NEAR(sum, 2 * std::exp(-20.0), 1e-14);
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace ebb::kernels::rows_test
