#include "ebb/kernels/update_sparse.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class UpdateSparse : public ::testing::Test {};
TYPED_TEST_SUITE(UpdateSparse, Floats);

template <class T>
struct Table {
  std::size_t height, width, count;
  Values<T> param, first, second, rows;
  std::vector<std::int32_t> indices;

  Table(std::size_t h, std::size_t w, std::size_t n)
      : height(h),
        width(w),
        count(n),
        param(random_values<T>(h * w, 1)),
        first(random_values<T>(h * w, 2, 0.1, 1)),
        second(random_values<T>(h * w, 3, 0.1, 1)),
        rows(random_values<T>(n * w, 4)) {
    std::mt19937 bits(5);
    for (std::size_t i = 0; i < n; ++i)  // some of them many times
      indices.push_back(static_cast<std::int32_t>(i % 3 == 0 ? i % 2 : bits() % h));
    for (std::size_t i = 0; i < n * w; i += 5) rows[i] = T(-0.0);
  }

  template <class Rule>
  Values<T> sparse(const Rule& rule, GradientUse use) const {
    Table t = *this;
    Bytes scratch(update_sparse_scratch(count, width, sizeof(T)));
    update_sparse<T, std::int32_t>({t.param.data(),
                                    {t.first.data(), t.second.data()},
                                    t.indices.data(),
                                    t.rows.data(),
                                    count,
                                    height,
                                    width},
                                   rule, use, std::span(scratch));
    return t.all();
  }

  template <class Rule>
  Values<T> dense(const Rule& rule, GradientUse use) const {
    Table t = *this;
    Values<T> gradient(height * width, T(0));
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < width; ++j)
        gradient[static_cast<std::size_t>(indices[i]) * width + j] += rows[i * width + j];
    const Update<T> whole{
        t.param.data(), gradient.data(), {t.first.data(), t.second.data()}, height * width};
    update<T>(std::span(&whole, 1), rule, use);
    return t.all();
  }

  Values<T> all() const {
    Values<T> out = param;
    out.insert(out.end(), first.begin(), first.end());
    out.insert(out.end(), second.begin(), second.end());
    return out;
  }
};

template <class T, class Rule>
void check(const Table<T>& table, const Rule& rule) {
  for (const GradientUse use : {GradientUse{0.25}, GradientUse{1, 0.5}}) {
    const auto want = table.dense(rule, use);
    EXPECT_FALSE(same_bits(want, table.all())) << "the step did nothing";
    expect_one_result([&] { return table.sparse(rule, use); });
    EXPECT_TRUE(same_bits(want, table.sparse(rule, use)));
  }
}

TYPED_TEST(UpdateSparse, HasTheBitsOfTheWholeGradient) {
  for (const auto& [height, width, count] :
       {std::array<std::size_t, 3>{200, 33, 50}, {5, 1, 9}, {300, 128, 3}, {3, 9000, 4}}) {
    SCOPED_TRACE(::testing::Message() << height << "x" << width << " " << count);
    const Table<TypeParam> table(height, width, count);
    check(table, SgdRule{});
    check(table, SgdRule{.weight_decay = 0.1});
    check(table, AdamRule{});
    check(table, AdamRule{.weight_decay = 0.1, .decoupled = true});
    check(table, AdagradRule{});
    check(table, AdagradRule{.weight_decay = 0.1});
  }
}

// Rows within a piece of the sum, across two, and wider than one.
TYPED_TEST(UpdateSparse, SquaresHaveTheBitsOfTheWholeGradient) {
  using T = TypeParam;
  for (const auto& [height, width, count] : {std::array<std::size_t, 3>{2000, 33, 50},
                                             {5, 1, 9},
                                             {900, 128, 3},
                                             {3, 40000, 4},
                                             {50, 7, 0}}) {
    SCOPED_TRACE(::testing::Message() << height << "x" << width << " " << count);
    const Table<T> table(height, width, count);
    Values<T> gradient(height * width, T(0));
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < width; ++j)
        gradient[static_cast<std::size_t>(table.indices[i]) * width + j] +=
            table.rows[i * width + j];
    const Update<T> whole{nullptr, gradient.data(), {nullptr, nullptr}, height * width};
    const std::span<const Update<T>> all(&whole, 1);
    Bytes scratch(sum_of_squares_scratch(all));
    const double want = sum_of_squares(all, std::span(scratch));
    expect_one_result([&] {
      Bytes own(sparse_squares_scratch(count, width, sizeof(T)));
      return Values<double>{sparse_squares<T, std::int32_t>(
          {nullptr, {}, table.indices.data(), table.rows.data(), count, height, width},
          std::span(own))};
    });
    Bytes own(sparse_squares_scratch(count, width, sizeof(T)));
    EXPECT_EQ((sparse_squares<T, std::int32_t>(
                  {nullptr, {}, table.indices.data(), table.rows.data(), count, height, width},
                  std::span(own))),
              want);
  }
}

// Only rows whose sum is not zero, each as Adam would.
TYPED_TEST(UpdateSparse, LazyAdamLeavesOtherRowsAlone) {
  using T = TypeParam;
  Table<T> table(200, 33, 50);
  table.indices[7] = 77;  // a row that occurs, with a gradient of zero
  for (std::size_t i = 0; i < 50; ++i)
    if (table.indices[i] == 77) std::fill_n(table.rows.begin() + i * 33, 33, T(0));
  const LazyAdamRule rule{{.weight_decay = 0.1, .correction1 = 0.5}};
  for (const GradientUse use : {GradientUse{0.25}, GradientUse{1, 0.5}}) {
    const Values<T> whole = table.dense(static_cast<const AdamRule&>(rule), use);
    Values<T> want = table.all();
    for (const std::int32_t row : table.indices) {
      if (row == 77) continue;
      for (std::size_t k = 0; k < 3; ++k)
        std::copy_n(whole.begin() + (k * 200 + row) * 33, 33, want.begin() + (k * 200 + row) * 33);
    }
    expect_one_result([&] { return table.sparse(rule, use); });
    EXPECT_TRUE(same_bits(want, table.sparse(rule, use)));
    EXPECT_FALSE(same_bits(want, whole));
  }
}

}  // namespace
}  // namespace ebb::kernels::rows_test
