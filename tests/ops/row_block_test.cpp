// Ops that make some rows of their result by themselves: the bits these have in the whole.
#include "ebb/ops/row_block.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"

namespace ebb::ops {
namespace {

Tensor some(const Shape& shape, std::uint64_t stream) {
  return random::normal(shape, 0, 1, 1, stream);
}

template <class Op>
void expect_rows_of_the_whole(const Op& op, const std::vector<Tensor>& in) {
  SCOPED_TRACE(Op::name);
  std::vector<const Tensor*> inputs;
  std::vector<Spec> specs;
  for (const Tensor& x : in) {
    inputs.push_back(&x);
    specs.push_back(x.spec());
  }
  const Tensor whole = apply_all(op, inputs);
  const AnyOp any(op_type<Op>(), &op);
  const auto cut = row_block_inputs(any, specs);
  ASSERT_TRUE(cut.has_value());
  const std::int64_t all = whole.dim(0);
  std::int64_t first = 0;
  for (const std::int64_t end : {std::int64_t{1}, all / 3, all / 3 + 1, all}) {
    const std::int64_t rows = end - first;
    std::vector<Tensor> held;  // copies: nothing but these rows is there to be read
    std::vector<In> args;
    held.reserve(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (*cut >> i & 1) {
        std::vector<std::int64_t> dims(in[i].shape().begin(), in[i].shape().end());
        dims[0] = rows;
        const Spec spec{Shape(dims), in[i].dtype()};
        held.push_back(Tensor::uninitialized(spec, "rows", Category::data));
        const std::size_t row = in[i].spec().bytes() / static_cast<std::size_t>(in[i].dim(0));
        std::memcpy(held.back().bytes(), in[i].raw() + static_cast<std::size_t>(first) * row,
                    spec.bytes());
      } else {
        held.push_back(in[i]);
      }
      args.push_back({&held.back().spec(), held.back().raw()});
    }
    std::vector<std::int64_t> dims(whole.shape().begin(), whole.shape().end());
    dims[0] = rows;
    const Spec spec{Shape(dims), whole.dtype()};
    Tensor made = Tensor::uninitialized(spec, "rows", Category::data);
    const std::size_t bytes = row_block_scratch(any, specs, rows);
    Tensor scratch = Tensor::zeros({static_cast<std::int64_t>(bytes) + 64}, DType::u8);
    run_row_block(any, args, {&spec, made.bytes()}, first, {scratch.bytes(), bytes});
    const std::size_t row = whole.spec().bytes() / static_cast<std::size_t>(all);
    EXPECT_EQ(
        std::memcmp(made.raw(), whole.raw() + static_cast<std::size_t>(first) * row, spec.bytes()),
        0)
        << "rows " << first << " to " << end << " of " << all;
    first = end;
  }
}

TEST(SomeRows, OfAProduct) {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      const Tensor x = some(a ? Shape{70, 45} : Shape{45, 70}, 1);
      const Tensor y = some(b ? Shape{33, 70} : Shape{70, 33}, 2);
      expect_rows_of_the_whole(Matmul{a, b}, {x, y});
      expect_rows_of_the_whole(Matmul{a, b, true}, {x, y, some({45, 33}, 3)});
    }
  const std::vector<Spec> batches(2, Spec{{2, 3, 3}, DType::f32});
  const Matmul op;
  EXPECT_FALSE(row_block_inputs(AnyOp(op_type<Matmul>(), &op), batches));
}

TEST(SomeRows, OfASumOfRows) {
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{5, 0, 5, 28, 11, 9, 5, 28}, {2, 4});
  const Tensor rows = some({2, 4, 7}, 1);
  expect_rows_of_the_whole(ScatterAdd{0, 29}, {ids, rows});
  expect_rows_of_the_whole(ScatterAdd{0, 29, true}, {ids, rows, some({29, 7}, 2)});
}

TEST(SomeRows, OfElementwiseCalls) {
  const Tensor x = some({31, 5}, 1);
  expect_rows_of_the_whole(Add{}, {x, some({31, 5}, 2)});
  expect_rows_of_the_whole(Mul{}, {x, some({31, 1}, 2)});
  expect_rows_of_the_whole(Mul{}, {some({5}, 2), x});
  expect_rows_of_the_whole(Mul{}, {x, some({}, 2)});
}

// The two halves of the way back of linear_cross_entropy give what it gives.
TEST(SomeRows, OfTheGradientOfALinearLoss) {
  const Tensor x = some({3, 9, 16}, 1), weight = some({700, 16}, 2), upstream = some({}, 3);
  std::vector<std::int64_t> all;
  for (int i = 0; i < 27; ++i) all.push_back(i == 4 ? -100 : i * 25);
  const Tensor labels = Tensor::from(all, {3, 9});
  for (const double smoothing : {0.0, 0.1}) {
    const math::SparseTargets targets{-100, smoothing};
    const Tensor* in[] = {&x, &weight, &labels, &upstream};
    const auto whole = apply_all(LinearCrossEntropyBackward{targets}, in);
    const auto rest = apply_all(LinearCrossEntropyInputGrad{targets}, in);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(std::memcmp(rest[i].raw(), whole[i + 1].raw(), whole[i + 1].spec().bytes()), 0);
    const LinearCrossEntropyWeightGrad op{targets, 700};
    const Tensor* with_sums[] = {&x, &weight, &labels, &upstream, &rest[3]};
    const Tensor dweight = apply_all(op, with_sums);
    EXPECT_EQ(std::memcmp(dweight.raw(), whole[0].raw(), dweight.spec().bytes()), 0);
    expect_rows_of_the_whole(op, {x, weight, labels, upstream, rest[3]});
    expect_rows_of_the_whole(LinearCrossEntropyWeightGrad{targets, 700, true},
                             {x, weight, labels, upstream, rest[3], some({700, 16}, 4)});
  }
}

TEST(SomeRows, OthersSayThatTheyCannot) {
  const std::vector<Spec> in{{{4, 3}, DType::f32}};
  const Cumsum op{};
  EXPECT_FALSE(row_block_inputs(AnyOp(op_type<Cumsum>(), &op), in));
}

}  // namespace
}  // namespace ebb::ops
