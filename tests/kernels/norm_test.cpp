#include "ebb/kernels/norm.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class NormOf : public ::testing::Test {};
TYPED_TEST_SUITE(NormOf, Floats);

template <class T>
struct Problem {
  std::size_t rows, n;
  bool layer;
  Values<T> x, weight, bias, dy;

  Problem(std::size_t r, std::size_t c, bool l, double low = -2, double high = 3)
      : rows(r),
        n(c),
        layer(l),
        x(random_values<T>(r * c, 1, low, high)),
        weight(random_values<T>(c, 2)),
        bias(random_values<T>(c, 3)),
        dy(random_values<T>(r * c, 4)) {}

  Values<T> forward() const {
    Values<T> y(x.size());
    layer ? layer_norm(x.data(), weight.data(), bias.data(), y.data(), rows, n, kEps)
          : rms_norm(x.data(), weight.data(), y.data(), rows, n, kEps);
    return y;
  }

  // dx of rows [begin, end); dweight and dbias go on from what they are.
  void backward(std::size_t begin, std::size_t end, Values<T>& dx, Values<T>& dw,
                Values<T>& db) const {
    const std::size_t at = begin * n;
    if (layer) {
      layer_norm_backward(x.data() + at, weight.data(), dy.data() + at, dx.data() + at, dw.data(),
                          db.data(), end - begin, n, kEps);
    } else {
      rms_norm_backward(x.data() + at, weight.data(), dy.data() + at, dx.data() + at, dw.data(),
                        end - begin, n, kEps);
    }
  }
  // All of dx, dweight and dbias, from accumulators that are not zero, cut at the given rows.
  Values<T> gradients(std::vector<std::size_t> cuts = {}) const {
    Values<T> dx(x.size()), dw = bias, db = weight;
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(rows);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) backward(cuts[i], cuts[i + 1], dx, dw, db);
    dx.insert(dx.end(), dw.begin(), dw.end());
    dx.insert(dx.end(), db.begin(), db.end());
    return dx;
  }
};

struct Stats {
  Ld mean = 0, rstd = 0;
  template <class T>
  Stats(const T* x, std::size_t n, bool layer) {
    if (layer) {
      for (std::size_t i = 0; i < n; ++i) mean += x[i];
      mean /= n;
    }
    Ld square = 0;
    for (std::size_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
    rstd = 1 / std::sqrt(square / n + kEps);
  }
};

template <class T>
void check_values(const Problem<T>& p) {
  SCOPED_TRACE(::testing::Message() << (p.layer ? "layer " : "rms ") << p.rows << "x" << p.n);
  const auto y = p.forward();
  const auto all = p.gradients();
  const T* dx = all.data();
  const T* dw = dx + p.rows * p.n;
  const T* db = dw + p.n;
  std::vector<Ld> want_dw(p.bias.begin(), p.bias.end()), want_db(p.weight.begin(), p.weight.end());
  // Around n = 1 and 2 a layer norm's rstd is near 1 / sqrt(eps), and errors grow as much.
  const double scale = p.n <= 3 ? 3000 : 30;
  for (std::size_t row = 0; row < p.rows; ++row) {
    const std::size_t at = row * p.n;
    const Stats s(p.x.data() + at, p.n, p.layer);
    Ld level = 0, along = 0;
    for (std::size_t i = 0; i < p.n; ++i) {
      const Ld g = Ld(p.dy[at + i]) * p.weight[i], xh = (p.x[at + i] - s.mean) * s.rstd;
      level += g;
      along += g * xh;
      want_dw[i] += p.dy[at + i] * xh;
      want_db[i] += p.layer ? Ld(p.dy[at + i]) : 0;
    }
    for (std::size_t i = 0; i < p.n; ++i) {
      const Ld g = Ld(p.dy[at + i]) * p.weight[i], xh = (p.x[at + i] - s.mean) * s.rstd;
      expect_near(y[at + i], xh * p.weight[i] + (p.layer ? Ld(p.bias[i]) : 0), 4, "y", at + i);
      const Ld want = s.rstd * (g - (p.layer ? level / p.n : 0) - xh * along / p.n);
      expect_near(dx[at + i], want, scale, "dx", at + i);
    }
  }
  for (std::size_t i = 0; i < p.n; ++i) {
    expect_near(dw[i], want_dw[i], scale, "dweight", i);
    expect_near(db[i], want_db[i], scale, "dbias", i);
  }
}

TYPED_TEST(NormOf, Values) {
  for_each_target([](std::int64_t) {
    for (const bool layer : {true, false}) {
      for (const std::size_t n : kLengths) {
        for (const std::size_t rows : {1, 3, 6}) check_values(Problem<TypeParam>(rows, n, layer));
      }
    }
  });
}

TYPED_TEST(NormOf, AFarMeanLosesNothingButItsOwnRounding) {
  // Values 1000 to 1001: a one-pass variance would lose all its digits in f32.
  const Problem<TypeParam> p(2, 100, true, 1000, 1001);
  const auto y = p.forward();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Stats s(p.x.data() + i / p.n * p.n, p.n, true);
    const Ld want = (p.x[i] - s.mean) * s.rstd * p.weight[i % p.n] + p.bias[i % p.n];
    EXPECT_NEAR(y[i], static_cast<double>(want), sizeof(TypeParam) == 4 ? 1e-3 : 1e-11);
  }
}

TYPED_TEST(NormOf, RowsCutAnywhereGiveTheBitsOfTheWhole) {
  for (const bool layer : {true, false}) {
    const Problem<TypeParam> p(41, 37, layer);
    const auto whole = p.gradients();
    for (std::size_t cut = 0; cut <= p.rows; ++cut) {
      EXPECT_TRUE(same_bits(whole, p.gradients({cut}))) << cut;
    }
    EXPECT_TRUE(same_bits(whole, p.gradients({1, 2, 17, 40})));
  }
}

// Many parts that take turns, and outputs written past the caches.
TYPED_TEST(NormOf, OneResultHoweverItRuns) {
  using T = TypeParam;
  const std::size_t big = (std::size_t{9} << 20) / sizeof(T);
  for (const bool layer : {true, false}) {
    for (const std::size_t n : {1, 16, 100, 1024, 9000}) {
      SCOPED_TRACE(n);
      const Problem<T> p((n == 1024 ? big : big / 16) / n + 1, n, layer);
      expect_one_result([&] { return p.forward(); });
      expect_one_result([&] { return p.gradients(); });
      EXPECT_TRUE(same_bits(p.gradients(), p.gradients({p.rows / 3})));
    }
  }
}

TYPED_TEST(NormOf, OnlyWhatIsAskedFor) {
  using T = TypeParam;
  const Problem<T> p(5, 33, true);
  const auto all = p.gradients();
  Values<T> dx(p.x.size()), dw = p.bias, db = p.weight;
  T* const none = nullptr;
  layer_norm_backward(p.x.data(), p.weight.data(), p.dy.data(), dx.data(), none, none, 5, 33, kEps);
  layer_norm_backward(p.x.data(), p.weight.data(), p.dy.data(), none, dw.data(), none, 5, 33, kEps);
  layer_norm_backward(p.x.data(), p.weight.data(), p.dy.data(), none, none, db.data(), 5, 33, kEps);
  dx.insert(dx.end(), dw.begin(), dw.end());
  dx.insert(dx.end(), db.begin(), db.end());
  EXPECT_TRUE(same_bits(all, dx));
}

TYPED_TEST(NormOf, NothingToDo) {
  TypeParam none = 7, w = 1;
  layer_norm(&none, &w, &w, &none, 0, 1, kEps);
  rms_norm(&none, &w, &none, 4, 0, kEps);
  layer_norm_backward(&none, &w, &none, &none, &w, &w, 0, 1, kEps);
  layer_norm_backward(&none, &w, &none, &none, &w, &w, 4, 0, kEps);
  EXPECT_EQ(none, 7);
  EXPECT_EQ(w, 1);
}

}  // namespace
}  // namespace ebb::kernels::rows_test
