// Transfers that fail and bytes that change on the disk: an error, never a mixture.
#include <cstdlib>
#include <random>
#include <vector>

#include "tests/exec/spill_fixture.hpp"

namespace ebb::exec {
namespace {

class SpillDamageTest : public SpillFixture {};

TEST_P(SpillDamageTest, AFailedWriteLeavesNoMixture) {
  constexpr std::size_t kBytes = 6 * kMiB;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes), b(kBytes), c(kBytes);
  a.fill(1);
  b.fill(2);
  put(spill, 0, a);
  file_faults::Guard guard;
  for (const std::uint64_t nth : {1, 2}) {
    for (const Fault fault : {Fault::enospc, Fault::eio}) {
      file_faults::fail_write(nth, fault);
      const std::string line = error_of([&] { put(spill, 0, b); });
      EXPECT_HAS(line, fault == Fault::eio ? "Input/output error" : "No space left");
      EXPECT_HAS(line, folder_);
      EXPECT_HAS(line, "offset");
      file_faults::clear();
      // Any byte of it, wherever the write broke off.
      for (std::uint64_t at = 0; at < kBytes; at += 256 * kKiB)
        error_of([&] { spill.read_now(0, at, c.part(0, 1)); });
      put(spill, 0, b);  // and it goes on
      expect_holds(spill, 0, b);
    }
  }
  file_faults::fail_write(1, Fault::eio);
  error_of([&] { spill.write_now(0, 100, a.part(0, 1000)); });
  error_of([&] { get(spill, 0, c); });
  put(spill, 0, a);
  expect_holds(spill, 0, a);
}

TEST_P(SpillDamageTest, AFailedReadCanBeRepeated) {
  constexpr std::size_t kBytes = 3 * kMiB + 5;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes), c(kBytes);
  a.fill(1);
  put(spill, 0, a);
  file_faults::Guard guard;
  file_faults::fail_read(1, Fault::eio);
  EXPECT_HAS(error_of([&] { get(spill, 0, c); }), "slot 0");
  expect_holds(spill, 0, a);
}

TEST_P(SpillDamageTest, ShortCountsAreContinued) {
  constexpr std::size_t kBytes = 3 * kMiB + 5;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
  Bytes a(kBytes);
  a.fill(1);
  file_faults::Guard guard;
  file_faults::fail_write(1, Fault::short_count, Repeat::from_then_on);
  file_faults::fail_read(1, Fault::short_count, Repeat::from_then_on);
  put(spill, 0, a);
  expect_holds(spill, 0, a);
}

TEST_P(SpillDamageTest, AnErrorNobodyWaitedForIsNotLost) {
  SpillOptions o = options();
  o.tickets = 1;
  SpillFile spill(o, std::vector<SpillSlot>{{kPage}, {kPage, true}});
  Bytes a(kPage);
  file_faults::Guard guard;
  file_faults::fail_write(1, Fault::eio);
  spill.write(0, a.span());
  error_of([&] { spill.write(0, a.span()); });
  file_faults::fail_write(1, Fault::eio);
  spill.write(1, a.span());
  error_of([&] { spill.commit(); });
  error_of([&] { spill.commit(); });
  spill.rollback();
  spill.commit();
  file_faults::fail_write(1, Fault::eio);
  spill.write(1, a.span());
  spill.rollback();  // it is of no interest any more
  spill.write(1, a.span());
  spill.commit();
}

TEST_P(SpillDamageTest, FlippedBitsAreFound) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::size_t kBytes = kMiB + 77;
  SpillFile spill(options(), std::vector<SpillSlot>{{123}, {kBytes, true}});
  Bytes a(kBytes), c(kBytes);
  a.fill(seed);
  put(spill, 1, a);
  for (int i = 0; i < 40; ++i) {
    const std::uint64_t at = spill.offset_of(1) + random() % kBytes;
    const auto mask = static_cast<std::byte>(1u << (random() % 8));
    flip(spill, at, mask);
    const std::string line = error_of([&] { get(spill, 1, c); });
    EXPECT_HAS(line, "slot 1 has changed on the disk");
    EXPECT_HAS(line, "offset");
    EXPECT_HAS(line, "checkpoint");
    flip(spill, at, mask);
  }
  expect_holds(spill, 1, a);
}

TEST_P(SpillDamageTest, ExchangedGranulesAreFound) {
  constexpr std::size_t kBytes = 256 * kKiB;
  SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}, {kBytes}});
  Bytes a(kBytes), b(kBytes), c(kBytes);
  a.fill(1);
  b.fill(2);
  put(spill, 0, a);
  put(spill, 1, b);
  const std::string path = "/proc/self/fd/" + std::to_string(spill.descriptor());
  const int file = ::open(path.c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(file, b.span().data(), kBytes, static_cast<off_t>(spill.offset_of(0))),
            static_cast<ssize_t>(kBytes));
  ::fsync(file);
  ::close(file);
  error_of([&] { get(spill, 0, c); });
}

TEST_P(SpillDamageTest, ATruncatedFileIsFound) {
  constexpr std::size_t kBytes = 2 * kMiB;
  for (const std::uint64_t left : {std::uint64_t{0}, kMiB, kMiB + 100, 2 * kMiB - 1}) {
    SpillFile spill(options(), std::vector<SpillSlot>{{kBytes}});
    Bytes a(kBytes), c(kBytes);
    put(spill, 0, a.fill(1));
    ASSERT_EQ(::ftruncate(spill.descriptor(), static_cast<off_t>(left)), 0);
    const std::string line = error_of([&] { get(spill, 0, c); });
    EXPECT_HAS(line, "cut short");
    EXPECT_HAS(line, "ends at " + std::to_string(left));
    put(spill, 0, a);
    expect_holds(spill, 0, a);
  }
}

TEST_P(SpillDamageTest, ASyncThatFailsIsAnError) {
  if (GetParam()) GTEST_SKIP() << "direct transfers are not synced";
  SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}});
  Bytes a(kMiB);
  file_faults::Guard guard;
  file_faults::fail_sync(1, Fault::eio);
  EXPECT_HAS(error_of([&] { put(spill, 0, a); }), "write back");
  error_of([&] { get(spill, 0, a); });
}

INSTANTIATE_TEST_SUITE_P(SpillDamage, SpillDamageTest, testing::Bool(), transfers);

}  // namespace
}  // namespace ebb::exec
