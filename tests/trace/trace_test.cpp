#include "ebb/trace/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tape/custom.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/trace/passes.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::trace {
namespace {

const std::vector<Spec> kMatrix = {Spec{{4, 3}, DType::f32}};

Trace of(const Function& fn, const std::vector<Spec>& in = kMatrix) { return trace(fn, in); }

int count(const Trace& t, std::string_view op) {
  return static_cast<int>(std::count_if(t.calls.begin(), t.calls.end(),
                                        [&](const Call& c) { return c.op.type().name == op; }));
}

TEST(Trace, NotesCallsAndRunsNothing) {
  const Variable w("w", Tensor::ones({3, 3}));
  const Trace t =
      of([&](std::span<const Tensor> in) { return std::vector{relu(matmul(in[0], w))}; });
  EXPECT_EQ(to_string(t),
            "%2: f32(4, 3) = matmul(input0, w)\n"
            "%3: f32(4, 3) = relu(%2)\n"
            "return %3\n");
  EXPECT_EQ(t.variables, std::vector{w});
  EXPECT_FALSE(t.gradients);
}

TEST(Trace, AFunctionThatDecidesByValuesIsRefused) {
  try {
    of([](std::span<const Tensor> in) {
      return std::vector{sum(in[0]).item() > 0 ? in[0] : in[0] * 2.0f};
    });
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("only known when the compiled step runs"),
              std::string::npos)
        << e.what();
  }
}

TEST(Trace, ASymbolUsedOutsideIsRefused) {
  Tensor leaked;
  of([&](std::span<const Tensor> in) {
    leaked = in[0];
    return std::vector{in[0] * 2.0f};
  });
  EXPECT_THROW(leaked + leaked, Error);
  EXPECT_THROW(leaked.data<float>(), Error);
}

TEST(Trace, ConstantsAreFolded) {
  const Tensor a = Tensor::ones({4, 3});
  const Trace t =
      of([&](std::span<const Tensor> in) { return std::vector{in[0] + exp(a * 2.0f)}; });
  EXPECT_EQ(count(t, "exp"), 0);
  EXPECT_EQ(t.calls.size(), 1u);
  ASSERT_EQ(t.constants.size(), 1u);
  EXPECT_FLOAT_EQ(t.constants[0].data<float>()[0], std::exp(2.0f));
}

TEST(Trace, WhatGrowsIsFoldedOnlyWhereItIsSmall) {
  const Tensor a = Tensor::of({0.25f, -3, 7});
  const auto fn = [&](std::int64_t rows) {
    return [&a, rows](std::span<const Tensor> in) {
      return std::vector{in[0] + exp(broadcast_to(a * 2.0f, {rows, 3}))};
    };
  };
  const auto traced = [&](std::int64_t rows) {
    return simplified(of(fn(rows), {Spec{{rows, 3}, DType::f32}}));
  };
  EXPECT_EQ(traced(4).calls.size(), 3u);  // broadcast_to, exp, add: nothing of it ran
  const Trace small = folded(traced(4));
  EXPECT_EQ(small.calls.size(), 1u) << small;
  ASSERT_EQ(small.constants.size(), 1u) << "what only folded calls read is not held";
  EXPECT_EQ(small.constants[0].to_vector<float>(),
            exp(broadcast_to(a * 2.0f, {4, 3})).to_vector<float>());
  EXPECT_EQ(folded(small), small);

  const Trace large = folded(traced(100'000));
  EXPECT_EQ(large.calls.size(), 3u) << large;
  std::uint64_t bytes = 0;
  for (const Tensor& t : large.constants) bytes += t.spec().bytes();
  EXPECT_LE(bytes, 64u);
}

TEST(Trace, ViewsOfWhatIsFoldedAreFolded) {
  const Tensor a = Tensor::of({1, 2, 3});
  const Trace t = folded(simplified(of([&](std::span<const Tensor> in) {
    const Tensor table = reshape(broadcast_to(a, {8, 3}), {2, 4, 3});
    return std::vector{in[0] + reshape(slice(table, 0, 1, 2), {4, 3})};
  })));
  ASSERT_EQ(t.calls.size(), 1u) << t;
  ASSERT_EQ(t.constants.size(), 1u);
  EXPECT_EQ(t.constants[0].shape(), Shape({4, 3}));
  EXPECT_EQ(t.constants[0].data<float>()[5], 3.0f);
}

TEST(Trace, RandomCallsOfConstantsAreNotFolded) {
  const Tensor a = Tensor::ones({4, 3});
  const Trace t = folded(simplified(
      of([&](std::span<const Tensor> in) { return std::vector{in[0] + dropout(a, 0.5)}; })));
  EXPECT_EQ(count(t, "dropout"), 1) << t;
}

TEST(Trace, DeadCodeAndRepeatsGo) {
  const Trace t = of([](std::span<const Tensor> in) {
    const Tensor unused = exp(in[0]);
    return std::vector{tanh(in[0]) + tanh(in[0])};
  });
  EXPECT_EQ(t.calls.size(), 4u);
  const Trace s = simplified(t);
  EXPECT_EQ(count(s, "exp"), 0);
  EXPECT_EQ(count(s, "tanh"), 1);
  EXPECT_EQ(s.calls.size(), 2u);
  EXPECT_EQ(simplified(s), s);
}

TEST(Trace, DropoutsAreNotRepeats) {
  const Trace t = simplified(of([](std::span<const Tensor> in) {
    return std::vector{dropout(in[0], 0.5) + dropout(in[0], 0.5)};
  }));
  EXPECT_EQ(count(t, "dropout"), 2);
}

TEST(Trace, ACheckpointIsThePlannersToDecide) {
  const Variable w("w", Tensor::ones({3, 3}));
  const auto loss = [&](bool checkpointed) {
    return simplified(of([&](std::span<const Tensor> in) {
      const auto block = [&](const Tensor& x) { return tanh(matmul(dropout(x, 0.5), w)); };
      const Tensor y = sum(checkpointed ? checkpoint(block)(in[0]) : block(in[0]));
      return Tape::innermost()->gradient(y, std::span<const Variable>(&w, 1));
    }));
  };
  EXPECT_EQ(count(loss(true), "dropout"), count(loss(false), "dropout"));
  EXPECT_EQ(count(loss(true), "matmul"), count(loss(false), "matmul"));
}

TEST(Trace, ViewsShareBytes) {
  const Trace t = of([](std::span<const Tensor> in) {
    return std::vector{reshape(in[0], {12}) * 2.0f, slice(in[0], 0, 1, 3) * 2.0f};
  });
  ASSERT_EQ(t.calls.size(), 4u);
  EXPECT_TRUE(t.calls[0].view);
  const Value& rows = t.values[t.calls[2].out[0]];
  EXPECT_EQ(rows.base, 0);
  EXPECT_EQ(rows.offset, 12u);
}

TEST(Trace, IsAValue) {
  const auto once = [] {
    return of([](std::span<const Tensor> in) { return std::vector{relu(in[0]) * 2.0f}; });
  };
  EXPECT_EQ(once(), once());
  EXPECT_FALSE(once() ==
               of([](std::span<const Tensor> in) { return std::vector{relu(in[0]) * 3.0f}; }));
  EXPECT_NE(to_json(once()).find("\"op\": \"relu\""), std::string::npos);
  EXPECT_NE(to_dot(once()).find("digraph"), std::string::npos);
}

TEST(Trace, EagerCodeAroundItIsUntouched) {
  const Variable w("w", Tensor::ones({3, 3}));
  const Tensor x = Tensor::ones({4, 3});
  Tape tape;
  const Tensor y = sum(matmul(x, w));
  of([&](std::span<const Tensor> in) { return std::vector{matmul(in[0], w)}; });
  EXPECT_FLOAT_EQ(tape.gradient(y, w).data<float>()[0], 4.0f);
}

}  // namespace
}  // namespace ebb::trace
