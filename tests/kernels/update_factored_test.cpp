#include "ebb/kernels/update_factored.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class FactoredOf : public ::testing::Test {};
TYPED_TEST_SUITE(FactoredOf, Floats);

struct Size {
  std::size_t count, rows, cols;
  bool factored = true;
};
const Size kSizes[] = {{1, 3, 5},   {1, 1, 7},        {1, 7, 1},           {2, 33, 17},
                       {3, 40, 64}, {1, 700, 100},    {1, 1, 1, false},    {1, 1, 40, false},
                       {1, 0, 5},   {1, 0, 1, false}, {1, 1, 40001, false}};

template <class T>
struct Model {
  Size size;
  Values<T> param, grad, row, col;
  explicit Model(const Size& s) : size(s) {
    const std::size_t n = s.count * s.rows * s.cols;
    param = random_values<T>(n, 1);
    grad = random_values<T>(n, 2);
    row = random_values<T>(s.factored ? s.count * s.rows : n, 3, 0.1, 1);
    col = random_values<T>(s.factored ? s.count * s.cols : 0, 4, 0.1, 1);
  }
  FactoredUpdate<T> tensor() {
    return {param.data(), grad.data(), row.data(), size.factored ? col.data() : nullptr,
            size.count,   size.rows,   size.cols};
  }
  void step(const AdafactorRule& rule, GradientUse use) {
    const FactoredUpdate<T> t = tensor();
    Bytes scratch(adafactor_scratch(t));
    adafactor(std::span<const FactoredUpdate<T>>(&t, 1), rule, use, std::span(scratch));
  }
  Values<T> flat() const {
    Values<T> all = param;
    all.insert(all.end(), row.begin(), row.end());
    all.insert(all.end(), col.begin(), col.end());
    return all;
  }
};

// The formulas of the header, one after the other.
template <class T>
void define(Model<T>& m, const AdafactorRule& o, GradientUse use) {
  const auto [count, rows, cols, factored] = m.size;
  const std::size_t n = m.param.size();
  std::vector<Ld> g(n), u(n);
  Ld params = 0, moves = 0;
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = std::clamp<Ld>(m.grad[i] * Ld(use.scale), -use.clip, use.clip);
    params += Ld(m.param[i]) * m.param[i];
  }
  const auto average = [&](T& a, Ld now) {
    a = static_cast<T>(o.beta2 * a + (1 - Ld(o.beta2)) * now);
  };
  if (!factored)
    for (std::size_t i = 0; i < n; ++i) {
      average(m.row[i], g[i] * g[i] + o.eps1);
      u[i] = g[i] / std::sqrt(Ld(m.row[i]));
    }
  for (std::size_t k = 0; factored && k < count; ++k) {
    std::vector<Ld> by_row(rows, 0), by_col(cols, 0);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) {
        const Ld s = std::pow(g[(k * rows + r) * cols + c], 2) + o.eps1;
        by_row[r] += s / cols;
        by_col[c] += s / rows;
      }
    Ld mean = 0;
    for (std::size_t r = 0; r < rows; ++r) average(m.row[k * rows + r], by_row[r]);
    for (std::size_t c = 0; c < cols && rows > 0; ++c) average(m.col[k * cols + c], by_col[c]);
    for (std::size_t r = 0; r < rows; ++r) mean += Ld(m.row[k * rows + r]) / rows;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) {
        const std::size_t i = (k * rows + r) * cols + c;
        u[i] = g[i] / std::sqrt(Ld(m.row[k * rows + r]) * m.col[k * cols + c] / mean);
      }
  }
  for (const Ld x : u) moves += x * x;
  const Ld far = std::max<Ld>(1, std::sqrt(moves / n) / o.clip);
  const Ld rate = o.rate / far * (o.relative ? std::max<Ld>(o.eps2, std::sqrt(params / n)) : 1);
  for (std::size_t i = 0; i < n; ++i)
    m.param[i] = static_cast<T>(m.param[i] * (1 - Ld(o.lr) * o.weight_decay) - rate * u[i]);
}

const AdafactorRule kRules[] = {
    {.rate = 0.1, .beta2 = 0.7},
    {.lr = 0.1, .rate = 0.05, .beta2 = 0, .clip = 0.3, .weight_decay = 0.2, .relative = false},
    {.rate = 0.1, .beta2 = 0.9, .eps2 = 10}};

TYPED_TEST(FactoredOf, IsItsFormula) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const Size& size : kSizes)
      for (const AdafactorRule& rule : kRules)
        for (const GradientUse use : {GradientUse{}, GradientUse{0.125, 0.1}}) {
          SCOPED_TRACE(size.count * 1000000 + size.rows * 1000 + size.cols);
          Model<T> got(size), want(size);
          got.step(rule, use);
          define(want, rule, use);
          for (std::size_t i = 0; i < got.param.size(); ++i)
            expect_near(got.param[i], want.param[i], 4, "param", i);
          for (std::size_t i = 0; i < got.row.size(); ++i)
            expect_near(got.row[i], want.row[i], 1, "row", i);
          for (std::size_t i = 0; i < got.col.size(); ++i)
            expect_near(got.col[i], want.col[i], 1, "col", i);
        }
  });
}

TYPED_TEST(FactoredOf, OneResultHoweverItRuns) {
  using T = TypeParam;
  for (const Size& size : {Size{1, 700, 100}, Size{9, 40, 300}, Size{1, 1, 100001, false}})
    expect_one_result([&] {
      Model<T> m(size);
      m.step(kRules[0], {0.5, 1});
      return m.flat();
    });
}

TYPED_TEST(FactoredOf, ManyAtOnceAreAsOneAfterTheOther) {
  using T = TypeParam;
  std::vector<Model<T>> together, apart;
  for (int k = 0; k < 5; ++k)
    for (const Size& size : kSizes) {
      together.emplace_back(size);
      apart.emplace_back(size);
    }
  std::vector<FactoredUpdate<T>> tensors;
  std::size_t bytes = 0;
  for (auto& m : together) {
    tensors.push_back(m.tensor());
    bytes += adafactor_scratch(tensors.back());
  }
  Bytes scratch(bytes);
  adafactor(std::span<const FactoredUpdate<T>>(tensors), kRules[0], {}, std::span(scratch));
  for (std::size_t i = 0; i < apart.size(); ++i) {
    apart[i].step(kRules[0], {});
    EXPECT_TRUE(same_bits(together[i].flat(), apart[i].flat())) << i;
  }
}

}  // namespace
}  // namespace ebb::kernels::rows_test
