// The guard: what a budget leaves beside the runtime is given out and no more.
#include <gtest/gtest.h>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/runtime.hpp"
#include "tests/base/roomy.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;
using test::kMiB;
using test::roomy;

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

}  // namespace
}  // namespace ebb
