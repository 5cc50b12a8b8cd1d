// An embedding's gradient goes from tape to optimizer as rows and indices.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/optim/optimizer.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kTable = 400, kWidth = 8, kIds = 24;

std::vector<std::int64_t> picked(int step) {  // some more than once
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < kIds; ++i) ids.push_back((i * i * 31 + step * 7) % kTable);
  return ids;
}
Tensor ids_of(int step) { return Tensor::from(picked(step), {4, kIds / 4}); }

struct Model {
  Variable table, scale;
  explicit Model(DType dtype = DType::f32)
      : table("table", cast(random::normal({kTable, kWidth}, 0, 1, 1, 2), dtype)),
        scale("scale", cast(random::normal({kWidth}, 0, 1, 1, 3), dtype)) {}
  Loss loss(int step) const {
    const Tensor x = embedding(table, ids_of(step));
    return {sum(x * x * scale), Tensor::full({}, 3, DType::i64)};
  }
  std::vector<Variable> params() const { return {table, scale}; }
};

// Table and state after some steps, with the gradient as the tape gives it to the optimizer or
// whole.
template <class Optimizer, class Options>
std::vector<std::vector<std::byte>> trained(const Options& options, bool whole,
                                            DType dtype = DType::f32) {
  Model model(dtype);
  Optimizer optimizer(model.params(), options);
  for (int i = 0; i < 4; ++i) {
    Tape tape;
    const Loss loss = model.loss(i);
    if (whole) {
      optimizer.step(tape.gradient(loss, model.params()), 3);
    } else {
      optimizer.minimize(loss);
    }
  }
  std::vector<Variable> all = optimizer.state();
  all.push_back(model.table);
  all.push_back(model.scale);
  return test::bytes(all);
}

template <class Optimizer, class Options>
void expect_same(const Options& options, DType dtype = DType::f32) {
  EXPECT_EQ(trained<Optimizer>(options, false, dtype), trained<Optimizer>(options, true, dtype));
}

TEST(SparseGradient, GivesTheBitsOfTheWholeOne) {
  expect_same<optim::Sgd>(optim::SgdOptions{});
  expect_same<optim::Sgd>(optim::SgdOptions{.weight_decay = 0.1});
  expect_same<optim::Sgd>(optim::SgdOptions{.momentum = 0.9});  // which takes it whole
  expect_same<optim::Adagrad>(optim::AdagradOptions{});
  expect_same<optim::Adagrad>(optim::AdagradOptions{}, DType::f64);
  expect_same<optim::Adam>(optim::AdamOptions{});
  expect_same<optim::AdamW>(optim::AdamWOptions{});
  expect_same<optim::Adam>(optim::AdamOptions{.lazy = true});
  expect_same<optim::AdamW>(optim::AdamWOptions{.lazy = true});
  expect_same<optim::AdamW>(optim::AdamWOptions{.lazy = true}, DType::bf16);
  expect_same<optim::Rmsprop>(optim::RmspropOptions{});
}

// What the first step adds to the most bytes held at once.
template <class Optimizer, class Options>
std::uint64_t growth(const Options& options, const std::function<Tensor(const Tensor&)>& read,
                     bool clipped = false) {
  Variable table("table", random::normal({100'000, 64}, 0, 1, 1, 2));
  Optimizer optimizer({table}, options);
  if (clipped) optimizer.clip_norm(1);
  for (const Variable& v : optimizer.state()) v.value();  // takes its bytes
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 32; ++i) ids.push_back(i * 3001 % 100'000);
  const std::uint64_t before = ledger::total().live;
  ledger::reset_peak();
  Tape tape;
  const Tensor x = embedding(read(table), Tensor::from(ids, {32}));
  optimizer.minimize({sum(x * x), Tensor::full({}, 32, DType::i64)});
  return ledger::total().peak - before;
}

TEST(SparseGradient, TakesFarLessThanTheTable) {
  constexpr std::uint64_t kTableBytes = 100'000 * 64 * 4;
  const auto itself = [](const Tensor& table) { return table; };
  EXPECT_LT(growth<optim::Sgd>(optim::SgdOptions{}, itself), kTableBytes / 100);
  EXPECT_LT(growth<optim::Adagrad>(optim::AdagradOptions{}, itself), kTableBytes / 100);
  EXPECT_LT(growth<optim::Adam>(optim::AdamOptions{}, itself), kTableBytes / 100);
  EXPECT_LT(growth<optim::Adam>(optim::AdamOptions{.lazy = true}, itself), kTableBytes / 100);
  EXPECT_LT(growth<optim::Sgd>(optim::SgdOptions{}, itself, true), kTableBytes / 100);
  // What is read through another op is not.
  const auto doubled = [](const Tensor& table) { return table * 2; };
  EXPECT_GT(growth<optim::Sgd>(optim::SgdOptions{}, doubled), kTableBytes);
}

TEST(SparseGradient, OfATableReadTwiceIsWhole) {
  const auto table_after = [](bool whole) {
    Model model;
    optim::Sgd sgd(model.params(), {.lr = 0.1});
    Tape tape;
    const Tensor x = embedding(model.table, ids_of(0)), y = embedding(model.table, ids_of(1));
    const Loss loss{sum(x * y * model.scale), Tensor::full({}, 3, DType::i64)};
    whole ? sgd.step(tape.gradient(loss, model.params()), 3) : void(sgd.minimize(loss));
    return model.table.value().to_vector<float>();
  };
  EXPECT_EQ(table_after(false), table_after(true));
  EXPECT_NE(table_after(false), Model().table.value().to_vector<float>());
}

TEST(SparseGradient, IsClippedByItsNormAsTheWholeOne) {
  const auto after = [](bool whole) {
    Model model;
    optim::Adagrad adagrad(model.params(), {.lr = 0.1});
    adagrad.clip_norm(0.5);
    Tape tape;
    const Loss loss = model.loss(0);
    whole ? adagrad.step(tape.gradient(loss, model.params()), 3) : void(adagrad.minimize(loss));
    EXPECT_GT(adagrad.last_norm(), 0.5);
    return std::pair(adagrad.last_norm(), model.table.value().to_vector<float>());
  };
  EXPECT_EQ(after(false), after(true));
}

// Beside a plain loop over the rows that occur.
TEST(LazyAdam, FollowsItsFormula) {
  for (const bool whole : {false, true}) {  // the gradient, or rows of it
    Model model(DType::f64);
    constexpr double kLr = 0.01, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8, kDecay = 0.1;
    optim::AdamW adam({model.table},
                      {.lr = kLr, .beta2 = kBeta2, .weight_decay = kDecay, .lazy = true});
    std::vector<double> p = model.table.value().to_vector<double>(), m(p.size()), v(p.size());
    const std::vector<double> scale = model.scale.value().to_vector<double>();
    for (int t = 1; t <= 5; ++t) {
      Tape tape;
      const Loss loss = model.loss(t);
      const std::vector<Variable> params{model.table};
      whole ? adam.step(tape.gradient(loss, params), 3) : void(adam.minimize(loss));
      std::vector<double> g(p.size());
      std::set<std::int64_t> rows;
      for (const std::int64_t row : picked(t)) {
        rows.insert(row);
        for (std::int64_t j = 0; j < kWidth; ++j)
          g[row * kWidth + j] += 2 * p[row * kWidth + j] * scale[j] / 3;
      }
      for (const std::int64_t row : rows)
        for (std::int64_t i = row * kWidth; i < (row + 1) * kWidth; ++i) {
          p[i] *= 1 - kLr * kDecay;
          m[i] = kBeta1 * m[i] + (1 - kBeta1) * g[i];
          v[i] = kBeta2 * v[i] + (1 - kBeta2) * g[i] * g[i];
          const double mh = m[i] / (1 - std::pow(kBeta1, t)), vh = v[i] / (1 - std::pow(kBeta2, t));
          p[i] -= kLr * mh / (std::sqrt(vh) + kEps);
        }
    }
    const std::vector<double> now = model.table.value().to_vector<double>();
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(now[i], p[i], 1e-12) << "element " << i;
    const std::vector<double> first = adam.state()[0].value().to_vector<double>();
    for (std::size_t i = 0; i < p.size(); ++i)
      EXPECT_NEAR(first[i], m[i], 1e-12) << "element " << i;
  }
}

// It knows rows in parameters of two axes or more: of a vector every element moves, however its
// gradient arrives.
TEST(LazyAdam, OfAVectorIsAdam) {
  enum class How { rows, whole, compiled };
  const auto after = [](How how, bool lazy) {
    Variable table("table", random::normal({kTable}, 0, 1, 1, 2));
    optim::AdamW adam({table}, {.lr = 0.01, .lazy = lazy});
    const auto loss = [&](const Tensor& ids) {
      const Tensor x = gather(table, ids);
      return Loss{sum(x * x), Tensor::full({}, 3, DType::i64)};
    };
    if (how == How::compiled) {
      auto step = compile({{"ids", ids_of(0).spec()}}, {},
                          [&](const Batch& b) { return adam.minimize(loss(b["ids"])); });
      for (int i = 0; i < 4; ++i) step({{"ids", ids_of(i)}});
    } else {
      for (int i = 0; i < 4; ++i) {
        Tape tape;
        const Loss l = loss(ids_of(i));
        how == How::whole ? adam.step(tape.gradient(l, adam.params()), 3) : void(adam.minimize(l));
      }
    }
    std::vector<Variable> all = adam.state();
    all.push_back(table);
    return test::bytes(all);
  };
  const auto plain = after(How::rows, false);
  for (const How how : {How::rows, How::whole, How::compiled})
    EXPECT_EQ(after(how, true), plain) << "way " << static_cast<int>(how);
}

TEST(LazyAdam, OfEightBitsIsRefused) {
  Model model;
  EXPECT_EQ(test::error_of([&] { optim::AdamW8bit adam(model.params(), {.lazy = true}); }),
            "adamw_8bit: it has no lazy form; a block of its state holds more than one row");
}

}  // namespace
}  // namespace ebb
