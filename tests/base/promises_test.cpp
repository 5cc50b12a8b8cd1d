// What was promised to one is not given to another.
#include "ebb/base/memory/promises.hpp"

#include <gtest/gtest.h>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/runtime.hpp"
#include "tests/base/roomy.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;
using test::kMiB;
using test::roomy;

TEST(Promises, WhatIsPromisedToOneIsNotGivenToAnother) {
  memory::Promise promise("somebody");
  promise.set(10 * kMiB);
  const Budget budget(ByteSize{roomy()});
  const std::string error = error_of([] { memory::Buffer(8 * kMiB, "another"); });
  EXPECT_NE(error.find("set aside: 10.0 MiB for somebody"), std::string::npos) << error;
  {
    const memory::Drawing draws(promise);
    const memory::Buffer his(9 * kMiB, "his");
    EXPECT_GE(promise.drawn(), 9 * kMiB);
    EXPECT_THROW(memory::Buffer(9 * kMiB, "more than was promised"), OutOfMemory);
  }
  EXPECT_EQ(promise.drawn(), 0u);
  promise.set(0);
  const memory::Buffer now(8 * kMiB, "another");
}

TEST(Promises, ABufferCanBeCountedToAnother) {
  memory::Promise promise("somebody");
  const std::uint64_t own = memory::own();
  void* const bytes = memory::take(kMiB, "given");
  EXPECT_EQ(memory::own(), own + memory::charge_of(kMiB));
  memory::draw(bytes, &promise);
  EXPECT_EQ(memory::own(), own);
  EXPECT_EQ(promise.drawn(), memory::charge_of(kMiB));
  memory::draw(bytes, nullptr);
  EXPECT_EQ(promise.drawn(), 0u);
  memory::give(bytes);
}

TEST(Promises, RoomIsKeptForTheProgramItself) {
  const memory::Room room(6 * kMiB);
  memory::Promise promise("steps");
  const Budget budget(ByteSize{roomy()});
  {
    const memory::Drawing draws(promise);
    EXPECT_THROW(memory::Buffer(12 * kMiB, "steps"), OutOfMemory);
  }
  const memory::Buffer mine(5 * kMiB, "mine");
}

TEST(Promises, WhatIsBorrowedMayBePromisedToOthers) {
  memory::Promise promise("steps");
  promise.set(14 * kMiB);
  const Budget budget(ByteSize{roomy()});
  EXPECT_THROW(memory::Buffer(8 * kMiB, "saving"), OutOfMemory);
  const memory::Borrowing between_steps;
  const memory::Buffer saving(8 * kMiB, "saving");
  const memory::Buffer less = memory::up_to(64 * kMiB, kMiB, "less", Category::workspace);
  EXPECT_LT(less.size(), 9 * kMiB);
  EXPECT_GE(less.size(), kMiB);
}

TEST(Promises, TheSpaceOfARoomFollowsWhatIsHeld) {
  void* const before = memory::take(4 * kMiB, "before");
  const std::uint64_t own = memory::own();
  {
    const memory::Room room(kMiB);
    EXPECT_EQ(memory::own(), own + kMiB);
    memory::give(before);  // is no longer set aside
    EXPECT_EQ(memory::own(), own - memory::charge_of(4 * kMiB) + kMiB);
  }
  EXPECT_EQ(memory::own(), own - memory::charge_of(4 * kMiB));
}

TEST(Room, ThatOthersWerePromisedIsRefused) {
  const Budget budget(ByteSize{roomy()});
  memory::Promise steps("steps");
  steps.set(12 * kMiB);
  const std::string error = error_of([] { memory::Room(6 * kMiB); });
  EXPECT_NE(error.find("a Room asked for"), std::string::npos) << error;
  memory::Room(3 * kMiB);
}

TEST(Budget, SmallerThanTheRuntimeIsCalledThat) {
  const Budget budget(ByteSize{1 << 20});
  const std::string error = error_of([] { memory::Buffer(64, "some"); });
  EXPECT_NE(error.find("the budget of 1.0 MiB is less than what code"), std::string::npos) << error;
}

}  // namespace
}  // namespace ebb
