// Products of f32 and 16 bits: what is widened, and how much of it is made.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

// The gradient of a matrix that all rows of a batch meet is one product, however many axes those
// rows have.
TEST(Mixed, AMatrixOf16BitsHasOneGradient) {
  constexpr std::int64_t kBatch = 64, kLength = 2, kIn = 48, kOut = 32;
  for (const bool transposed : {false, true}) {
    const Tensor a = random::normal({kBatch, kLength, kIn}, 0, 1, 1, 1);
    const Shape shape = transposed ? Shape{kOut, kIn} : Shape{kIn, kOut};
    const Tensor b = cast(random::normal(shape, 0, 1, 1, 2), DType::bf16);
    const auto gradient = [&](const Tensor& rows) {
      Tape tape;
      tape.watch(b);
      const Tensor y = matmul(rows, b, {.transpose_b = transposed});
      const Tensor total = sum(y * y);
      const std::uint64_t before = ledger::total().live;
      ledger::reset_peak();
      const Tensor d = tape.gradient(total, b);
      constexpr std::uint64_t kRows = kBatch * kLength * kOut * 4, kMatrix = kIn * kOut * 4;
      EXPECT_LT(ledger::total().peak - before, 3 * kRows + 4 * kMatrix + 100'000);
      return d;
    };
    const Tensor d = gradient(a);
    EXPECT_EQ(d.dtype(), DType::bf16);
    EXPECT_TRUE(same(d, gradient(reshape(a, {kBatch * kLength, kIn})))) << "as of two axes";
    // In f32, and rounded.
    Tape tape;
    const Tensor wide = cast(b, DType::f32);
    tape.watch(wide);
    const Tensor y = matmul(a, wide, {.transpose_b = transposed});
    EXPECT_TRUE(same(d, cast(tape.gradient(sum(y * y), wide), DType::bf16)));
  }
}

TEST(Mixed, ABiasOf16BitsGoesWithAProductInF32) {
  const Tensor x = random::normal({5, 3}, 0, 1, 1, 1);
  const Tensor weight = cast(random::normal({4, 3}, 0, 1, 1, 2), DType::bf16);
  const Tensor bias = cast(random::normal({4}, 0, 1, 1, 3), DType::bf16);
  for (const Activation a : {Activation::none, Activation::tanh, Activation::gelu}) {
    Tape tape;
    tape.watch(bias);
    const Tensor y = linear(x, weight, bias, a);
    EXPECT_TRUE(same(y, linear(x, weight, cast(bias, DType::f32), a)));
    EXPECT_EQ(tape.gradient(sum(y), bias).dtype(), DType::bf16);
  }
  EXPECT_TRUE(linear(cast(x, DType::bf16), weight, bias).dtype() == DType::bf16);
  EXPECT_EQ(test::error_of([&] { linear(cast(x, DType::f16), cast(weight, DType::f16), bias); }),
            "linear: bias is bf16(4), expected f16(4)");
  EXPECT_EQ(test::error_of([&] { linear(x, weight, Tensor::ones({3})); }),
            "linear: bias is f32(3), expected f32(4)");
}

// More than one piece each way of a 16-bit result.
TEST(Mixed, WhatComesBeforeAnActivationIsOf16BitsToo) {
  constexpr std::int64_t kRows = 300, kIn = 40, kOut = 2100;
  const Tensor x = cast(random::normal({kRows, kIn}, 0, 1, 1, 1), DType::bf16);
  const Tensor weight = cast(random::normal({kOut, kIn}, 0, 0.2, 1, 2), DType::bf16);
  const Tensor bias = cast(random::normal({kOut}, 0, 1, 1, 3), DType::bf16);
  const auto wide = [](const Tensor& t) { return cast(t, DType::f32); };
  for (const Activation a : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    Tape tape;
    tape.watch(x);
    const std::uint64_t before = ledger::total().live;
    ledger::reset_peak();
    const Tensor y = linear(x, weight, bias, a);
    constexpr std::uint64_t kResult = kRows * kOut * 2;  // y, pre, and two pieces in f32
    EXPECT_LT(ledger::total().peak - before, 2 * kResult + 2 * 256 * 2048 * 4 + 1'000'000);
    EXPECT_LT(ledger::total().live - before, 2 * kResult + 100'000);
    EXPECT_TRUE(same(y, cast(linear(wide(x), wide(weight), wide(bias), a), DType::bf16)));
    const Tensor d = wide(tape.gradient(sum(wide(y)), x));
    Tape exact;
    const Tensor x32 = wide(x);
    exact.watch(x32);
    const Tensor d32 = exact.gradient(sum(linear(x32, wide(weight), wide(bias), a)), x32);
    const double norm = sum(d32 * d32).item<float>(),
                 off = sum((d - d32) * (d - d32)).item<float>();
    EXPECT_LT(off, norm * 1e-4);  // pre, y's gradient and d are rounded to 8 bits each
    EXPECT_GT(norm, 0);
  }
}

// An x of 16 bits under a weight of f32 is widened on the way into the product.
TEST(Mixed, AnActivatedProductIsF32UnderAWeightOfF32) {
  const Tensor x = cast(random::normal({7, 33}, 0, 1, 1, 1), DType::f16);
  const Tensor weight = random::normal({19, 33}, 0, 0.2, 1, 2);
  Tape tape, wide;
  tape.watch(weight);
  wide.watch(weight);
  const Tensor y = linear(x, weight, {}, Activation::gelu);
  const Tensor expected = linear(cast(x, DType::f32), weight, {}, Activation::gelu);
  EXPECT_TRUE(same(y, expected));
  EXPECT_TRUE(same(tape.gradient(sum(y), weight), wide.gradient(sum(expected), weight)));
}

// Sums of rows in f32, rounded once; more rows than a part has, and rows wider than one.
TEST(Mixed, RowsOf16BitsAreSummedInF32) {
  for (const auto& [rows, width] : {std::pair{3000, 48}, {3, 70'000}, {1, 5}}) {
    constexpr std::int64_t kCount = 900;
    const std::int64_t count = width > 1000 ? 12 : kCount;
    const auto most = 1'500'000 + 300'000 * static_cast<std::uint64_t>(pool::threads());
    const Tensor ids = cast(random::uniform({count}, 0, rows, 1, 1), DType::i32);
    for (const DType type : {DType::bf16, DType::f16}) {
      const Tensor updates = cast(random::normal({count, width}, 0, 1, 1, 2), type);
      const Tensor base = cast(random::normal({rows, width}, 0, 1, 1, 3), type);
      const std::uint64_t before = ledger::total().live;
      ledger::reset_peak();
      const Tensor y = scatter_add(base, ids, updates);
      EXPECT_LT(ledger::total().peak - before, y.spec().bytes() + most);
      const Tensor wide = scatter_add(cast(base, DType::f32), ids, cast(updates, DType::f32));
      EXPECT_TRUE(same(y, cast(wide, type))) << rows << " rows of " << width;
    }
  }
}

// The last layer of a model of 16 bits: no wide copy of its weight, and the bits of one.
TEST(Mixed, AWeightOf16BitsIsNotWidenedForItsLoss) {
  constexpr std::int64_t kRows = 40, kWidth = 64, kClasses = 40'000;
  const Tensor labels = cast(random::uniform({kRows}, 0, kClasses, 1, 1), DType::i32);
  for (const DType of_x : {DType::bf16, DType::f32}) {
    const Tensor x = cast(random::normal({kRows, kWidth}, 0, 1, 1, 2), of_x);
    const Tensor weight = cast(random::normal({kClasses, kWidth}, 0, 1, 1, 3), DType::bf16);
    Tape tape, wide;
    tape.watch(x);
    tape.watch(weight);
    const std::uint64_t before = ledger::total().live;
    const Tensor sum = linear_cross_entropy(x, weight, labels).sum;
    EXPECT_LT(ledger::total().live - before, 100'000) << "kept for the way back";
    const auto d = tape.gradient(sum, std::vector{x, weight});
    wide.watch(x);
    wide.watch(weight);
    const Tensor same_sum =
        linear_cross_entropy(cast(x, DType::f32), cast(weight, DType::f32), labels).sum;
    const auto expected = wide.gradient(same_sum, std::vector{x, weight});
    EXPECT_TRUE(same(sum, same_sum));
    EXPECT_TRUE(same(d[0], expected[0]));
    EXPECT_TRUE(same(d[1], expected[1]));
  }
}

}  // namespace
}  // namespace ebb
