#include "ebb/report/chrome_events.hpp"

#include "tests/timeline_checks.hpp"

namespace ebb {
namespace {

TEST(ChromeEvents, AreJson) {
  std::string text;
  report::ChromeEvents out([&](std::string_view piece) { text += piece; });
  out.begin(R"({"lost":7})");
  out.process(2, "rank \"2\"\non b");
  out.thread({2, 1}, "comp\\uting");
  const std::pair<const char*, std::string> args[] = {{"bytes", "12"}, {"scope", "\"up/down\""}};
  out.slice(
      {2, 1},
      {.name = "mat\tmul", .category = "call", .begin = 1234567, .end = 1300001, .args = args});
  out.arrow(true, 77, {2, 1}, 1250000);
  out.arrow(false, 77, {3, 1}, 1260000);
  out.slice({2, 1}, {.name = "before", .begin = -1500, .end = -500});
  out.end();
  const test::TimelineRead read(text);
  EXPECT_EQ(read.json.at("otherData").at("lost"), 7);
  EXPECT_EQ(read.processes.at(2), "rank \"2\"\non b");
  EXPECT_EQ((read.tracks.at({2, 1})), "comp\\uting");
  ASSERT_EQ(read.slices.size(), 2u);
  EXPECT_EQ(read.slices[0].at("name"), "mat\tmul");
  EXPECT_EQ(read.slices[0].at("args").at("bytes"), 12);
  EXPECT_EQ(test::stretch(read.slices[0]),
            (std::pair<std::int64_t, std::int64_t>{1234567, 1300001}));
  EXPECT_EQ(test::stretch(read.slices[1]), (std::pair<std::int64_t, std::int64_t>{-1500, -500}));
  EXPECT_EQ(text.find(0x09), std::string::npos);
}

TEST(ChromeEvents, OfNothingAreJsonToo) {
  std::string text;
  report::ChromeEvents out([&](std::string_view piece) { text += piece; });
  out.begin();
  out.end();
  EXPECT_TRUE(test::TimelineRead(text).slices.empty());
}

}  // namespace
}  // namespace ebb
