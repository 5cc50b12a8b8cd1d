// What a user reads after a mistake: one line that names the op, what was expected and what was
// found. The whole text is asserted, because the text is what people get.
#include <gtest/gtest.h>

#include <string>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/softmax.hpp"
#include "ebb/ops/unary.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

TEST(Errors, ShapeMismatch) {
  const Tensor a = Tensor::ones({4, 64}), b = Tensor::ones({4, 32});
  EXPECT_EQ(error_of([&] { add(a, b); }),
            "add: f32(4, 64) and f32(4, 32) do not broadcast: axis -1 is 64 and 32");
  EXPECT_EQ(error_of([&] { a* b; }),
            "mul: f32(4, 64) and f32(4, 32) do not broadcast: axis -1 is 64 and 32");
  EXPECT_EQ(error_of([&] {
              reshape(a, {5, -1});
            }),
            "reshape: f32(4, 64) has 256 elements, which axis 1 cannot make up from 5");
  EXPECT_EQ(error_of([&] {
              concat({a, b});
            }),
            "concat: f32(4, 64) and f32(4, 32) (part 1) differ beside axis 0");
  const std::string product = error_of([&] { matmul(a, b); });
  EXPECT_TRUE(product.starts_with("matmul: ")) << product;
  EXPECT_NE(product.find("(4, 64)"), product.npos) << product;
  EXPECT_NE(product.find("(4, 32)"), product.npos) << product;
  EXPECT_EQ(product.find('\n'), product.npos) << product;
}

TEST(Errors, BadAxis) {
  const Tensor x = Tensor::ones({2, 3});
  const std::string tail = " is out of range for rank 2; expected -2 to 1";
  EXPECT_EQ(error_of([&] { sum(x, {2}); }), "sum: axis 2" + tail);
  EXPECT_EQ(error_of([&] { softmax(x, -3); }), "softmax: axis -3" + tail);
  EXPECT_EQ(error_of([&] { concat({x, x}, 2); }), "concat: axis 2" + tail);
  EXPECT_EQ(error_of([&] { permute(x, {0, 5}); }), "permute: axis 5" + tail);
  EXPECT_EQ(error_of([&] { gather(x, Tensor::arange(1), 2); }), "gather: axis 2" + tail);
  EXPECT_EQ(error_of([&] { slice(Tensor::scalar(1), 0, 0, 1); }),
            "slice: axis 0 of a scalar, which has none");
}

TEST(Errors, IndexOutOfRange) {
  const Tensor table = Tensor::ones({10, 4});
  EXPECT_EQ(error_of([&] {
              gather(table, Tensor::of<std::int64_t>({0, 1, 2, 12, 99}));
            }),
            "gather: index 12 at position 3 is out of range for axis 0 of f32(10, 4); "
            "expected 0 to 9");
  EXPECT_EQ(error_of([&] {
              embedding(table, Tensor::of<std::int32_t>({3, -1}));
            }),
            "gather: index -1 at position 1 is out of range for axis 0 of f32(10, 4); "
            "expected 0 to 9");
  EXPECT_EQ(error_of([&] {
              one_hot(Tensor::of<std::int64_t>({0, 10}), 10);
            }),
            "one_hot: index 10 at position 1 is out of range for depth 10; expected 0 to 9");
}

TEST(Errors, LabelOutOfRange) {
  const Tensor logits = Tensor::ones({3, 5});
  EXPECT_EQ(error_of([&] {
              sparse_cross_entropy(logits, Tensor::of<std::int64_t>({0, 4, 7}));
            }),
            "sparse_cross_entropy: label 7 in row 2 is out of range for 5 classes");
  EXPECT_EQ(error_of([&] {
              sparse_cross_entropy(logits, Tensor::of<std::int32_t>({0, -1, 1}));
            }),
            "sparse_cross_entropy: label -1 in row 1 is out of range for 5 classes");
}

TEST(Errors, WrongType) {
  const Tensor count = Tensor::arange(3, DType::i32), x = Tensor::ones({3});
  EXPECT_EQ(error_of([&] { log(count); }), "log: i32(3) is not a floating type; cast it first");
  EXPECT_EQ(error_of([&] { add(x, Tensor::arange(3)); }),
            "add: f32(3) and i64(3) differ in type; cast one");
  EXPECT_EQ(error_of([&] { gather(x, x); }),
            "gather: the indices are f32(3); expected i32, i64 or u8");
}

TEST(Errors, NoTensor) {
  EXPECT_EQ(error_of([] { Tensor().shape(); }),
            "tensor: this handle holds no tensor; it was never assigned");
}

// A refused call leaves nothing behind.
TEST(Errors, NothingIsHeldAfterwards) {
  const Tensor table = Tensor::ones({10, 4}), ids = Tensor::of<std::int64_t>({11});
  const std::uint64_t before = ledger::total().live;
  error_of([&] { gather(table, ids); });
  EXPECT_EQ(ledger::total().live, before);
}

}  // namespace
}  // namespace ebb
