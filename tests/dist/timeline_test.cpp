// ebb train --trace: one file of all ranks.
#include "ebb/base/files/file.hpp"
#include "tests/dist/commands.hpp"
#include "tests/error_of.hpp"
#include "tests/timeline_checks.hpp"

namespace ebb::test {
namespace {

class Timelines : public Commands {
 protected:
  TimelineRead trained(const std::string& run, const std::string& more) const {
    const Ran ran = ebb(fmt::format(
        "train mlp.toml --out {} --set train.steps=12 {} {} --trace t.json", run, kSmall, more));
    EXPECT_EQ(ran.code, 0) << ran.text;
    return TimelineRead(read_file(folder_ + "/t.json", 64_MiB));
  }
};

TEST_F(Timelines, HaveATrackForEachRank) {
  ASSERT_EQ(train("plain", 1).code, 0);
  for (const int ranks : {1, 3}) {
    const std::string run = fmt::format("of-{}", ranks);
    const TimelineRead read = trained(run, fmt::format("--processes {}", ranks));
    expect_no_overlaps(read);
    ASSERT_EQ(read.processes.size(), static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ((read.tracks.at({r, 1})), "computing");
      EXPECT_EQ(read.count(r, "step"), 12 + 3) << "evaluations are of one batch each";
      EXPECT_GT(read.count(r, "matmul"), 12);
      EXPECT_GT(read.count(r, "an evaluation"), 0);
      EXPECT_GT(read.count(r, "saving"), 0);
      if (ranks == 1) continue;
      EXPECT_GT(read.count(r, "send"), 12);
      EXPECT_GT(read.count(r, "receive"), 12);
      EXPECT_GT(read.count(r, "wait for a message"), 0);
    }
    const int messages = expect_messages_in_order(read, 50'000);
    EXPECT_GE(messages, ranks == 1 ? 0 : 2 * 12 * ranks);
    EXPECT_EQ(model(run), model("plain"));
  }
}

TEST_F(Timelines, FilesThatCannotBeWritten) {
  for (const char* more : {"", "--processes 2"}) {
    const Ran ran = ebb(fmt::format("train mlp.toml --out run --trace no/such/t.json {} -q", more));
    EXPECT_EQ(ran.code, 2);
    ASSERT_EQ(ran.lines().size(), 1u) << ran.text;
    EXPECT_HAS(ran.lines()[0], "no/such/t.json");
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/run"));
  }
}

}  // namespace
}  // namespace ebb::test
