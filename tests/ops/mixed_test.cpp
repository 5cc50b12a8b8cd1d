// Products of f32 and 16 bits: what is widened, and how much of it is made.
#include <gtest/gtest.h>

#include <cstring>

#include "ebb/ops/cast.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
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

}  // namespace
}  // namespace ebb
