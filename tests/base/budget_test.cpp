// The guard: what a budget leaves beside the runtime is given out and no more, and what was promised to
// one is not given to another.
#include <gtest/gtest.h>

#include <cstring>

#include "ebb/base/budget.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/process.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t roomy() { return runtime::reserve() + memory::held() + 16 * kMiB; }

TEST(Budget, TheSmallestThatLivesCounts) {
  EXPECT_EQ(Budget::now(), 0u);
  {
    const Budget large(1_GiB);
    EXPECT_EQ(Budget::now(), 1024 * kMiB);
    {
      Budget small(512_MiB);
      EXPECT_EQ(Budget::now(), 512 * kMiB);
      const Budget moved(std::move(small));
      EXPECT_EQ(Budget::now(), 512 * kMiB);
    }
    EXPECT_EQ(Budget::now(), 1024 * kMiB);
  }
  EXPECT_EQ(Budget::now(), 0u);
  EXPECT_EQ(memory::limit(), 0u);
}

TEST(Budget, TheSeamGivesOutWhatItLeavesAndNoMore) {
  const Budget budget(ByteSize{roomy()});
  const memory::Buffer fits(12 * kMiB, "mine");
  const std::string error = error_of([] { memory::Buffer(12 * kMiB, "too much"); });
  EXPECT_NE(error.find("too much asked for 12.0 MiB"), std::string::npos) << error;
  EXPECT_NE(error.find("mine"), std::string::npos) << error;
}

TEST(Budget, WhatIsPromisedToOneIsNotGivenToAnother) {
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

TEST(Budget, ABufferCanBeCountedToAnother) {
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

TEST(Budget, RoomIsKeptForTheProgramItself) {
  const memory::Room room(6 * kMiB);
  memory::Promise promise("steps");
  const Budget budget(ByteSize{roomy()});
  {
    const memory::Drawing draws(promise);
    EXPECT_THROW(memory::Buffer(12 * kMiB, "steps"), OutOfMemory);
  }
  const memory::Buffer mine(5 * kMiB, "mine");
}

TEST(Budget, WhatIsBorrowedMayBePromisedToOthers) {
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

// Tensors are not all there is: a vector of the program's is seen when Ebb asks the system for more.
TEST(Budget, WhatTheProgramHoldsBesideTensorsIsSeen) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what a sanitizer holds is not told from the program's";
#endif
  const Budget budget(ByteSize{roomy()});
  const std::vector<char> vector(14 * kMiB, 'x');
  const std::string error = error_of([] { memory::Buffer(12 * kMiB, "arena"); });
  EXPECT_NE(error.find("beside Ebb's tensors"), std::string::npos) << error << vector[1];
}

TEST(Budget, KeptBlocksCountAndAreGivenBackFirst) {
  const Budget budget(ByteSize{roomy()});
  for (std::size_t size = kMiB; size < 14 * kMiB; size += kMiB) memory::Buffer(size, "one size");
  EXPECT_LE(memory::held(), memory::limit());
  const memory::Buffer large(14 * kMiB, "another size");
  EXPECT_LE(memory::held(), memory::limit());
}

// Small blocks cost the heap more than their size.
TEST(Budget, ManySmallBlocksStayInIt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what a sanitizer holds is not told from the program's";
#endif
  for (const std::size_t size : {4, 100, 300, 1000}) {
    const Budget budget(ByteSize{runtime::reserve() + memory::held() + 24 * kMiB});
    std::vector<void*> all;
    all.reserve(200'000);
    EXPECT_THROW(
        for (;;) {
          all.push_back(memory::take(size, "small"));
          std::memset(all.back(), 1, size);
        },
        OutOfMemory);
    EXPECT_GT(all.size(), 10'000u);
    EXPECT_LE(process::resident(), Budget::now() + all.capacity() * sizeof(void*)) << size;
    for (void* block : all) memory::give(block);
    memory::trim();
  }
}

TEST(Budget, TheSpaceOfARoomFollowsWhatIsHeld) {
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

TEST(Budget, TheReserveIsMeasuredOnce) {
  const std::uint64_t first = runtime::reserve();
  {
    const runtime::Plans plans(3 * kMiB);
    EXPECT_EQ(runtime::reserve(), first + 3 * kMiB);
  }
  EXPECT_EQ(runtime::reserve(), first);
}

}  // namespace
}  // namespace ebb
