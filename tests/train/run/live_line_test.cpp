#include "ebb/train/run/live_line.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "ebb/base/files/file.hpp"
#include "tests/terminals.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train {
namespace {

using Lines = std::vector<std::string>;

// The variables that a terminal is told by, as a test wants them.
struct Environment {
  explicit Environment(const char* term = "xterm-256color") {
    ::setenv("TERM", term, 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("NO_COLOR");
    ::unsetenv("COLUMNS");
  }
};

// What a screen of some width shows of what was written to it: as much of a terminal as the line
// uses. Anything else, or a character beyond the width, fails the test.
class Screen {
 public:
  explicit Screen(std::size_t columns) : columns_(columns) {}
  void write(const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size();) i += one(bytes, i);
  }
  Lines rows() const {
    Lines out;
    for (const auto& row : rows_) {
      std::string text;
      for (const std::string& cell : row) text += cell;
      while (text.ends_with(' ')) text.pop_back();
      out.push_back(text);
    }
    return out;
  }
  std::size_t most = 0;  // columns ever used

 private:
  std::size_t one(const std::string& bytes, std::size_t i) {
    const char c = bytes[i];
    if (c == '\r') return column_ = 0, 1;
    if (c == '\n') return rows_.emplace_back(), 1;
    if (c == '\x1b') {
      const std::size_t end = bytes.find_first_of("mJ", i);
      EXPECT_NE(end, std::string::npos) << "an escape sequence the line should not use";
      if (bytes[end] == 'J') rows_.back().resize(std::min(column_, rows_.back().size()));
      return end - i + 1;
    }
    EXPECT_GE(static_cast<unsigned char>(c), 0x20u);
    std::size_t length = 1;
    while (i + length < bytes.size() && (bytes[i + length] & 0xc0) == 0x80) ++length;
    auto& row = rows_.back();
    if (row.size() <= column_) row.resize(column_ + 1, " ");
    row[column_++] = bytes.substr(i, length);
    most = std::max(most, column_);
    EXPECT_LT(column_, columns_) << "the last column stays free";
    return length;
  }
  std::size_t columns_, column_ = 0;
  std::vector<std::vector<std::string>> rows_{1};
};

struct Pty {
  explicit Pty(int columns) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, &size), 0);
  }
  ~Pty() {
    if (master >= 0) ::close(master);
    ::close(slave);
  }
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;
  void resize(int columns) const {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    ::ioctl(master, TIOCSWINSZ, &size);
  }
  std::string read() const {
    std::string all;
    char part[4096];
    for (pollfd p{master, POLLIN, 0}; ::poll(&p, 1, all.empty() ? 50 : 1) > 0;) {
      const ssize_t n = ::read(master, part, sizeof part);
      if (n <= 0) break;
      all.append(part, static_cast<std::size_t>(n));
    }
    return all;
  }
  int master = -1, slave = -1;
};

LiveStatus status(std::int64_t step) {
  return {.step = step,
          .steps = 2860,
          .epoch = static_cast<double>(step) / 953.4,
          .epochs = 3,
          .loss = 2.3 / static_cast<double>(1 + step),
          .metric = "accuracy",
          .metric_value = 0.972,
          .lr = 3e-4,
          .rate = 12345,
          .memory = 812ull << 20,
          .budget = 1ull << 30,
          .seconds_left = static_cast<double>(2860 - step) * 0.1};
}

TEST(LiveLine, FitsEveryWidth) {
  const Environment environment;
  for (int columns = 1; columns <= 220; ++columns) {
    LiveLayout layout;
    for (const std::int64_t step : {0, 7, 1200, 2859, 2860})
      for (const bool unicode : {true, false}) {
        const std::string text = layout.text(status(step), columns, {.unicode = unicode});
        EXPECT_LE(columns_of(text), static_cast<std::size_t>(columns)) << text;
        EXPECT_FALSE(text.empty());
      }
  }
}

TEST(LiveLine, AtEachWidthWhatMattersMost) {
  const auto at = [](int columns) {
    return LiveLayout().text(status(1200), columns - 1, {.unicode = true});
  };
  EXPECT_EQ(at(200),
            " 41% ━━━━━━━━━━━━╸─────────────────  1200/2860  epoch 1.2/3  loss 0.001915  "
            "accuracy 0.9720  lr 3e-4  12.3k examples/s  812 MiB/1 GiB  2m46s left");
  EXPECT_EQ(at(80),
            "━━╸──── 1200/2860 ep 1.2/3 loss 0.00192 acc 0.972 lr 3e-4 12.3k/s 812M/1G 2m46s");
  EXPECT_EQ(at(40), "1200/2860 loss 0.00192 812M/1G 2m46s");
  EXPECT_EQ(at(20), "1200/2860 2m46s");
}

TEST(LiveLine, OnATerminalItIsOneLine) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  for (const int columns : {20, 40, 80, 200}) {
    const Pty pty(columns);
    double now = 0;
    Screen screen(static_cast<std::size_t>(columns));
    {
      LiveLine line({.descriptor = pty.slave, .clock = [&] { return now; }});
      for (std::int64_t step = 1; step <= 2860; step += 13, now += 0.11) {
        line.step([&] { return status(step); });
        screen.write(pty.read());
        EXPECT_EQ(screen.rows().size(), 1u);
      }
      line.finish(status(2860));
    }
    screen.write(pty.read());
    ASSERT_EQ(screen.rows().size(), 2u);
    EXPECT_NE(screen.rows()[0].find("2860/2860"), std::string::npos) << screen.rows()[0];
    EXPECT_EQ(screen.rows()[1], "");
    EXPECT_GT(screen.most, columns == 80 ? 60u : 10u);
  }
}

TEST(LiveLine, NotesStandAboveIt) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  const Pty pty(80);
  Screen screen(80);
  double now = 0;
  LiveLine line({.descriptor = pty.slave, .clock = [&] { return now; }});
  line.note("plan: fits");
  line.step([] { return status(10); });
  line.note("step 10: saved\nand \x1b[2Jmore\n");
  now += 1;
  line.step([] { return status(20); });
  screen.write(pty.read());
  const Lines rows = screen.rows();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], "plan: fits");
  EXPECT_EQ(rows[1], "step 10: saved");
  EXPECT_EQ(rows[2], "and ?[2Jmore");
  EXPECT_NE(rows[3].find("20/2860"), std::string::npos);
}

TEST(LiveLine, FollowsTheWindow) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  const Pty pty(200);
  double now = 0;
  LiveLine line({.descriptor = pty.slave, .clock = [&] { return now++; }});
  for (const int columns : {200, 60, 30, 10, 2, 90, 200}) {
    pty.resize(columns);
    Screen screen(static_cast<std::size_t>(columns));
    line.step([] { return status(100); });
    screen.write(pty.read());
    EXPECT_EQ(screen.rows().size(), 1u);
  }
  ::setenv("COLUMNS", "50", 1);  // narrower than the window: somebody wants it so
  Screen screen(50);
  line.step([] { return status(100); });
  screen.write(pty.read());
  ::unsetenv("COLUMNS");
}

TEST(LiveLine, IsDrawnTenTimesASecondAndAskedOnlyThen) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  const Pty pty(80);
  double now = 0;
  LiveLine line({.descriptor = pty.slave, .clock = [&] { return now; }});
  int asked = 0;
  for (int step = 1; step <= 10000; ++step, now += 0.001)
    line.step([&] {
      ++asked;
      if (asked % 10 == 0) pty.read();
      return status(step % 2860);
    });
  EXPECT_GE(asked, 90);
  EXPECT_LE(asked, 101);
}

TEST(LiveLine, ColorsOnlyWhereTheyAreWanted) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const auto drawn = [](const Pty& pty) {
    LiveLine line({.descriptor = pty.slave});
    line.draw(status(10));
    return pty.read();
  };
  const Pty pty(200);
  const Environment environment;
  EXPECT_NE(drawn(pty).find("\x1b[32m"), std::string::npos);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(drawn(pty).find("\x1b[3"), std::string::npos);
  ::setenv("LC_ALL", "C", 1);
  const std::string ascii = drawn(pty);
  EXPECT_TRUE(std::ranges::all_of(ascii, [](char c) { return static_cast<signed char>(c) > 0; }));
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(drawn(pty).find('\x1b'), std::string::npos);
  const Environment as_it_was;
}

TEST(LiveLine, ElsewherePlainLinesAtAPeriod) {
  const test::Folder folder;
  File file = File::create(folder / "out");
  double now = 0;
  {
    LiveLine line({.descriptor = file.descriptor(), .period = 10, .clock = [&] { return now; }});
    for (int step = 1; step <= 250; ++step, now += 0.1) {
      line.step([&] { return status(step); });
      if (step == 100) line.note("saved");
    }
    line.finish(status(251));
  }
  const Lines all = test::lines(folder / "out");
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0],
            "step 1/2860  epoch 0.0/3  loss 1.150  accuracy 0.9720  lr 3e-4  12.3k examples/s  "
            "812 MiB/1 GiB  4m46s left");
  EXPECT_EQ(all[1], "saved");
  EXPECT_EQ(all[2].substr(0, 7), "step 10");
  EXPECT_EQ(all[4].substr(0, 13), "step 251/2860");
}

TEST(LiveLine, ShowsWhatIsKnown) {
  EXPECT_EQ(LiveLayout::plain({.step = 3, .loss = 0. / 0.}), "step 3  loss nan");
  LiveLayout layout;
  EXPECT_EQ(layout.text({.step = 3, .loss = 1.5, .memory = 5 << 20}, 79, {}),
            "step 3  loss 1.500  5 MiB");
  EXPECT_EQ(layout.text({.step = 3, .loss = 1.5, .memory = 5 << 20, .activity = "saving"}, 79, {}),
            "step 3  loss 1.500  5 MiB  saving");
}

// SIGPIPE ends a process that does not handle it: each of these is a process of its own.
int ended(const std::function<void()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void draw_some(int descriptor) {
  double now = 0;
  LiveLine line({.descriptor = descriptor, .period = 1, .clock = [&] { return now += 2; }});
  for (int step = 1; step < 50; ++step) {
    line.step([&] { return status(step); });
    line.note("note");
  }
  line.finish();
}

TEST(LiveLine, AClosedPipeDoesNoHarm) {
  EXPECT_EQ(ended([] {
              ::signal(SIGPIPE, SIG_DFL);
              int ends[2];
              ASSERT_EQ(::pipe(ends), 0);
              ::close(ends[0]);
              draw_some(ends[1]);
              sigset_t pending;
              ::sigpending(&pending);
              EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
              struct sigaction now {};
              ::sigaction(SIGPIPE, nullptr, &now);
              EXPECT_EQ(now.sa_handler, SIG_DFL);
            }),
            0);
}

TEST(LiveLine, AClosedDescriptorDoesNoHarm) {
  EXPECT_EQ(ended([] {
              const test::Folder folder;
              ::close(2);
              LiveLine line({.period = 0});
              File file = File::create(folder / "weights");  // takes number 2
              EXPECT_EQ(file.descriptor(), 2);
              line.step([] { return status(1); });
              line.note("x");
              EXPECT_EQ(file.size(), 0u);
            }),
            0);
  EXPECT_EQ(ended([] {
              const test::Folder folder;
              ::close(1);
              ::close(2);
              open_standard_streams();
              const File file = File::create(folder / "weights");
              EXPECT_GT(file.descriptor(), 2);
              draw_some(2);
            }),
            0);
}

TEST(LiveLine, ATerminalThatHasGoneDoesNoHarm) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  EXPECT_EQ(ended([] {
              ::signal(SIGHUP, SIG_IGN);
              Pty pty(80);
              ::close(std::exchange(pty.master, -1));
              draw_some(pty.slave);
            }),
            0);
}

TEST(LiveLine, AReaderThatStopsDoesNotStopTraining) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  const auto stalled = [](int descriptor) {
    return ended([=] {
      ::alarm(60);
      LiveLine line({.descriptor = descriptor, .period = 0});
      for (int step = 1; step < 3000; ++step) line.draw(status(step));
      line.note("dropped");
    });
  };
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(stalled(ends[1]), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  const Pty pty(80);
  EXPECT_EQ(stalled(pty.slave), 0);
}

TEST(LiveLine, AFullDiskUnderItDoesNoHarm) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "no /dev/full here";
  draw_some(full);
  ::close(full);
}

TEST(LiveLine, InTheBackgroundNothingIsDrawn) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  EXPECT_EQ(ended([] {
              ::setsid();
              ::signal(SIGHUP, SIG_IGN);  // which the terminal sends when it is closed below
              const Pty pty(80);
              ASSERT_EQ(::ioctl(pty.slave, TIOCSCTTY, 0), 0);
              EXPECT_EQ(ended([&] {
                          LiveLine line({.descriptor = pty.slave});
                          ::setpgid(0, 0);  // a job that does not own the terminal
                          line.draw(status(1));
                          EXPECT_EQ(pty.read(), "");
                          line.note("done");
                          EXPECT_EQ(pty.read(), "done\r\n");
                        }),
                        0);
              LiveLine line({.descriptor = pty.slave});
              line.draw(status(1));
              EXPECT_NE(pty.read(), "");
            }),
            0);
}

TEST(LiveLine, AStepCostsALookAtTheClock) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  const Environment environment;
  const Pty pty(80);
  LiveLine line({.descriptor = pty.slave});
  const double begin = steady_seconds();
  constexpr int kSteps = 200000;
  for (int step = 0; step < kSteps; ++step) line.step([&] { return status(step % 2860); });
  const double nanoseconds = (steady_seconds() - begin) / kSteps * 1e9;
  RecordProperty("nanoseconds_a_step", std::to_string(nanoseconds));
  EXPECT_LT(nanoseconds, 20000);
}

}  // namespace
}  // namespace ebb::train
