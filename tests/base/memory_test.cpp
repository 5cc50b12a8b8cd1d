#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "ebb/base/error.hpp"

namespace ebb {
namespace {

TEST(Memory, SizesAreRoundedUpToAnAlignment) {
  EXPECT_EQ(memory::aligned(0), 0u);
  EXPECT_EQ(memory::aligned(1), 64u);
  EXPECT_EQ(memory::aligned(64), 64u);
  EXPECT_EQ(memory::aligned(65), 128u);
  EXPECT_EQ(round_up(4097, 4096), 8192u);
}

TEST(Memory, IsAlignedAndWritable) {
  for (std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 1u << 20, 9u << 20}) {
    void* p = memory::take(bytes, "test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % memory::kAlignment, 0u) << bytes;
    std::memset(p, 0xab, bytes);
    memory::give(p);
  }
}

TEST(Memory, ReusesWhatWasGivenBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "with the address sanitizer nothing is kept, so that a use after free is seen";
#endif
  for (int i = 0; i < 3; ++i) memory::give(memory::take(100000, "warm"));
  const std::uint64_t before = memory::system_calls();
  for (int i = 0; i < 100; ++i) memory::give(memory::take(100000 - i, "again"));
  EXPECT_EQ(memory::system_calls(), before);
}

TEST(Memory, TrimGivesKeptBlocksBack) {
  memory::give(memory::take(30 << 20, "large"));
  memory::trim();
  const std::uint64_t live = ledger::total().live;
  EXPECT_LE(memory::held(), live + (1 << 20) + live / 2);
}

TEST(Memory, WhatIsKeptIsBounded) {
  memory::trim();
  ledger::reset_peak();
  for (std::size_t mib = 1; mib < 60; ++mib) memory::give(memory::take(mib << 20, "growing"));
  EXPECT_LE(memory::held(), ledger::total().peak * 5 / 4 + (17u << 20));
  memory::trim();
}

TEST(Memory, LimitRefusesAndSaysWhy) {
  memory::trim();
  const Scope scope("big_layer");
  void* held = memory::take(20 << 20, "holder", Category::activations);
  memory::set_limit(memory::held() + (8 << 20));
  try {
    memory::take(10 << 20, "matmul");
    FAIL() << "the limit was not kept";
  } catch (const OutOfMemory& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("matmul asked for 10.0 MiB (10485760 bytes)"), std::string::npos) << text;
    EXPECT_NE(text.find("the limit is"), std::string::npos) << text;
    EXPECT_NE(text.find("20.0 MiB in activations of big_layer (holder)"), std::string::npos)
        << text;
    EXPECT_NE(text.find("checkpoint(fn)"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
  void* fits = memory::take(4 << 20, "fits");
  memory::give(fits);
  memory::set_limit(0);
  memory::give(held);
}

TEST(Memory, KeptBlocksMakeRoomBeforeARefusal) {
  memory::trim();
  memory::give(memory::take(40 << 20, "kept"));
  memory::set_limit(ledger::total().live + (30 << 20));
  void* p = nullptr;
  EXPECT_NO_THROW(p = memory::take(20 << 20, "fits once the kept block is gone"));
  memory::give(p);
  memory::set_limit(0);
}

TEST(Memory, InjectedFaultsFailTheNthTakeOnceOrFromThenOn) {
  const std::uint64_t live = ledger::total().live;
  {
    const memory::FailTake fail(2);
    void* a = memory::take(10, "first");
    EXPECT_THROW(memory::take(10, "second"), OutOfMemory);
    EXPECT_TRUE(fail.fired());
    void* c = memory::take(10, "third");
    memory::give(a);
    memory::give(c);
  }
  {
    const memory::FailTake fail(1, true);
    for (int i = 0; i < 5; ++i) EXPECT_THROW(memory::take(10, "each"), OutOfMemory);
  }
  memory::give(memory::take(10, "after"));
  EXPECT_EQ(ledger::total().live, live);
}

TEST(Memory, AbsurdSizesAreRefusedNotWrapped) {
  EXPECT_THROW(memory::take(~std::size_t{0} - 10, "absurd"), OutOfMemory);
  EXPECT_THROW(memory::take(std::size_t{1} << 60, "absurd"), OutOfMemory);
}

TEST(Memory, ManyThreadsTakeAndGive) {
  const std::uint64_t live = ledger::total().live;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      std::mt19937 random(t);
      std::vector<void*> mine;
      for (int i = 0; i < 3000; ++i) {
        if (mine.empty() || random() % 2) {
          mine.push_back(memory::take(random() % 5000, "thread"));
        } else {
          memory::give(mine.back());
          mine.pop_back();
        }
      }
      for (void* p : mine) memory::give(p);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(ledger::total().live, live);
}

}  // namespace
}  // namespace ebb
