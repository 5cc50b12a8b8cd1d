#include "ebb/train/run/run_log.hpp"

#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train {
namespace {

using Kind = RunLog::Kind;
using test::content;

TEST(RunLog, LinesHaveTimesAndKinds) {
  const test::Folder folder;
  double now = 1772357400;
  RunLog log(folder / "log.txt", [&] { return now++; });
  log.write(Kind::start, "ebb train digits.toml");
  log.write(Kind::warning, "two\nlines\x1b[2J");
  EXPECT_EQ(content(folder / "log.txt"),
            "2026-03-01T09:30:00Z start   ebb train digits.toml\n"
            "2026-03-01T09:30:01Z warning two lines [2J\n");
}

TEST(RunLog, GoesOnAfterATornLine) {
  const test::Folder folder;
  test::put(folder / "log.txt", "2026-03-01T09:30:00Z save    step 12");
  RunLog(folder / "log.txt", [] { return 0.; }).write(Kind::resume, "from step 10");
  RunLog(folder / "log.txt", [] { return 0.; }).write(Kind::end, "");
  EXPECT_EQ(content(folder / "log.txt"),
            "2026-03-01T09:30:00Z save    step 12\n"
            "1970-01-01T00:00:00Z resume  from step 10\n"
            "1970-01-01T00:00:00Z end\n");
}

TEST(RunLog, AFullDiskIsToldOrNot) {
  const test::Folder folder;
  const file_faults::Guard guard;
  RunLog log(folder / "log.txt", [] { return 0.; });
  file_faults::fail_write(1, file_faults::Fault::enospc, file_faults::Repeat::from_then_on);
  EXPECT_HAS(ebb::test::error_of([&] { log.write(Kind::note, "a"); }), "No space left");
  EXPECT_FALSE(log.try_write(Kind::error, "b"));
  file_faults::clear();
  EXPECT_TRUE(log.try_write(Kind::end, "c"));
  const auto all = test::lines(folder / "log.txt");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].ends_with(" note    a") && all[1].ends_with(" error   b")) << all[0] << all[1];
}

}  // namespace
}  // namespace ebb::train
