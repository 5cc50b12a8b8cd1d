#include "ebb/trace/gradient_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ebb/base/pool.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/row_block.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/trace/fuse.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::trace {
namespace {

const Spec kIds{{12}, DType::i64}, kRows{{12, 128}, DType::f32};

Trace of(const Function& fn, const std::vector<Spec>& in) {
  Trace t = simplified(trace(fn, in));
  t.carry.clear();  // the batch is taken as a whole
  return with_gradient_blocks(t);
}

// Titles of the calls that update something.
std::vector<std::string> updates(const Trace& t) {
  std::vector<std::string> out;
  for (const Call& call : t.calls)
    if (call.op.type().once) out.push_back(title(call));
  return out;
}

struct Model {
  Variable w{"w", random::normal({1100, 128}, 0, 1, 1, 1)};
  Variable v{"v", random::normal({1100, 128}, 0, 1, 1, 2)};
  optim::Sgd sgd{{w, v}, {.lr = 0.1}};
};

using Texts = std::vector<std::string>;

TEST(GradientBlocks, TheGradientOfATiedWeightIsMadeInItsUpdate) {
  Variable w("w", random::normal({1100, 128}, 0, 1, 1, 1));
  optim::AdamW adam({w}, {.lr = 0.1});
  const Trace t = of(
      [&](std::span<const Tensor> in) {
        const Loss loss = adam.minimize(linear_cross_entropy(tanh(embedding(w, in[0])), w, in[1]));
        return std::vector{loss.sum};
      },
      {kIds, kIds});
  EXPECT_EQ(updates(t), Texts{"gradient_blocks[linear_cross_entropy_weight_grad scatter_add adam]"})
      << t;
  ASSERT_EQ(t.gradient_blocks.size(), 1u);
  const GradientBlocks& w0 = *t.gradient_blocks[0];
  EXPECT_EQ(w0.blocks, 1u) << "the sum goes on where it stands";
  EXPECT_EQ(w0.at_once, (1 << 15) / 128);
  EXPECT_EQ(
      std::count_if(t.values.begin(), t.values.end(),
                    [&](const Value& v) { return v.kind == Kind::made && v.spec == w.spec(); }),
      3)
      << "a whole gradient is left beside parameter and state";
}

// What a call writes is as large as its op says, also where 16 bits go in and sums are f32.
TEST(GradientBlocks, ResultsHaveTheTypesTheirOpsGive) {
  for (const DType type : {DType::f32, DType::bf16}) {
    Variable w("w", random::normal({1100, 128}, 0, 1, 1, 1));
    optim::AdamW adam({w}, {.lr = 0.1});
    const Trace t = of(
        [&](std::span<const Tensor> in) {
          return std::vector{adam.minimize(linear_cross_entropy(in[0], w, in[1])).sum};
        },
        {{kRows.shape, type}, kIds});
    int taken_apart = 0;
    for (const Call& call : t.calls) {
      if (call.op.type().name != std::string_view("linear_cross_entropy_input_grad")) continue;
      ++taken_apart;
      std::vector<Spec> in, out(call.out.size());
      for (const Id id : call.in) in.push_back(t.values[id].spec);
      call.op.type().shape(call.op.attributes(), in, out.data());
      for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(t.values[call.out[i]].spec, out[i]) << "result " << i << " of " << name(type);
    }
    EXPECT_EQ(taken_apart, 1) << t;
  }
}

TEST(GradientBlocks, ProductsAndElementwiseCallsAreTakenToo) {
  Model m;
  const Trace t = of(
      [&](std::span<const Tensor> in) {
        const Tensor y = matmul(in[0], m.w * 0.5, {.transpose_b = true});
        const Tensor z = matmul(y, m.v) + matmul(square(y), m.v);
        return std::vector{m.sgd.minimize({sum(square(z)), Tensor::scalar(12, DType::i64)}).sum};
      },
      {kRows});
  EXPECT_EQ(updates(t),
            (Texts{"gradient_blocks[matmul mul sgd]", "gradient_blocks[matmul matmul sgd]"}))
      << t;
}

// Fewer rows may take more scratch than many: a product of a few is worked on in another way.
TEST(GradientBlocks, ScratchIsEnoughForTheLastBlock) {
  const int before = pool::threads();
  for (const int threads : {1, 2, 8}) {
    pool::set_threads(threads);
    for (const std::int64_t rows : {2561, 2573, 2700, 5000}) {
      for (const std::int64_t batch : {12, 31, 60}) {
        Variable w("w", random::normal({rows, 64}, 0, 1, 1, 1));
        optim::Sgd sgd({w}, {.lr = 0.1});
        const Trace t = of(
            [&](std::span<const Tensor> in) {
              const Tensor y = matmul(in[0], w, {.transpose_b = true});
              return std::vector{sgd.minimize({sum(square(y)), Tensor::scalar(1, DType::i64)}).sum};
            },
            {Spec{{batch, 64}, DType::f32}});
        ASSERT_EQ(t.gradient_blocks.size(), 1u);
        const GradientBlocks& by = *t.gradient_blocks[0];
        const Spec in[] = {{{batch, rows}, DType::f32}, {{batch, 64}, DType::f32}};
        for (const std::int64_t some : {by.at_once, rows % by.at_once})
          EXPECT_GE(by.scratch, ops::row_block_scratch(by.members[0].op, in, some))
              << some << " rows of " << rows << ", batch " << batch << ", " << threads
              << " threads";
      }
    }
  }
  pool::set_threads(before);
}

// The whole of it is asked for: by the program, by the norm of all gradients; or it is read from
// the parameter as a whole, which is not there any more when some of its rows are updated.
TEST(GradientBlocks, WhereSomebodyElseReadsItItStays) {
  Model m;
  const auto loss = [&](std::span<const Tensor> in) {
    return Loss{sum(square(matmul(in[0], m.w, {.transpose_b = true}))),
                Tensor::scalar(12, DType::i64)};
  };
  const auto plain = [&](std::span<const Tensor> in) {
    return std::vector{m.sgd.minimize(loss(in)).sum};
  };
  EXPECT_EQ(of(plain, {kRows}).gradient_blocks.size(), 1u);
  m.sgd.clip_norm(1);
  EXPECT_TRUE(of(plain, {kRows}).gradient_blocks.empty());

  Model other;
  const auto gram = [&](std::span<const Tensor>) {
    const Tensor all = matmul(other.w, other.w, {.transpose_b = true});
    return std::vector{other.sgd.minimize({sum(all), Tensor::scalar(1, DType::i64)}).sum};
  };
  EXPECT_TRUE(of(gram, {kRows}).gradient_blocks.empty());
}

TEST(GradientBlocks, SmallGradientsStay) {
  Variable w("w", random::normal({100, 128}, 0, 1, 1, 1));
  optim::Sgd sgd({w}, {.lr = 0.1});
  const Trace t = of(
      [&](std::span<const Tensor> in) {
        return std::vector{sgd.minimize({sum(square(matmul(in[0], w, {.transpose_b = true}))),
                                         Tensor::scalar(12, DType::i64)})
                               .sum};
      },
      {kRows});
  EXPECT_EQ(updates(t), Texts{"sgd"});
}

}  // namespace
}  // namespace ebb::trace
