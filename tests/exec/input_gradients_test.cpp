#include "ebb/exec/input_gradients.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "ebb/base/error.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/temp_path.hpp"

namespace ebb {
namespace {

struct Score {
  nn::Dense first{nn::Init(1) / "first", 16, 32, {.activation = Activation::tanh}};
  nn::Dense second{nn::Init(1) / "second", 32, 3};
  Tensor operator()(const Tensor& x) const { return second(first(x)); }
};

Tensor by_tape(const Score& score, const Tensor& x) {
  Tape tape;
  tape.watch(x);
  const Tensor y = score(x);
  return tape.gradient(y, x);
}

TEST(InputGradients, ChunksGiveTheBitsOfTheWhole) {
  const Score score;
  const Tensor x = random::normal({101, 16}, 0, 1, 1, 1);
  const auto expected = by_tape(score, x).to_vector<float>();
  for (const std::int64_t rows : {1, 7, 100, 101, 0})
    EXPECT_EQ(input_gradients(score, x, {.rows = rows}).to_vector<float>(), expected) << rows;
}

TEST(InputGradients, ASmallBudgetTakesSmallerChunks) {
  const Score score;
  const Tensor x = random::normal({9000, 16}, 0, 1, 1, 1);
  EXPECT_EQ(input_gradients(score, x, {.memory = 256_KiB}).to_vector<float>(),
            by_tape(score, x).to_vector<float>());
  EXPECT_THROW(input_gradients(score, x, {.memory = 64_B}), BudgetTooSmall);
  EXPECT_EQ(input_gradients(score, x, {.memory = Memory::from_machine()}).to_vector<float>(),
            by_tape(score, x).to_vector<float>());
}

TEST(InputGradients, FromFileToFile) {
  const Score score;
  const Tensor x = random::normal({50, 16}, 0, 1, 1, 1);
  const std::string from = test::temp_path("rows.npy"), to = test::temp_path("out.npy");
  save_npy(from, x);
  input_gradients(score, from, to, {.rows = 8});
  EXPECT_EQ(load_npy(to).to_vector<float>(), by_tape(score, x).to_vector<float>());
  std::remove(from.c_str());
  std::remove(to.c_str());
}

TEST(InputGradients, RowsThatDependOnEachOtherAreRefused) {
  const Tensor x = random::normal({10, 16}, 0, 1, 1, 1);
  try {
    input_gradients([](const Tensor& r) { return r * mean(r, {0}, true); }, x);
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("examples depend on each other"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace ebb
