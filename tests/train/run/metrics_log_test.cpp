#include "ebb/train/run/metrics_log.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "tests/error_of.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train {
namespace {

using file_faults::Call;
using file_faults::Fault;
using file_faults::Repeat;
using test::content;
using test::Folder;
using test::lines;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
MetricsLogOptions at(std::int64_t step) {
  MetricsLogOptions options;
  options.tensorboard = false;
  options.from_step = step;
  return options;
}
MetricsRow row(double step) {
  return {.step = static_cast<std::int64_t>(step), .epoch = step / 4, .time = 1760000000.125};
}

TEST(MetricsLog, RowsAreLinesOfJsonAndCsv) {
  const Folder folder;
  {
    MetricsLog log(folder.path, at(0));
    log.append(row(1), {{"loss", 2.5f}, {"lr", static_cast<double>(0.1f)}});
    log.append(row(2), {{"loss", 0.1}, {"lr", 1e-5}, {"memory", 123456789.0}});
  }
  EXPECT_EQ(content(folder / "metrics.jsonl"),
            "{\"step\":1,\"epoch\":0.25,\"time\":1760000000.125,\"loss\":2.5,\"lr\":0.1}\n"
            "{\"step\":2,\"epoch\":0.5,\"time\":1760000000.125,\"loss\":0.1,\"lr\":1e-05,"
            "\"memory\":123456789}\n");
  EXPECT_EQ(content(folder / "metrics.csv"),
            "step,epoch,time,loss,lr,memory\n"
            "1,0.25,1760000000.125,2.5,0.1,\n"
            "2,0.5,1760000000.125,0.1,1e-05,123456789\n");
}

TEST(MetricsLog, WritesOnlyWhatIsAskedFor) {
  const Folder folder;
  MetricsLog log(folder.path, {.csv = false, .tensorboard = false});
  log.append(row(1), {{"loss", 1}});
  EXPECT_EQ(test::names_in(folder.path), std::vector<std::string>{"metrics.jsonl"});
}

TEST(MetricsLog, ValuesThatAreNoNumbers) {
  const Folder folder;
  MetricsLog log(folder.path, at(0));
  log.append(row(0), {{"a", kNan}, {"b", kInf}, {"c", -kInf}});
  log.flush();
  EXPECT_HAS(content(folder / "metrics.jsonl"), "\"a\":null,\"b\":null,\"c\":null}\n");
  EXPECT_HAS(content(folder / "metrics.csv"), ",nan,inf,-inf\n");
}

TEST(MetricsLog, NumbersReadBackAsTheSame) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    for (const double v : {value, static_cast<double>(static_cast<float>(i) / 7.f), 1e15 + i}) {
      std::string text;
      add_number(text, v);
      const double read = std::strtod(text.c_str(), nullptr);
      const bool is_float = static_cast<double>(static_cast<float>(v)) == v;
      EXPECT_TRUE(read == v || (is_float && static_cast<float>(read) == static_cast<float>(v)))
          << text;
    }
  }
}

TEST(MetricsLog, NamesAreQuoted) {
  const Folder folder;
  for (int i = 0; i < 2; ++i) {  // the second one reads the header back
    MetricsLog log(folder.path, at(i));
    log.append(row(i + 1), {{"a,b", 1}, {"say \"hi\"", 2}, {"eval/top-1", 3}});
  }
  EXPECT_EQ(lines(folder / "metrics.csv")[0],
            "step,epoch,time,\"a,b\",\"say \"\"hi\"\"\",eval/top-1");
  EXPECT_EQ(lines(folder / "metrics.csv").size(), 3u);
  EXPECT_HAS(content(folder / "metrics.jsonl"), "\"say \\\"hi\\\"\":2");
}

TEST(MetricsLog, WhatIsNoRowIsRefused) {
  const Folder folder;
  MetricsLog log(folder.path, at(10));
  EXPECT_HAS(ebb::test::error_of([&] { log.append(row(11), {{"step", 1}}); }), "\"step\"");
  EXPECT_HAS(ebb::test::error_of([&] { log.append(row(11), {{"a", 1}, {"a", 2}}); }), "two values");
  EXPECT_HAS(ebb::test::error_of([&] { log.append(row(11), {{"a\nb", 1}}); }), "control");
  EXPECT_HAS(ebb::test::error_of([&] { log.append(row(11), {{"", 1}}); }), "0 bytes");
  EXPECT_HAS(ebb::test::error_of([&] { log.append(row(9), {{"a", 1}}); }), "in order");
  log.flush();
  EXPECT_EQ(content(folder / "metrics.jsonl"), "");
}

TEST(MetricsLog, ColumnsThatComeLaterLeaveEveryRowAsWideAsTheHeader) {
  const Folder folder;
  MetricsLog log(folder.path, at(0));
  for (double step = 1; step <= 3000; ++step) {  // more than one piece of the copy
    log.append(row(step), {{"loss", step}});
    if (std::fmod(step, 1000) == 0)
      log.append(row(step), {{"eval" + std::to_string(static_cast<int>(step)), 0.5}});
  }
  log.flush();
  const auto all = lines(folder / "metrics.csv");
  ASSERT_EQ(all.size(), 1u + 3003u);
  EXPECT_EQ(all[0], "step,epoch,time,loss,eval1000,eval2000,eval3000");
  for (const std::string& line : all)
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 6) << line;
  EXPECT_EQ(all[1], "1,0.25,1760000000.125,1,,,");
  EXPECT_EQ(all.back(), "3000,750,1760000000.125,,,,0.5");
  EXPECT_EQ(test::names_in(folder.path).size(), 2u);
}

TEST(MetricsLog, GoingOnCutsRowsAfterTheStep) {
  const Folder folder;
  {
    MetricsLog log(folder.path, at(0));
    for (double step = 1; step <= 20; ++step) {
      log.append(row(step), {{"loss", step}});
      if (std::fmod(step, 5) == 0) log.append(row(step), {{"eval", step}});
    }
  }
  {
    MetricsLog log(folder.path, at(10));
    log.append(row(11), {{"loss", 111}});
  }
  const auto json = lines(folder / "metrics.jsonl"), csv = lines(folder / "metrics.csv");
  ASSERT_EQ(json.size(), 13u);
  ASSERT_EQ(csv.size(), 14u);
  EXPECT_HAS(json[11], "\"step\":10,\"epoch\":2.5,\"time\":1760000000.125,\"eval\":10");
  EXPECT_HAS(json[12], "\"step\":11,");
  EXPECT_EQ(csv[13], "11,2.75,1760000000.125,111,");
  { const MetricsLog from_the_beginning(folder.path, at(0)); }
  EXPECT_EQ(content(folder / "metrics.jsonl"), "");
  EXPECT_EQ(content(folder / "metrics.csv"), "step,epoch,time,loss,eval\n");
}

// Every way in which the end of the file can be missing, and what a power cut may leave there.
TEST(MetricsLog, TornEndsAreCutOff) {
  const Folder folder;
  {
    MetricsLog log(folder.path, at(0));
    for (double step = 1; step <= 3; ++step) log.append(row(step), {{"loss", 0.5}, {"a,b", step}});
  }
  for (const std::string name : {"metrics.jsonl", "metrics.csv"}) {
    const std::string whole = content(folder / name);
    for (std::size_t length = 0; length <= whole.size(); ++length)
      for (const std::string tail : {"", "\0\0\0\0", "\x7f\n{\n\n"}) {
        const std::string kept = whole.substr(0, length);
        const std::string expected = kept.substr(0, kept.rfind('\n') + 1);
        if (expected.empty() && !tail.empty() && name == "metrics.csv") continue;  // no header
        test::put(folder / name, kept + tail);
        { const MetricsLog log(folder.path, at(100)); }
        EXPECT_EQ(content(folder / name), expected) << name << " " << length << " " << tail;
      }
    test::put(folder / name, whole);
  }
}

TEST(MetricsLog, AFileOfOthersIsRefused) {
  const Folder folder;
  for (const std::string text : {"name,age\nx,1\n", "some notes", "step,epoch,timely\n"}) {
    test::put(folder / "metrics.csv", text);
    EXPECT_HAS(ebb::test::error_of([&] { const MetricsLog log(folder.path, at(0)); }),
               "not of a run");
    EXPECT_EQ(content(folder / "metrics.csv"), text);
  }
}

TEST(MetricsLog, IsWrittenOnceASecondOrWhenMuchWaits) {
  const Folder folder;
  double now = 100;
  MetricsLogOptions options = at(0);
  options.csv = false;
  options.clock = [&] { return now; };
  MetricsLog log(folder.path, options);
  const auto writes = [&](int rows, double seconds) {
    const auto before = file_faults::count(Call::write);
    for (int i = 0; i < rows; ++i) log.append(row(1), {{"loss", 1}});
    now += seconds;
    return file_faults::count(Call::write) - before;
  };
  EXPECT_EQ(writes(1, 0.1), 1u);  // the first is seen at once
  EXPECT_EQ(writes(100, 0.5), 0u);
  EXPECT_EQ(writes(100, 0.5), 0u);
  EXPECT_EQ(writes(100, 2), 1u);
  EXPECT_EQ(writes(1, 0), 1u);
  EXPECT_LE(writes(1000, 0), 5u);  // 16 KiB each
}

TEST(MetricsLog, ARowIsCheap) {
  const Folder folder;
  MetricsLog log(folder.path);
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kRows = 20000;
  for (int i = 0; i < kRows; ++i)
    log.append({.step = i, .epoch = i / 100.}, {{"loss", 1. / (i + 1)},
                                                {"accuracy", 0.5},
                                                {"lr", 1e-3},
                                                {"examples_per_second", 12345.6},
                                                {"memory_bytes", 1e8}});
  const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - begin;
  RecordProperty("microseconds_a_row", std::to_string(all.count() / kRows));
  EXPECT_LT(all.count() / kRows, 100);  // 1% of a step of 10 ms
}

TEST(MetricsLog, AFullDiskLosesNoRow) {
  for (int nth = 1; nth <= 4; ++nth) {
    const Folder folder;
    MetricsLog log(folder.path, at(0));
    log.append(row(1), {{"loss", 1}});
    log.flush();
    {
      const file_faults::Guard guard;
      file_faults::fail(Call::write, static_cast<std::uint64_t>(nth), Fault::enospc,
                        Repeat::from_then_on);
      // The third and the fourth write are those of the wider csv.
      const std::string error = ebb::test::error_of([&] {
        log.append(row(2), {{"loss", 2}});
        log.flush();
        log.append(row(3), {{"loss", 3}, {"eval", 3}});
      });
      EXPECT_HAS(error, "No space left");
    }
    const auto rows = lines(folder / "metrics.jsonl");
    for (const std::string& line : rows) EXPECT_TRUE(line.ends_with('}')) << line;
    log.append(row(4), {{"loss", 4}});
    log.flush();
    EXPECT_HAS(content(folder / "metrics.jsonl"), "\"step\":2,");
    EXPECT_HAS(content(folder / "metrics.csv"), "\n4,1,");
    EXPECT_EQ(test::names_in(folder.path).size(), 2u);
  }
}

TEST(MetricsLog, AShortWriteIsContinued) {
  const Folder folder;
  const file_faults::Guard guard;
  MetricsLog log(folder.path, at(0));
  file_faults::fail(Call::write, 1, Fault::short_count, Repeat::from_then_on);
  for (double step = 1; step < 10; ++step) log.append(row(step), {{"loss", step}});
  log.flush();
  file_faults::clear();
  EXPECT_EQ(lines(folder / "metrics.jsonl").size(), 9u);
  EXPECT_EQ(lines(folder / "metrics.csv").size(), 10u);
}

// Killed again and again while it writes, and taken up at a "checkpoint" each time.
TEST(MetricsLog, AKilledRunHasEveryRowOnce) {
  const Folder folder;
  std::mt19937 random(1);
  std::int64_t saved = 0;
  for (int kill = 0; kill < 25; ++kill) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      MetricsLogOptions options;
      options.from_step = saved;
      options.clock = [n = 0.0]() mutable { return n += 0.2; };  // a write every fifth row
      MetricsLog log(folder.path, options);
      for (std::int64_t step = saved + 1;; ++step) {
        log.append(row(static_cast<double>(step)), {{"loss", static_cast<double>(step)}});
        if (step % 7 == 0)
          log.append(row(static_cast<double>(step)), {{"eval" + std::to_string(step / 700), 1}});
        if (step % 10 == 0) {
          log.sync();
          if (::write(ready[1], &step, sizeof step) != sizeof step) ::_exit(1);
        }
      }
    }
    ::close(ready[1]);
    const int enough = static_cast<int>(random() % 20);
    for (int i = 0; i <= enough; ++i)
      ASSERT_EQ(::read(ready[0], &saved, sizeof saved), static_cast<ssize_t>(sizeof saved));
    ::usleep(static_cast<useconds_t>(random() % 2000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (std::int64_t step; ::read(ready[0], &step, sizeof step) == sizeof step;)
      if (random() % 2 == 0) saved = step;
    ::close(ready[0]);
  }
  { const MetricsLog log(folder.path, {.from_step = saved}); }
  std::int64_t json_rows = 0, csv_rows = -1;
  for (const std::string& line : lines(folder / "metrics.jsonl")) {
    if (line.find("\"loss\"") == std::string::npos) continue;
    EXPECT_HAS(line, "\"loss\":" + std::to_string(++json_rows) + "}");
  }
  const auto csv = lines(folder / "metrics.csv");
  const auto commas = std::count(csv[0].begin(), csv[0].end(), ',');
  for (const std::string& line : csv) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), commas);
    if (line.find(",,") == std::string::npos || line.find(".125,,") == std::string::npos)
      ++csv_rows;
  }
  EXPECT_EQ(json_rows, saved);
  EXPECT_EQ(csv_rows, saved);
  EXPECT_GT(saved, 100);
}

}  // namespace
}  // namespace ebb::train
