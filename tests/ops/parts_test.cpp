// What ops say of rows and of their inputs' bytes: that they say it, that false words are found
// out, and that the words hold at sizes no row of the table has.
#include "tests/ops/parts.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/conv.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/norm.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/softmax.hpp"
#include "ebb/ops/unary.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

constexpr std::uint64_t kSeed = 1;

Tensor some(const Shape& shape, std::uint64_t stream = 0) {
  return random::normal(shape, 0, 1, kSeed, stream);
}

template <class Op>
OpCall call_of(const Op& op, Tensors in) {
  return {AnyOp(op_type<Op>(), &op), std::move(in)};
}

// Every op says something of rows, or is known to mix them.
TEST(Parts, EveryOpSpeaksOfRows) {
  const std::map<std::string, std::string> mixing = {
      {"batch_norm_train", "statistics of the batch"},
      {"batch_norm_backward", "statistics of the batch"},
      {"sum_of_squares", "of gradients of the whole batch"},
      {"step_scale", "of the whole batch"},
  };
  std::set<std::string> speaks;
  for (const Row& row : rows())
    for (const OpCall& call : calls_of(row)) {
      const std::string name = call.op.type().name;
      if (speaks.count(name)) continue;
      const PartsReport report = check_parts(call);
      if (report.apart || report.summed) speaks.insert(name);
    }
  for (const OpType* op : registered_ops()) {
    if (op->once) continue;  // after the batch
    EXPECT_NE(speaks.count(op->name), mixing.count(op->name)) << op->name;
  }
}

// ---- what the plan of a training step relies on ----

template <class Op>
BatchRule said(const Op& op, std::vector<Shape> shapes, std::uint32_t carry, std::uint32_t sums = 0,
               int output = 0, std::int64_t examples = 4) {
  std::vector<Spec> specs;
  for (const Shape& s : shapes) specs.push_back({s, DType::f32});
  return op.batch_rule({specs, carry, sums, examples}, output);
}

TEST(Parts, ProductsOfRowsWithWeights) {
  EXPECT_EQ(said(Linear{}, {{4, 7, 8}, {5, 8}, {5}}, 0b001), BatchRule::per_example);
  EXPECT_EQ(said(Linear{}, {{8}, {5, 8}}, 0b001), BatchRule::mixed);  // its only axis is summed
  EXPECT_EQ(said(Linear{}, {{4, 8}, {4, 8}}, 0b011), BatchRule::mixed);
  EXPECT_EQ(said(Matmul{}, {{4, 8}, {8, 5}}, 0b01), BatchRule::per_example);
  EXPECT_EQ(said(Matmul{}, {{8, 4}, {4, 5}}, 0b10), BatchRule::mixed);
  EXPECT_EQ(said(Matmul{.transpose_a = true}, {{4, 8}, {4, 5}}, 0b11), BatchRule::summed);
  EXPECT_EQ(said(Matmul{.transpose_a = true}, {{4, 8}, {4, 5}}, 0b01), BatchRule::mixed);
  EXPECT_EQ(said(Matmul{true, false, true}, {{4, 8}, {4, 5}, {8, 5}}, 0b011, 0b100),
            BatchRule::summed);
  EXPECT_EQ(said(Matmul{true, false, true}, {{4, 8}, {4, 5}, {8, 5}}, 0b011), BatchRule::mixed);
  EXPECT_EQ(said(Matmul{.transpose_b = true}, {{4, 2, 3, 8}, {4, 2, 3, 8}}, 0b11),
            BatchRule::per_example);
  EXPECT_EQ(said(Matmul{}, {{4, 3, 8}, {4, 8, 3}}, 0b01), BatchRule::mixed);  // b stays whole
}

TEST(Parts, Broadcasting) {
  EXPECT_EQ(said(Add{}, {{4, 3}, {3}}, 0b01), BatchRule::per_example);
  EXPECT_EQ(said(Add{}, {{4, 3}, {1, 3}}, 0b01), BatchRule::per_example);
  EXPECT_EQ(said(Add{}, {{4, 3}, {4, 3}}, 0b01), BatchRule::mixed);  // b stays whole
  EXPECT_EQ(said(Add{}, {{4}, {4, 4}}, 0b01), BatchRule::mixed);     // a's rows are b's columns
  EXPECT_EQ(said(Add{}, {{3}, {3}}, 0, 0b11), BatchRule::summed);
  EXPECT_EQ(said(Add{}, {{3}, {3}}, 0, 0b01), BatchRule::mixed);  // else b were added for each part
  EXPECT_EQ(said(Mul{}, {{3}, {}}, 0, 0b01), BatchRule::summed);
  EXPECT_EQ(said(Mul{}, {{3}, {3}}, 0, 0b11), BatchRule::mixed);
  EXPECT_EQ(said(Div{}, {{3}, {}}, 0, 0b10), BatchRule::mixed);
  EXPECT_EQ(said(Unary<math::Unary::relu>{}, {{3}}, 0, 0b1), BatchRule::mixed);
}

TEST(Parts, SumsAndShapes) {
  EXPECT_EQ(said(SumTo{Shape{3}, true}, {{4, 3}, {3}}, 0b01, 0b10), BatchRule::summed);
  EXPECT_EQ(said(SumTo{Shape{4, 1}, false}, {{4, 3}}, 0b01), BatchRule::per_example);
  EXPECT_EQ(said(Reduce<math::Reduce::mean>{1}, {{4, 3}}, 0b1), BatchRule::mixed);
  EXPECT_EQ(said(Reduce<math::Reduce::sum>{1}, {{4, 3}}, 0b1), BatchRule::summed);
  EXPECT_EQ(said(Reshape{Shape{28, 8}}, {{4, 7, 8}}, 0b1), BatchRule::per_example);
  EXPECT_EQ(said(Reshape{Shape{7, 4, 8}}, {{4, 7, 8}}, 0b1), BatchRule::mixed);
  EXPECT_EQ(said(Permute{{0, 2, 1}}, {{4, 7, 8}}, 0b1), BatchRule::per_example);
  EXPECT_EQ(said(Permute{{1, 0, 2}}, {{4, 7, 8}}, 0b1), BatchRule::mixed);
  EXPECT_EQ(said(ScatterAdd{0, 9, true}, {{4}, {4, 3}, {9, 3}}, 0b011, 0b100), BatchRule::summed);
  EXPECT_EQ(said(ScatterAdd{0, 9, true}, {{4}, {4, 3}, {9, 3}}, 0b011), BatchRule::mixed);
  const LayerNormBackward norm{1e-5, true, true};
  const std::vector<Shape> shapes = {{4, 3}, {3}, {4, 3}, {3}, {3}};
  EXPECT_EQ(said(norm, shapes, 0b00101, 0b11000, 0), BatchRule::per_example);
  EXPECT_EQ(said(norm, shapes, 0b00101, 0b11000, 1), BatchRule::summed);
  EXPECT_EQ(said(norm, shapes, 0b00101, 0b11000, 2), BatchRule::summed);
  EXPECT_EQ(said(norm, shapes, 0b00101, 0b01000, 2), BatchRule::mixed);
}

// ---- false words are found out ----

std::string first_failure(const OpCall& call) {
  const auto failures = check_parts(call).failures;
  return failures.empty() ? "" : failures[0];
}

template <class Op, class Change>
std::string with_lie(const Op& op, Tensors in, Change change) {
  OpType lying = op_type<Op>();
  EXPECT_EQ(first_failure(call_of(op, in)), "");
  change(lying);
  return first_failure({AnyOp(lying, &op), std::move(in)});
}

TEST(Parts, SeesRowsThatAreNotApart) {
  const auto lie = [](OpType& t) {
    t.batch_rule = [](const void*, const BatchInputs& c, int) {
      return c.carry == 1 && !c.sums ? BatchRule::per_example : BatchRule::mixed;
    };
  };
  EXPECT_NE(with_lie(Cumsum{0}, {some({4, 3})}, lie).find("alone differ"), std::string::npos);
  EXPECT_NE(with_lie(Permute{{1, 0}}, {some({4, 4})}, lie).find("alone differ"), std::string::npos);
  EXPECT_NE(with_lie(Reduce<math::Reduce::max>{1}, {some({4, 3})}, lie).find("does not carry"),
            std::string::npos);
}

TEST(Parts, SeesWhatIsNotASum) {
  const auto lie = [](OpType& t) {
    t.batch_rule = [](const void*, const BatchInputs& c, int) {
      return c.carry ? BatchRule::summed : BatchRule::mixed;
    };
  };
  EXPECT_NE(with_lie(Reduce<math::Reduce::mean>{1}, {some({4, 3})}, lie).find("do not add up"),
            std::string::npos);
  const auto linear = [](OpType& t) {
    t.batch_rule = [](const void*, const BatchInputs& c, int) {
      return c.sums ? BatchRule::summed : BatchRule::mixed;
    };
  };
  EXPECT_NE(with_lie(Unary<math::Unary::square>{}, {some({3})}, linear).find("two terms"),
            std::string::npos);
}

// A chain that ends in another sum: the bits are others, the value is not.
TEST(Parts, SeesASumThatIsNotOneChain) {
  const auto lie = [](OpType& t) {
    t.run = [](const void*, Ins in, Outs out, Scratch) {
      const std::int64_t rows = in[0].shape()[0], n = in[0].shape()[1];
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += in[0].as<float>()[r * n + j];
        out[0].as<float>()[j] = in.size() > 1 ? in[1].as<float>()[j] + sum : sum;
      }
    };
  };
  EXPECT_NE(with_lie(SumTo{Shape{5}}, {some({64, 5})}, lie).find("differs going on after 1"),
            std::string::npos);
}

TEST(Parts, SeesWhatCannotBeOverwritten) {
  const auto lie = [](OpType& t) { t.overwrites = [](const void*, int) { return 0b1u; }; };
  EXPECT_NE(with_lie(Permute{{1, 0}}, {some({33, 33})}, lie).find("written over input 0"),
            std::string::npos);
}

TEST(Parts, SeesASumThatStartsElsewhereFromZeros) {
  const auto lie = [](OpType& t) {
    t.run = [](const void*, Ins in, Outs out, Scratch) {
      std::memset(out[0].data, in.size() > 1 ? 1 : 0, out[0].spec->bytes());
    };
  };
  EXPECT_NE(with_lie(SumTo{Shape{5}}, {some({64, 5})}, lie).find("differs starting from zeros"),
            std::string::npos);
}

// ---- sizes no row of the table has ----

// Outputs so large that they are stored past the caches, unless they lie over an input.
TEST(Parts, LargeArraysHold) {
  const Tensor x = some({2100, 1024}), y = some({2100, 1024}, 1), w = some({1024}, 2);
  const Tensor b = some({1024}, 3), dsum = Tensor::scalar(0.5);
  const Tensor labels = Tensor::zeros({2100}, DType::i64);
  for (const OpCall& call :
       {call_of(Unary<math::Unary::gelu>{}, {x}), call_of(Add{}, {x, y}), call_of(Mul{}, {x, w}),
        call_of(UnaryBackward<math::UnaryGrad::silu>{}, {x, y}), call_of(Softmax{}, {x}),
        call_of(SoftmaxBackward{}, {x, y}), call_of(LogSoftmaxBackward{}, {x, y}),
        call_of(LayerNorm{}, {x, w, b}), call_of(RmsNorm{}, {x, w}),
        call_of(LayerNormBackward{}, {x, w, y}), call_of(SumTo{Shape{1024}}, {x}),
        call_of(SparseCrossEntropyBackward{}, {x, labels, dsum}),
        call_of(CrossEntropyBackward{}, {x, y, dsum})}) {
    const PartsReport report = check_parts(call);
    EXPECT_GT(report.apart + report.summed, 0) << call.op.type().name;
    for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

// A sum over the rows of `in`, in uneven parts: each goes on from the last, the first from nothing
// or from zeros.
template <class Sum>
void expect_one_chain(const char* what, const Tensors& in, Sum sum) {
  const std::int64_t rows = in[0].dim(0);
  const Tensor whole = sum(in, Tensor());
  const auto in_parts = [&](Tensor so_far) {
    std::int64_t begin = 0;
    for (const std::int64_t end : {rows / 7, rows / 2 + 1, rows}) {
      Tensors part;
      for (const Tensor& x : in) part.push_back(x.rows(begin, end));
      so_far = sum(part, so_far);
      begin = end;
    }
    return so_far;
  };
  EXPECT_TRUE(same_bits(in_parts({}), whole)) << what << " from nothing";
  EXPECT_TRUE(same_bits(in_parts(Tensor::zeros(whole.shape(), whole.dtype())), whole))
      << what << " from zeros";
}

TEST(Parts, SumsOverExamplesAreOneChain) {
  const Tensor x = some({301, 130}), dy = some({301, 70}, 1);
  expect_one_chain("matmul_into", {x, dy}, [](const Tensors& in, Tensor so_far) {
    return matmul_into(std::move(so_far), in[0], in[1], {.transpose_a = true});
  });
  for (const Shape& to : {Shape{130}, Shape{1, 130}, Shape{1, 1}, Shape{}})
    expect_one_chain("sum_to", {x}, [&](const Tensors& in, Tensor so_far) {
      return sum_to(in[0], to, std::move(so_far));
    });
  for (const Shape& to : {Shape{1}, Shape{}})
    expect_one_chain("sum_to of a vector", {some({9001})}, [&](const Tensors& in, Tensor so_far) {
      return sum_to(in[0], to, std::move(so_far));
    });
  const Tensor weight = some({130}, 2), g = some({301, 130}, 3);
  for (const std::size_t output : {1, 2})
    expect_one_chain("layer_norm_backward", {x, g}, [&](const Tensors& in, Tensor so_far) {
      return layer_norm_backward(in[0], weight, in[1], 1e-5, output == 1 ? so_far : Tensor(),
                                 output == 2 ? so_far : Tensor())[output];
    });
  expect_one_chain("rms_norm_backward", {x, g}, [&](const Tensors& in, const Tensor& so_far) {
    return rms_norm_backward(in[0], weight, in[1], 1e-6, so_far)[1];
  });
  const Tensor image = some({15, 9, 10, 8}), dimage = some({15, 9, 10, 8}, 4);
  for (const std::int64_t groups : {1, 2, 8})
    expect_one_chain("conv2d_weight_grad", {image, dimage}, [&](const Tensors& in, Tensor so_far) {
      return conv2d_weight_grad(in[0], in[1], 3, 3, {.padding = {1, 1, 1, 1}, .groups = groups},
                                std::move(so_far));
    });
  Tensor ids = Tensor::zeros({301}, DType::i64);
  auto* id = reinterpret_cast<std::int64_t*>(ids.bytes());
  for (std::int64_t i = 0; i < 301; ++i) id[i] = i * i % 23;
  expect_one_chain("scatter_add", {ids, x}, [](const Tensors& in, Tensor so_far) {
    return scatter_add_along(in[0], in[1], 0, 23, std::move(so_far));
  });
}

}  // namespace
}  // namespace ebb::table
