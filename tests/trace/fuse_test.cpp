#include "ebb/trace/fuse.hpp"

#include <gtest/gtest.h>

#include "ebb/ops/binary.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::trace {
namespace {

const Spec kMatrix{{300, 40}, DType::f32};

Trace of(const Function& fn, const std::vector<Spec>& in) {
  return fused(simplified(trace(fn, in)));
}

TEST(Fuse, AChainBecomesOneCall) {
  const Trace t = of([](std::span<const Tensor> in) { return std::vector{silu(in[0]) * in[1]}; },
                     {kMatrix, kMatrix});
  EXPECT_EQ(to_string(t),
            "%2: f32(300, 40) = fused[silu mul](input0, input1)\n"
            "return %2\n");
  EXPECT_NE(to_json(t).find("\"op\": \"fused\""), std::string::npos);
  EXPECT_NE(to_json(t).find("\"fused\": [{\"op\": \"silu\", \"in\": [0], \"out\": 3}, "
                            "{\"op\": \"mul\", \"in\": [3, 1], \"out\": 2}]"),
            std::string::npos)
      << to_json(t);
  EXPECT_NE(to_dot(t).find("fused[silu mul]"), std::string::npos);
}

TEST(Fuse, TracesAreComparedByWhatTheirGroupsDo) {
  const auto traced = [](double factor) {
    return of([=](std::span<const Tensor> in) { return std::vector{exp(clip(in[0], 0, factor))}; },
              {kMatrix});
  };
  EXPECT_EQ(traced(2), traced(2));
  EXPECT_NE(traced(2), traced(3));
}

TEST(Fuse, WhatOthersReadStaysACallOfItsOwn) {
  const Trace t = of(
      [](std::span<const Tensor> in) {
        const Tensor a = exp(in[0]), b = a * a;
        return std::vector{b + 1.0, sum(a)};
      },
      {kMatrix});
  ASSERT_EQ(t.calls.size(), 3u) << t;  // exp, the sum, and b + 1
  EXPECT_EQ(title(t.calls[0]), "exp");
  EXPECT_EQ(title(t.calls[1]), "fused[mul add]");
}

TEST(Fuse, ResultsAndViewsAreNotLost) {
  const Trace t = of(
      [](std::span<const Tensor> in) {
        const Tensor a = exp(in[0]), b = neg(in[0]);
        return std::vector{a, sqrt(a), relu(reshape(b, {40, 300}))};
      },
      {kMatrix});
  for (const Call& c : t.calls) EXPECT_EQ(group_of(c), nullptr) << t;
}

TEST(Fuse, NothingIsHeldLongerThanBefore) {
  // a * b is half of what a and b are; both would be held until the second product is done.
  const auto fn = [](std::span<const Tensor> in) {
    const Tensor a = matmul(in[0], in[1]), b = matmul(in[1], in[0]), early = a * b;
    const Tensor late = matmul(matmul(in[0], in[0]), in[1]);
    return std::vector{early + late};
  };
  const Spec square{{64, 64}, DType::f32};
  const Trace t = of(fn, {square, square});
  for (const Call& c : t.calls) EXPECT_EQ(group_of(c), nullptr) << t;
}

TEST(Fuse, ABroadcastIsCutAlongTheAxesItAllows) {
  const auto group = [](const Spec& x, const Spec& y) {
    const Trace t =
        of([](std::span<const Tensor> in) { return std::vector{exp(in[0] + in[1])}; }, {x, y});
    return t.calls.size() == 1 ? *group_of(t.calls[0]) : Group{};
  };
  const Spec x{{500, 7, 30}, DType::f32};
  EXPECT_EQ(group(x, {{}, DType::f32}).places[0].tile.shape, Shape{4096});
  EXPECT_EQ(group(x, {{30}, DType::f32}).places[1].tile.shape, (Shape{1, 30}));
  EXPECT_EQ(group(x, {{500, 7, 1}, DType::f32}).places[1].tile.shape, (Shape{136, 1}));
  EXPECT_EQ(group(x, {{7, 30}, DType::f32}).places[0].tile.shape, (Shape{19, 7, 30}));
  EXPECT_EQ(group(x, {{500, 1, 30}, DType::f32}).places[1].tile.shape, (Shape{19, 1, 30}));
  // A row that would not stay in the cache is left to the separate kernels.
  EXPECT_TRUE(group({{4, 200, 200}, DType::f32}, {{200, 200}, DType::f32}).members.empty());
}

TEST(Fuse, WhatAStepUpdatesIsReadBefore) {
  // w * 2 is read by a call that comes after w's new value is there.
  Variable w("w", Tensor::ones({300, 40}));
  const Trace t = of(
      [&](std::span<const Tensor> in) {
        const Tensor twice = w * 2.0;
        w.assign(in[0] - w);
        return std::vector{exp(twice) + w};
      },
      {kMatrix});
  std::size_t doubled = t.calls.size(), updated = 0;
  for (std::size_t c = 0; c < t.calls.size(); ++c) {
    for (const Id id : t.calls[c].in)
      if (t.values[id].kind == Kind::variable && t.calls[c].out[0] != t.assigns[0].value)
        doubled = c;
    if (t.calls[c].out[0] == t.assigns[0].value) updated = c;
  }
  EXPECT_LT(doubled, updated) << t;
}

}  // namespace
}  // namespace ebb::trace
