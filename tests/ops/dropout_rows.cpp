// Dropout, and the random state it draws from.
#include "ebb/ops/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ebb/base/rng.hpp"
#include "ebb/ops/random.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

constexpr std::uint64_t kSeed = 5;

bool kept(std::uint64_t step, std::uint64_t stream, std::uint64_t position, double rate) {
  const std::uint32_t word = draw({kSeed, step}, stream, position / 2);
  return (word >> (position % 2 * 16) & 0xFFFF) >= std::round(rate * 65536);
}

void add_dropout(const std::string& name, const Shape& shape, double rate) {
  add_row({.name = "dropout " + name,
           .op = "dropout",
           .inputs = {Input{.shape = shape}},
           .call =
               [=](const Tensors& in) {
                 random::seed(kSeed);
                 return dropout(in[0], rate);
               },
           .reference = analytic([=](const auto& in) {
             auto y = in[0];
             // The op keeps its rate as a float.
             const double exact = static_cast<double>(static_cast<float>(rate));
             for (std::int64_t i = 0; i < y.size(); ++i)
               y[i] *= kept(0, 0, static_cast<std::uint64_t>(i), rate) ? 1 / (1 - exact) : 0.0;
             return y;
           })});
}

[[maybe_unused]] const bool dropouts = [] {
  add_dropout("rows", {4, 33}, 0.3);
  add_dropout("nothing", {3, 5}, 0);
  add_dropout("scalar", {}, 0.5);
  add_dropout("three axes", {2, 3, 5}, 0.25);
  add_dropout("of nothing", {0, 5}, 0.5);
  add_dropout("threads", {300, 401}, 0.1);
  return true;
}();
OP_ROW(
    "dropout everything", .op = "dropout", .inputs = {f(3, 5)},
    .call = [](const Tensors& in) { return dropout(in[0], 1); },
    .reference = analytic([](const auto& in) {
      return map(in[0], [](auto v) { return v * 0.0; });
    }));
OP_ROW(
    "dropout rate out of range", .op = "dropout", .inputs = {f(3)},
    .call = [](const Tensors& in) { return dropout(in[0], 1.5); },
    .refused = "dropout: the rate is 1.5, expected 0 to 1");
OP_ROW(
    "dropout of integers", .op = "dropout", .inputs = {ids({3}, 4)},
    .call = [](const Tensors& in) { return dropout(in[0], 0.5); },
    .refused = "dropout: i64(3) is not a floating type; cast it first");

std::vector<float> dropped(const Tensor& x) { return dropout(x, 0.5).to_vector<float>(); }

TEST(Random, EachCallAndEachStepDrawsAnew) {
  const Tensor x = Tensor::ones({64});
  random::seed(kSeed);
  const auto first = dropped(x), second = dropped(x);
  random::next_step();
  const auto third = dropped(x);
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(second, third);
  random::seed(kSeed);
  EXPECT_EQ(first, dropped(x));
  EXPECT_EQ(second, dropped(x));
}

TEST(Random, RestoredStateDrawsTheSame) {
  const Tensor x = Tensor::ones({64});
  random::seed(kSeed);
  dropped(x);
  const random::State before = random::state();
  const auto first = dropped(x);
  EXPECT_NE(random::state(), before);
  random::restore(before);
  EXPECT_EQ(first, dropped(x));
}

TEST(Random, PartsOfABatchDrawTheMasksOfTheWhole) {
  const Tensor x = Tensor::ones({10, 7});
  random::seed(kSeed);
  const auto first = dropped(x), second = dropped(x);
  std::vector<float> first_parts, second_parts;
  for (const auto& [begin, end] : {std::pair{0, 3}, {3, 4}, {4, 10}}) {
    const random::Part part(begin);
    const auto a = dropped(x.rows(begin, end)), b = dropped(x.rows(begin, end));
    first_parts.insert(first_parts.end(), a.begin(), a.end());
    second_parts.insert(second_parts.end(), b.begin(), b.end());
  }
  EXPECT_EQ(first, first_parts);
  EXPECT_EQ(second, second_parts);
  EXPECT_EQ(random::state().row0, 0);
}

TEST(Random, TensorsDependOnSeedAndStreamAlone) {
  random::seed(1);
  const auto a = random::normal({100}, 0, 1, 3, 4).to_vector<float>();
  random::next_step();
  EXPECT_EQ(a, random::normal({100}, 0, 1, 3, 4).to_vector<float>());
  EXPECT_NE(a, random::normal({100}, 0, 1, 3, 5).to_vector<float>());
  EXPECT_NE(a, random::normal({100}, 0, 1, 4, 4).to_vector<float>());
  for (const float v : random::uniform({1000}, -1, 3, 1, 2).to_vector<float>())
    EXPECT_TRUE(v >= -1 && v <= 3);
}

}  // namespace
}  // namespace ebb::table
