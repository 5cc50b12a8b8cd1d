// The spill file gives back what was written, in the order of the calls.
#include "ebb/exec/spill/spill_file.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "tests/exec/spill_fixture.hpp"

namespace ebb::exec {
namespace {

class SpillFileTest : public SpillFixture {};

TEST_P(SpillFileTest, GivesBackWhatWasWritten) {
  for (const int threads : {1, 2}) {
    SpillOptions o = options();
    o.threads = threads;
    for (const std::uint64_t bytes : {0ul, 1ul, 4095ul, 4096ul, 4097ul, 256 * kKiB, 256 * kKiB + 1,
                                      9 * kMiB, 9 * kMiB + 12345}) {
      for (const std::size_t shift : {0ul, 64ul, 4095ul}) {
        SpillFile spill(o, std::vector<SpillSlot>{{17}, {bytes}, {17}});
        Bytes a(bytes, shift), b(bytes, 0), c(bytes, shift), side(17);
        a.fill(bytes + 1);
        side.fill(5);
        put(spill, 0, side);
        put(spill, 2, side);
        put(spill, 1, a);
        get(spill, 1, b);
        get(spill, 1, c);
        ASSERT_TRUE(a == b && a == c) << bytes << " bytes, shift " << shift;
        Bytes beside(17);
        get(spill, 0, beside);
        ASSERT_TRUE(beside == side);
        get(spill, 2, beside);
        ASSERT_TRUE(beside == side);
      }
    }
  }
}

TEST_P(SpillFileTest, StandsAModelOfItself) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::vector<SpillSlot> slots;
  for (int i = 0; i < 6; ++i) slots.push_back({1 + below(3 * kMiB), i % 2 == 0});
  SpillOptions o = options();
  o.tickets = 3;
  SpillFile spill(o, slots);
  struct Content {
    std::vector<std::byte> now, committed;
  };
  std::vector<Content> model(slots.size());
  const auto same = [&](std::span<std::byte> found, std::uint64_t at, const Content& c) {
    return found.empty() || std::memcmp(found.data(), c.now.data() + at, found.size()) == 0;
  };
  for (int step = 0; step < 150; ++step) {
    const auto i = static_cast<int>(below(slots.size()));
    Content& c = model[static_cast<std::size_t>(i)];
    const std::uint64_t room = slots[static_cast<std::size_t>(i)].bytes;
    switch (below(7)) {
      case 0:
      case 1: {
        const std::uint64_t n = below(3) ? room : below(room + 1);
        Bytes from(n, below(2) ? 0 : below(4096));
        from.fill(random());
        c.now.assign(from.span().begin(), from.span().end());
        put(spill, i, from);
        break;
      }
      case 2:
      case 3: {
        Bytes to(below(2) ? c.now.size() : below(c.now.size() + 1), below(2) ? 0 : below(4096));
        get(spill, i, to);
        ASSERT_TRUE(same(to.span(), 0, c)) << "step " << step;
        break;
      }
      case 4: {
        const std::uint64_t at = below(c.now.size() + 1), n = below(room - at + 1);
        Bytes from(n, below(4096));
        from.fill(random());
        spill.write_now(i, at, from.span());
        if (at + n > c.now.size()) c.now.resize(at + n);
        std::copy(from.span().begin(), from.span().end(),
                  c.now.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
      case 5: {
        const std::uint64_t at = below(c.now.size() + 1);
        Bytes to(below(c.now.size() - at + 1), below(4096));
        spill.read_now(i, at, to.span());
        ASSERT_TRUE(same(to.span(), at, c)) << "step " << step;
        break;
      }
      default: {
        const bool commit = below(2);
        commit ? spill.commit() : spill.rollback();
        for (std::size_t k = 0; k < model.size(); k += 2)
          commit ? model[k].committed = model[k].now : model[k].now = model[k].committed;
      }
    }
  }
}

TEST_P(SpillFileTest, KeepsTheOrder) {
  constexpr std::size_t kBytes = 2 * kMiB;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}, {kBytes}});
  Bytes a(kBytes), b(kBytes), x(kBytes), first(kBytes), second(kBytes);
  a.fill(1);
  b.fill(2);
  std::memcpy(x.span().data(), a.span().data(), kBytes);
  spill.wait(spill.write(1, b.span()));
  spill.write(0, x.span());
  spill.read(0, first.span());
  spill.read(1, x.span());  // into memory that is still being written out
  spill.write(0, b.span());
  spill.wait(spill.read(0, second.span()));
  spill.commit();  // waits for all
  EXPECT_TRUE(first == a);
  EXPECT_TRUE(second == b);
  EXPECT_TRUE(x == b);
}

TEST_P(SpillFileTest, ManyTicketsInAShortRing) {
  SpillOptions o = options();
  o.tickets = 2;
  std::vector<SpillSlot> slots(20, {100 * kKiB});
  SpillFile spill(o, slots);
  std::vector<std::unique_ptr<Bytes>> out, in;
  SpillFile::Ticket last{};
  for (int i = 0; i < 20; ++i) {
    out.push_back(std::make_unique<Bytes>(100 * kKiB));
    in.push_back(std::make_unique<Bytes>(100 * kKiB));
    out.back()->fill(static_cast<std::uint64_t>(i));
    last = spill.write(i, out.back()->span());
  }
  for (int i = 0; i < 20; ++i) last = spill.read(i, in[static_cast<std::size_t>(i)]->span());
  spill.wait(last);
  spill.commit();
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(*out[i] == *in[i]) << i;
  EXPECT_EQ(spill.stats().bytes_written, 20 * 100 * kKiB);
  EXPECT_EQ(spill.stats().bytes_read, 20 * 100 * kKiB);
  EXPECT_GT(spill.stats().busy_seconds, 0);
}

TEST_P(SpillFileTest, GenerationsSwitchTogetherOrNotAtAll) {
  constexpr std::size_t kBytes = kMiB + 100;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes, true}, {kBytes, true}});
  Bytes a(kBytes), b(kBytes), c(kBytes);
  a.fill(1);
  b.fill(2);
  put(spill, 0, a);
  put(spill, 1, a);
  spill.commit();
  put(spill, 0, b);
  expect_holds(spill, 0, b);
  spill.rollback();
  expect_holds(spill, 0, a);

  put(spill, 0, b);
  {
    file_faults::Guard guard;
    file_faults::fail_write(1, Fault::enospc, Repeat::from_then_on);
    EXPECT_HAS(error_of([&] { put(spill, 1, b); }), "No space left");
  }
  EXPECT_HAS(error_of([&] { spill.commit(); }), "slot 1");
  EXPECT_HAS(error_of([&] { get(spill, 1, c); }), "write it again");
  spill.rollback();
  for (const int slot : {0, 1}) expect_holds(spill, slot, a);
  put(spill, 0, b);
  put(spill, 1, b);
  spill.commit();
  spill.rollback();
  for (const int slot : {0, 1}) expect_holds(spill, slot, b);
}

// Element i begins as i.
class Counted final : public InitialValue {
 public:
  void fill(std::span<std::byte> to, std::uint64_t element) const override {
    for (std::size_t i = 0; i < to.size() / 4; ++i) {
      const auto value = static_cast<std::uint32_t>(element + i);
      std::memcpy(to.data() + 4 * i, &value, 4);
    }
  }
  bool lasting() const override { return true; }
};

TEST_P(SpillFileTest, WhatASlotBeginsWithIsNeverWritten) {
  constexpr std::size_t kBytes = 5 * kMiB / 4 + 100;
  const std::uint64_t writes = file_faults::count(Call::write);
  SpillFile spill(options(),
                  std::vector<SpillSlot>{{kBytes, true, std::make_shared<Counted>(), 4}, {kBytes}});
  EXPECT_LE(file_faults::count(Call::write), writes + 1);  // a page, to see whether it can be
  Bytes first(kBytes), found(kBytes), written(kBytes);
  Counted().fill(first.span(), 0);
  written.fill(3);
  expect_holds(spill, 0, first);
  Bytes part(kMiB);
  spill.read_now(0, 16 * kKiB, part.span());
  EXPECT_EQ(std::memcmp(part.span().data(), first.span().data() + 16 * kKiB, kMiB), 0);

  // A part of it written: the rest of the granule is what it was.
  spill.write_now(0, 300 * kKiB, written.part(300 * kKiB, 10 * kKiB));
  Bytes mixed(kBytes);
  std::memcpy(mixed.span().data(), first.span().data(), kBytes);
  std::memcpy(&mixed[300 * kKiB], &written[300 * kKiB], 10 * kKiB);
  expect_holds(spill, 0, mixed);
  spill.rollback();
  expect_holds(spill, 0, first);

  put(spill, 0, written);
  spill.commit();
  spill.rollback();
  expect_holds(spill, 0, written);
  EXPECT_HAS(error_of([&] { get(spill, 1, found); }), "write them first");
}

TEST_P(SpillFileTest, WhatWasNotWrittenIsNotRead) {
  SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}, {10}});
  Bytes a(1000), c(1001);
  error_of([&] { get(spill, 0, c); });
  put(spill, 0, a);
  error_of([&] { get(spill, 0, c); });
  error_of([&] { spill.write_now(0, 2000, a.span()); });  // would leave a gap
  put(spill, 0, a);
  Bytes whole(kMiB), nothing(0);
  put(spill, 0, whole);
  put(spill, 0, a);  // shorter: the rest is gone
  error_of([&] { spill.read_now(0, 512 * kKiB, c.span()); });
  put(spill, 0, nothing);
  error_of([&] { spill.read_now(0, 0, c.part(0, 1)); });
  EXPECT_THROW(spill.write(2, a.span()), Error);
  EXPECT_THROW(spill.write(-1, a.span()), Error);
  EXPECT_THROW(spill.write(1, a.span()), Error);
  EXPECT_THROW(spill.read_now(1, ~0ull, a.span()), Error);
  EXPECT_THROW(spill.wait({1000}), Error);
  spill.wait({});
}

TEST_P(SpillFileTest, MemoryIsCountedAndFailsCleanly) {
  const std::vector<SpillSlot> slots{{10 * kMiB}, {5000, true}};
  const std::uint64_t before = ledger::total().live;
  {
    SpillFile spill(options(), slots);
    EXPECT_EQ(ledger::total().live - before, SpillFile::memory_bytes(options(), slots));
    EXPECT_LT(ledger::total().live - before, 600 * kKiB);
    struct stat info;
    ::fstat(spill.descriptor(), &info);
    EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), SpillFile::file_bytes(slots));
    EXPECT_EQ(SpillFile::file_bytes(slots), 10 * kMiB + 2 * 8192);
  }
  EXPECT_EQ(ledger::total().live, before);
  for (const int nth : {1, 2, 3}) {
    memory::FailTake fail(static_cast<std::uint64_t>(nth));
    EXPECT_THROW(SpillFile(options(), slots), OutOfMemory);
  }
  EXPECT_EQ(ledger::total().live, before);
}

// Pages of the file in the page cache.
TEST_P(SpillFileTest, LeavesNoPageCacheBehind) {
  constexpr std::size_t kBytes = 16 * kMiB + 100;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes), c(kBytes);
  put(spill, 0, a.fill(3));
  get(spill, 0, c);
  const std::size_t length = SpillFile::file_bytes(std::vector<SpillSlot>{{kBytes}});
  void* map = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, spill.descriptor(), 0);
  ASSERT_NE(map, MAP_FAILED);
  std::vector<unsigned char> pages(length / kPage);
  ASSERT_EQ(::mincore(map, length, pages.data()), 0);
  ::munmap(map, length);
  std::size_t cached = 0;
  for (const unsigned char p : pages) cached += p & 1;
  EXPECT_LE(cached, 16u);
}

INSTANTIATE_TEST_SUITE_P(SpillFile, SpillFileTest, testing::Bool(), transfers);

}  // namespace
}  // namespace ebb::exec
