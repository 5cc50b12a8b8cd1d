#include "ebb/optim/accumulator.hpp"

#include <gtest/gtest.h>

#include <random>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/ops/binary.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::Example;
using test::Mlp;

using test::error_of;

// The gradient sums over `cuts`, each part in a tape of its own.
std::vector<std::vector<float>> gathered(Mlp& model, const Example& all,
                                         const std::vector<std::int64_t>& cuts, double* count) {
  Accumulator sums(params(model));
  random::seed(11);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Example part = all.rows(cuts[i], cuts[i + 1]);
    const random::Part position(static_cast<std::uint64_t>(cuts[i]));
    Tape tape;
    sums.add(tape, sparse_cross_entropy(model(part.x), part.labels, {.ignore_index = 3}));
  }
  *count = sums.count();
  std::vector<std::vector<float>> out;
  for (const Tensor& g : sums.sums()) out.push_back(g.to_vector<float>());
  sums.discard();
  return out;
}

TEST(Accumulator, AnySplitGivesTheBitsOfTheWhole) {
  Mlp model(nn::Init(5));
  const Example all = test::examples(41, 12, 5, 1);
  double count = 0;
  const auto whole = gathered(model, all, {0, 41}, &count);
  EXPECT_LT(count, 41) << "ignored labels do not count";
  const double whole_count = count;
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<std::int64_t> cuts{0, 41};
    for (int k = static_cast<int>(random() % 6); k >= 0; --k) cuts.push_back(random() % 42);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    EXPECT_EQ(gathered(model, all, cuts, &count), whole) << "seed " << seed << " trial " << trial;
    EXPECT_EQ(count, whole_count);
  }
}

TEST(Accumulator, ConvolutionsToo) {
  const nn::Init init(2);
  nn::Sequential model(
      nn::Conv2d(init / "a", 3, 8, 3, {.padding = {1, 1, 1, 1}}), &relu,
      nn::Conv2d(init / "b", 8, 20, 3, {.stride = {2, 2}}), &relu,
      [](const Tensor& pixels) {
        return mean(pixels, {1, 2});
      },
      nn::Dense(init / "head", 20, 4));
  const Tensor x = random::uniform({9, 8, 8, 3}, -1, 1, 3, 3);
  const Tensor labels = Tensor::of<std::int64_t>({0, 1, 2, 3, 0, 1, 2, 3, 1});
  const auto sums = [&](std::vector<std::int64_t> cuts) {
    Accumulator sum(params(model));
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      Tape tape;
      sum.add(tape, sparse_cross_entropy(model(x.rows(cuts[i], cuts[i + 1])),
                                         labels.rows(cuts[i], cuts[i + 1])));
    }
    std::vector<std::vector<float>> out;
    for (const Tensor& g : sum.sums()) out.push_back(g.to_vector<float>());
    sum.discard();
    return out;
  };
  const auto whole = sums({0, 9});
  EXPECT_EQ(sums({0, 4, 9}), whole);
  EXPECT_EQ(sums({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), whole);
  EXPECT_EQ(sums({0, 7, 8, 9}), whole);
}

TEST(Accumulator, MeanDividesByTheWholeCount) {
  Variable w("w", Tensor::of({0}));
  Accumulator sums({w});
  const std::vector<Tensor> three{Tensor::of({6})}, one{Tensor::of({2})};
  sums.add(three, 3);
  sums.add(one, 1);
  EXPECT_EQ(sums.mean()[0].item(), 2);
  optim::Sgd sgd({w}, {.lr = 1});
  sgd.step(sums);
  EXPECT_EQ(w.value().item(), -2);
  EXPECT_TRUE(sums.empty());
}

TEST(Accumulator, APartialWindowIsNeitherLostNorCarriedOver) {
  Variable w("w", Tensor::of({0}));
  Accumulator sums({w}, 2);
  const std::vector<Tensor> g{Tensor::of({1})};
  sums.add(g, 1);
  EXPECT_FALSE(sums.full());
  EXPECT_EQ(
      error_of([&] { sums.reset(); }),
      "accumulator: 1 parts (1 examples) are in it that no step has used; step() with them, or "
      "discard() them");
  sums.add(g, 1);
  EXPECT_TRUE(sums.full());
  EXPECT_EQ(error_of([&] { sums.add(g, 1); }),
            "accumulator: its window of 2 parts is full; take a step first");
  sums.discard();
  EXPECT_EQ(error_of([&] { sums.sums(); }), "accumulator: nothing was added since the last step");
  sums.reset();
  sums.add(g, 1);
  testing::internal::CaptureStderr();
  {
    Accumulator dropped({w});
    dropped.add(g, 5);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ebb: an accumulator ended with 1 parts (5 examples) that no step has used\n");
  sums.discard();
}

TEST(Accumulator, RefusesALossItsTapeHasNotSeen) {
  Variable w("w", Tensor::of({1}));
  Accumulator sums({w});
  const Loss before = mse(w, Tensor::of({2}));
  Tape tape;
  EXPECT_NE(error_of([&] { sums.add(tape, before); }).find("has not recorded the loss"),
            std::string::npos);
  EXPECT_TRUE(sums.empty());
}

TEST(Accumulator, AFailedPartIsNotHalfAdded) {
  Mlp model(nn::Init(5));
  const Example all = test::examples(20, 12, 5, 1);
  const auto loss = [&](int a, int b) {
    return sparse_cross_entropy(model(all.x.rows(a, b)), all.labels.rows(a, b));
  };
  Accumulator sums(params(model));
  {
    Tape tape;
    sums.add(tape, loss(0, 10));
  }
  {
    Tape tape;
    const Loss second = loss(10, 20);
    const memory::FailTake fail(4);
    EXPECT_THROW(sums.add(tape, second), OutOfMemory);
  }
  EXPECT_NE(error_of([&] { sums.sums(); }).find("an earlier part failed half way"),
            std::string::npos);
  sums.discard();
  Tape tape;
  sums.add(tape, loss(0, 10));
  EXPECT_EQ(sums.count(), 10);
  sums.discard();
}

}  // namespace
}  // namespace ebb
