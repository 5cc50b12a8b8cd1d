// What a machine is said to reach: by kind of work, kept in a small file, measured in little memory.
#include <gtest/gtest.h>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/ops/conv.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/plan/forecast/measure.hpp"

namespace ebb::plan {
namespace {

TEST(Machine, IsReadAsItWasWritten) {
  Machine m;
  m.threads = 3;
  m.sound = false;
  m.bytes = 12e9;
  m.shared_cache = 3e7;
  m.speed(ops::Work::scatter) = {7e9, 5e9, 2e9};
  Machine read;
  ASSERT_TRUE(parse(to_string(m), read));
  EXPECT_EQ(read, m);
  const std::string text = to_string(m);
  for (std::size_t length = 0; length + 12 < text.size(); length += 7)
    EXPECT_FALSE(parse(text.substr(0, length), read)) << length;
  EXPECT_FALSE(parse("ebb-machine 3\nthreads 1\nflops 1e11\n", read));
  // Without the speeds of memory, as they were kept before.
  std::string before = "ebb-machine 4\nthreads 1\nsound 1\nbytes 1e10\ncache 1e6\n";
  before += "seconds_per_call 2e-7\nseconds_per_fork 0\nspill_write 1e9\nspill_read 1e9\n";
  for (int i = 0; i < ops::kWorks; ++i) before += "speed 5e10 4e10\n";
  EXPECT_FALSE(parse(before, read)) << "it is measured anew";
}

TEST(Machine, EachKindOfWorkHasItsOwnSpeed) {
  const auto image = [](std::int64_t channels) { return Spec{{2, 8, 8, channels}, DType::f32}; };
  const Spec dense[] = {image(16), {{16, 3, 3, 16}, DType::f32}};
  const Spec deep[] = {image(16), {{16, 3, 3, 1}, DType::f32}};
  EXPECT_EQ(ops::Conv2d{}.cost(dense).work, ops::Work::convolution);
  EXPECT_EQ((ops::Conv2d{{.groups = 16}}.cost(deep).work), ops::Work::depthwise);
  const Spec square[] = {{{8, 8}, DType::f32}, {{8, 8}, DType::f32}};
  EXPECT_EQ(ops::Matmul{}.cost(square).work, ops::Work::product);

  Machine m;
  m.speed(ops::Work::product).flops = 100e9;
  m.speed(ops::Work::depthwise).flops = 10e9;
  const double fast = m.seconds({1e9, 0, ops::Work::product});
  EXPECT_NEAR(m.seconds({1e9, 0, ops::Work::depthwise}) / fast, 10, 0.1);
}

TEST(Machine, WhatIsFarComesFromMemory) {
  Machine m;
  m.bytes = 80e9;
  m.speeds.fill({50e9, 80e9, 20e9});
  m.speed(ops::Work::gather).far = 5e9;
  const ops::Cost moved{0, 8e6};
  EXPECT_NEAR(m.seconds(moved, 1) / m.seconds(moved), 4, 0.1);
  EXPECT_NEAR(m.seconds(moved, 0.5) / m.seconds(moved), 2.5, 0.1);
  const ops::Cost rows{0, 8e6, ops::Work::gather};
  EXPECT_NEAR(m.seconds(rows, 1) / m.seconds(moved, 1), 4, 0.1);
  m.speeds.fill({50e9, 80e9, 200e9});
  EXPECT_EQ(m.seconds(moved, 1), m.seconds(moved)) << "memory is not faster than a cache";
}

// What kernels do in one thread takes as long as one thread needs.
TEST(Machine, SmallCallsHaveOneThread) {
  Machine m;
  m.threads = 2;
  const ops::Cost small{0, 64 << 10}, large{0, 4 << 20};
  Machine one = m;
  one.threads = 1;
  EXPECT_NEAR(m.seconds(small) / one.seconds(small), 2, 0.2);
  EXPECT_NEAR(m.seconds(large) / one.seconds(large), 1, 0.01);
}

TEST(Machine, IsMeasuredInLittleMemory) {
  ledger::reset_peak();
  const std::uint64_t before = ledger::total().live;
  const Machine m = measured(0);
  EXPECT_LE(ledger::total().peak - before, 1u << 20);
  EXPECT_FALSE(m.sound);  // the speed of memory is a guess
  Machine read;
  EXPECT_TRUE(parse(to_string(m), read)) << to_string(m);
  EXPECT_EQ(read, m);
}

// One kind was measured while somebody else had a core, or all of them were.
TEST(Machine, WhatOthersHaveDisturbedIsNotBelieved) {
  Machine one;
  one.speeds.fill({80e9, 60e9, 15e9});
  one.bytes = 20e9;
  Machine all = one;
  all.threads = 2;
  for (Machine::Speed& s : all.speeds) s = {150e9, 110e9, 18e9};
  EXPECT_FALSE(is_disturbed(one, all));
  EXPECT_TRUE(together(one, all, true).sound);
  EXPECT_EQ(together(one, all, true).speeds, all.speeds);
  EXPECT_EQ(together(one, all, true).bytes, 20e9) << "memory may be as fast with one thread";
  EXPECT_EQ(together(one, all, false).speed(ops::Work::gather).far, 18e9);
  EXPECT_FALSE(together(one, all, false).sound);

  all.speed(ops::Work::product).flops = 82e9;
  EXPECT_TRUE(is_disturbed(one, all));
  const Machine found = together(one, all, true);
  EXPECT_FALSE(found.sound);
  EXPECT_GT(found.speed(ops::Work::product).flops, 120e9);
  EXPECT_EQ(found.speed(ops::Work::attention).flops, 150e9);

  for (Machine::Speed& s : all.speeds) s.flops = 84e9;  // as two threads of one core, at all kinds
  EXPECT_TRUE(together(one, all, true).sound);
  EXPECT_EQ(together(one, all, true).speed(ops::Work::product).flops, 84e9);
  EXPECT_GT(together(one, all, false).speed(ops::Work::product).flops, 120e9);
}

}  // namespace
}  // namespace ebb::plan
