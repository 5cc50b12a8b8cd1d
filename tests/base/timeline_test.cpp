#include "ebb/base/timeline.hpp"

#include <algorithm>
#include <thread>

#include "tests/error_of.hpp"

namespace ebb {
namespace {

using timeline::Event;
using timeline::Recording;
using timeline::Slice;

TEST(Timeline, NobodyRecords) {
  EXPECT_EQ(timeline::work(), nullptr);
  EXPECT_EQ(timeline::messages(), nullptr);
  const Slice slice("nothing");
  timeline::step_begins();
  EXPECT_EQ(timeline::step(), 0u);
}

TEST(Timeline, SlicesOfTheThreadThatRecords) {
  Recording recording;
  {
    const Slice outer("outer");
    Slice inner("inner", timeline::Kind::wait);
    inner.event().peer = 3;
  }
  std::thread([] { const Slice elsewhere("of another thread"); }).join();
  recording.stop();
  const Slice late("late");
  const auto events = recording.work().events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[0].name, "inner");  // it ended first
  EXPECT_EQ(events[0].peer, 3);
  EXPECT_EQ(events[0].kind, timeline::Kind::wait);
  EXPECT_STREQ(events[1].name, "outer");
  EXPECT_LE(events[1].begin, events[0].begin);
  EXPECT_GE(events[1].end, events[0].end);
  EXPECT_EQ(recording.work().lost(), 0u);
  EXPECT_EQ(recording.work().lost_until(), 0);
}

TEST(Timeline, TheLastEventsAreKept) {
  Recording recording({.work = 4, .messages = 1});
  for (std::int64_t i = 1; i <= 10; ++i) timeline::work()->add({.begin = i, .end = i + 100});
  recording.stop();
  std::vector<std::int64_t> kept;
  for (const Event& e : recording.work().events()) kept.push_back(e.begin);
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept, (std::vector<std::int64_t>{7, 8, 9, 10}));
  EXPECT_EQ(recording.work().lost(), 6u);
  EXPECT_EQ(recording.work().lost_until(), 106);
}

TEST(Timeline, IsTakenAtTheMemorySeam) {
  const std::uint64_t before = ledger::total().live;
  {
    const Recording recording({.work = 1000, .messages = 500});
    EXPECT_GE(ledger::total().live, before + 1500 * sizeof(Event));
    for (int i = 0; i < 5000; ++i) timeline::work()->add({.begin = i, .end = i});
    EXPECT_LT(ledger::total().live, before + 2000 * sizeof(Event));
  }
  EXPECT_EQ(ledger::total().live, before);
}

TEST(Timeline, OneAtATime) {
  const Recording recording;
  EXPECT_HAS(test::error_of([] { const Recording another; }), "is being recorded already");
  timeline::step_begins();
  EXPECT_EQ(timeline::step(), 1u);
}

}  // namespace
}  // namespace ebb
