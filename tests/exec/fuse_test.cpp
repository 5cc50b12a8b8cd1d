// Fused calls in compiled steps: the bits of eager code, less memory between.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ebb/base/pool.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/trace/fuse.hpp"

namespace ebb {
namespace {

const CompileOptions kPlain{.recompute = false, .split = false, .spill = false};

// A random expression over the inputs, whose first is as large as the result.
Tensor expression(std::span<const Tensor> in, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<Tensor> pool(in.begin(), in.end());
  const auto any = [&]() -> const Tensor& { return pool[draw() % pool.size()]; };
  const auto recent = [&]() -> const Tensor& {
    return pool[pool.size() - 1 - draw() % std::min<std::size_t>(pool.size(), 3)];
  };
  Tensor last = in[0];
  for (std::size_t i = 0, count = 3 + draw() % 20; i < count; ++i) {
    Tensor next;
    switch (draw() % 8) {
      case 0:
        next = tanh(recent());
        break;
      case 1:
        next = clip(any(), -1.5, 2);
        break;
      case 2:
        next = recent() * any();
        break;
      case 3:
        next = any() - recent();
        break;
      case 4:
        next = where(greater(recent(), any()), any(), recent());
        break;
      case 5:
        next = cast(cast(recent(), DType::f64), DType::f32);
        break;
      case 6:
        next = 0.5 * recent();
        break;
      default:
        next = sigmoid(any());
    }
    pool.push_back(next);
    last = clip(last + next, -3, 3);
  }
  return last;
}

TEST(Fused, RandomExpressionsGiveTheBitsOfEager) {
  std::random_device device;
  const std::uint64_t first = device();
  const std::vector<std::vector<Shape>> shapes = {
      {{513}, {}, {1}},         {{70, 129}, {129}, {70, 1}}, {{11, 5, 300}, {5, 1}, {11, 1, 300}},
      {{3, 20000}, {3, 1}, {}}, {{1, 33}, {33}, {1, 1}},     {{257, 64}, {257, 64}, {64}}};
  std::size_t groups = 0;
  for (std::uint64_t k = 0; k < 60; ++k) {
    const std::uint64_t seed = first + k;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::vector<Tensor> in;
    std::vector<Spec> specs;
    for (const Shape& s : shapes[seed % shapes.size()]) {
      in.push_back(random::normal(s, 0, 1, seed, in.size()));
      specs.push_back(in.back().spec());
    }
    const auto fn = [&](std::span<const Tensor> x) { return std::vector{expression(x, seed)}; };
    exec::Compiled step(nullptr, specs, kPlain, fn);
    for (const trace::Call& c : step.plan().programs[0].trace.calls)
      groups += trace::group_of(c) != nullptr;
    const Tensor expected = fn(in)[0], got = step.run(in)[0];
    ASSERT_EQ(got.spec(), expected.spec());
    EXPECT_EQ(std::memcmp(got.raw(), expected.raw(), got.spec().bytes()), 0);
  }
  EXPECT_GT(groups, 60u);
}

TEST(Fused, GradientsGiveTheBitsOfEagerOnAnyThreads) {
  const Tensor x = random::normal({300, 129}, 0, 1, 1, 1), b = random::normal({129}, 0, 1, 1, 2);
  const auto fn = [](std::span<const Tensor> in) {
    const Tensor h = silu(in[0] * in[1] + in[1]);
    return gradients(sum(square(h) / (1.0 + exp(-h)), {}), in);
  };
  std::vector<Tensor> expected;
  {
    Tape tape;
    tape.watch(x);
    tape.watch(b);
    expected = fn(std::vector{x, b});
  }
  const int threads = pool::threads();
  for (const int count : {1, 2, 5}) {
    pool::set_threads(2);
    exec::Compiled step(nullptr, {x.spec(), b.spec()}, kPlain, fn);
    pool::set_threads(count);  // also other than those it was planned for
    const std::vector<Tensor>& got = step.run(std::vector{x, b});
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(std::memcmp(got[i].raw(), expected[i].raw(), got[i].spec().bytes()), 0)
          << count << " threads, gradient " << i;
  }
  pool::set_threads(threads);
}

TEST(Fused, WhatIsBetweenTakesNoMemory) {
  const Spec x{{1024, 1024}, DType::f32};
  const auto fn = [](std::span<const Tensor> in) {
    return std::vector{sigmoid(in[0]) * in[1] + sigmoid(in[1]) * tanh(in[0])};
  };
  CompileOptions apart = kPlain;
  apart.fuse = false;
  const exec::Compiled one(nullptr, {x, x}, kPlain, fn), many(nullptr, {x, x}, apart, fn);
  EXPECT_LT(one.plan().arena, x.bytes() / 10);
  EXPECT_GE(many.plan().arena, 2 * x.bytes());
}

}  // namespace
}  // namespace ebb
