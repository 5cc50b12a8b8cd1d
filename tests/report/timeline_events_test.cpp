#include "ebb/report/timeline_events.hpp"

#include "ebb/report/clock_offset.hpp"
#include "tests/dist/ranks.hpp"
#include "tests/timeline_checks.hpp"

namespace ebb {
namespace {

using timeline::Event;
using timeline::Kind;
using timeline::Recording;

struct Written {
  std::string text;
  report::ChromeEvents out{[this](std::string_view piece) { text += piece; }};
  Written() { out.begin(); }
  test::TimelineRead read() {
    out.end();
    return test::TimelineRead(text);
  }
};

TEST(TimelineEvents, CallsOfOneScopeAreTogether) {
  Recording recording;
  const auto add = [&](const char* name, const char* scope, std::int64_t begin, std::int64_t end,
                       Kind kind = Kind::call) {
    timeline::work()->add(
        {.begin = begin, .end = end, .name = name, .scope = Scope::find(scope), .kind = kind});
  };
  add("matmul", "block/up", 10, 20);
  add("relu", "block/up", 20, 30);
  add("wait", "", 30, 35, Kind::wait);
  add("matmul", "block/down", 40, 50);
  add("sum", "loss", 50, 60);
  add("update", "block/up", 70, 80);
  add("micro-batch", "", 5, 65, Kind::part);
  add("updates", "", 66, 85, Kind::part);
  add("step", "", 0, 90, Kind::step);
  recording.stop();
  Written written;
  report::write(recording, {.rank = 4, .host = "b", .time = {}}, written.out);
  const test::TimelineRead read = written.read();
  test::expect_no_overlaps(read);
  EXPECT_EQ(read.processes.at(4), "rank 4 on b");
  const auto stretches = [&](const std::string& name) {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (const auto& s : read.slices)
      if (s.at("name") == name) all.push_back(test::stretch(s));
    std::sort(all.begin(), all.end());
    return all;
  };
  using Stretches = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(stretches("block"), (Stretches{{10, 50}, {70, 80}}));
  EXPECT_EQ(stretches("up"), (Stretches{{10, 30}, {70, 80}}));
  EXPECT_EQ(stretches("down"), (Stretches{{40, 50}}));
  EXPECT_EQ(stretches("loss"), (Stretches{{50, 60}}));
  EXPECT_EQ(stretches("wait"), (Stretches{{30, 35}}));
  EXPECT_EQ(read.count(4, "call"), 5);
}

// What began before the last event that was lost is left out: half of it may be missing.
TEST(TimelineEvents, OnlyWhatIsWhole) {
  Recording recording({.work = 3, .messages = 1});
  timeline::work()->add({.begin = 0, .end = 10, .name = "lost", .kind = Kind::call});
  timeline::work()->add({.begin = 5, .end = 20, .name = "half", .kind = Kind::step});
  timeline::work()->add({.begin = 20, .end = 30, .name = "whole", .kind = Kind::call});
  timeline::work()->add({.begin = 30, .end = 40, .name = "whole", .kind = Kind::call});
  recording.stop();
  Written written;
  report::write(recording, {.rank = 0, .host = "", .time = {}}, written.out);
  const test::TimelineRead read = written.read();
  EXPECT_EQ(read.count(0, "half"), 0);
  EXPECT_EQ(read.count(0, "whole"), 2);
}

// Two ranks, whose clocks are an hour apart: several messages under way at once have tracks of their own.
TEST(TimelineEvents, MessagesOfTwoRanks) {
  constexpr std::int64_t kHour = 3600'000'000'000;
  Written written;
  const auto message = [](Kind kind, int peer, std::uint32_t step, int tag, std::int64_t begin,
                          std::int64_t end) {
    timeline::messages()->add({.begin = begin,
                               .end = end,
                               .step = step,
                               .bytes = 100,
                               .peer = peer,
                               .tag = tag,
                               .kind = kind});
  };
  {
    Recording first;
    message(Kind::send, 1, 1, 7, 100, 200);
    message(Kind::send, 1, 1, 8, 150, 400);
    message(Kind::send, 1, 1, 7, 300, 350);  // the same once more
    message(Kind::send, 1, 2, 7, 500, 600);
    first.stop();
    report::write(first, {.rank = 0, .host = "a", .time = {}}, written.out);
  }
  {
    Recording second;
    message(Kind::receive, 0, 1, 7, kHour + 10, kHour + 220);
    message(Kind::receive, 0, 1, 8, kHour + 10, kHour + 420);
    message(Kind::receive, 0, 1, 7, kHour + 230, kHour + 420);
    message(Kind::receive, 0, 2, 7, kHour + 450, kHour + 620);
    second.stop();
    const auto time = [](std::int64_t t) { return t - kHour; };
    report::write(second, {.rank = 1, .host = "b", .time = time}, written.out);
  }
  const test::TimelineRead read = written.read();
  test::expect_no_overlaps(read);
  EXPECT_EQ(test::expect_messages_in_order(read), 4);
  EXPECT_EQ((read.tracks.at({0, 3})), "messages");
  EXPECT_EQ((read.tracks.at({0, 4})), "messages 2");
  EXPECT_EQ((read.tracks.at({1, 2})), "received");
}

TEST(ClockOffset, OfRanksWithOneClockIsNearlyNone) {
  FakeNetwork network(3, {.seed = 5, .delay_seconds = 1e-3});
  std::vector<report::ClockOffset> found(3);
  test::expect_none(test::in_worlds(network, 3, [&](dist::World& world) {
    found[static_cast<std::size_t>(world.rank())] = report::clock_offset(world);
  }));
  for (const report::ClockOffset& f : found) {
    EXPECT_LT(std::abs(f.offset), 2'000'000) << "a way there and back takes that long";
    EXPECT_GT(f.at, 0);
  }
  EXPECT_EQ(found[0].offset, 0);
}

TEST(ClockOffset, AClockThatGoesFasterIsFollowed) {
  const report::AlignedClock clock({.at = 1000, .offset = 500}, {.at = 2000, .offset = 400});
  EXPECT_EQ(clock(1000), 1500);
  EXPECT_EQ(clock(2000), 2400);
  EXPECT_EQ(clock(1500), 1950);
  const report::AlignedClock once({.at = 7, .offset = 3}, {.at = 7, .offset = 3});
  EXPECT_EQ(once(100), 103);
}

}  // namespace
}  // namespace ebb
