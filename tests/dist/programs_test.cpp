// Whole programs: what ranks say to each other, what they are refused, what they hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ebb/base/files/file.hpp"
#include "ebb/dist/identity.hpp"
#include "ebb/dist/world.hpp"
#include "models/memory_group.hpp"
#include "tests/dist/job.hpp"
#include "tests/dist/shell.hpp"
#include "tests/error_of.hpp"

namespace ebb::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class Jobs : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_jobs(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(Jobs, RanksSpeakWithEachOther) {
  for (const int ranks : {2, 3, 4}) {
    Job job("talk", {.ranks = ranks});
    ASSERT_TRUE(job.over(60)) << job.err();
    EXPECT_EQ(job.code(), 0) << job.err();
    std::string expected = fmt::format("0 of {}\n", ranks);
    for (int r = 0; r < ranks; ++r) expected += fmt::format("rank {}\n", r);
    for (int r = 0; r < ranks; ++r) expected += fmt::format("{} ", r * r);
    expected += fmt::format("of the first\ntrue false\n{}\n", ranks * 40000);
    EXPECT_EQ(job.out().substr(0, expected.size()), expected);
    EXPECT_EQ(job.err(), "");
  }
}

TEST_F(Jobs, OneRankIsAWorldOfOne) {
  Job job("talk", {.ranks = 1});
  ASSERT_TRUE(job.over(60)) << job.err();
  EXPECT_EQ(job.code(), 0);
  EXPECT_TRUE(job.out().starts_with("0 of 1\nrank 0\n")) << job.out();
}

// The line that says what is wrong, and no other of Ebb's.
void expect_refused(const std::string& role, int ranks, const std::string& line) {
  Job job(role, {.ranks = ranks});
  ASSERT_TRUE(job.over(60)) << job.err();
  EXPECT_NE(job.code(), 0);
  ASSERT_EQ(job.lines().size(), 1u) << job.err();
  EXPECT_HAS(job.lines()[0], line);
}

TEST_F(Jobs, WhatDiffersIsRefusedOnce) {
  expect_refused("differ", 4, "dist: ranks differ in the config: ranks 0, 1 (");
  expect_refused("twice", 2, "this process has made one before");
}

TEST_F(Jobs, RanksThatDoNotDoTheSameAreEnded) {
  for (const char* role : {"stray", "early"}) {
    Job job(role, {.ranks = 3});
    ASSERT_TRUE(job.over(10)) << role;
    EXPECT_NE(job.code(), 0);
    EXPECT_HAS(job.err(), "all ranks must make the same calls in the same order");
  }
}

// A copy whose build id differs in one byte.
TEST_F(Jobs, OtherProgramsAreRefused) {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string other = own + ".other";
  std::string id;
  for (std::size_t i = 0; i + 1 < dist::program().size() && id.size() < 20; i += 2)
    id += static_cast<char>(std::stoi(dist::program().substr(i, 2), nullptr, 16));
  std::stringstream content;
  content << std::ifstream(own, std::ios::binary).rdbuf();
  std::string bytes = content.str();
  const std::size_t at = bytes.find(id);
  if (at == std::string::npos) GTEST_SKIP() << "the program has no build id";
  bytes[at] = static_cast<char>(bytes[at] + 1);
  std::ofstream(other, std::ios::binary) << bytes;
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  const Ran ran = shell(fmt::format(
      "EBB_DIST_PLUGIN={} mpirun {} --oversubscribe -np 2 {} rank talk /tmp : -np 1 {} rank "
      "talk /tmp",
      EBB_PLUGIN, geteuid() == 0 ? "--allow-run-as-root" : "", own, other));
  std::filesystem::remove(other);
  EXPECT_NE(ran.code, 0);
  EXPECT_HAS(ran.text, "ebb: dist: ranks differ in the program: ranks 0, 1 (");
  EXPECT_HAS(ran.text, "rank 2 (");
}

TEST_F(Jobs, VariablesOfALauncherWithoutItAreNoWorld) {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
  const Ran ran = shell(fmt::format(
      "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 EBB_DIST_PLUGIN={} {} rank talk /tmp",
      EBB_PLUGIN, own));
  EXPECT_EQ(ran.code, 2);
  EXPECT_HAS(ran.text, "mpirun started 3 processes, and MPI sees 1");
}

// A single process opens nothing, and the program knows no MPI.
TEST_F(Jobs, OneProcessPaysNothing) {
  const Ran libraries = shell("ldd " EBB_COMMAND), symbols = shell("nm -CD " EBB_COMMAND);
  EXPECT_EQ(libraries.text.find("mpi"), std::string::npos) << libraries.text;
  EXPECT_EQ(symbols.text.find("MPI_"), std::string::npos);
  EXPECT_HAS(symbols.text, "dlopen");
  dist::World world;
  std::stringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  EXPECT_EQ(maps.str().find("mpi"), std::string::npos);
}

TEST_F(Jobs, WhatTheLibraryHoldsIsSetAside) {
  for (const int ranks : {2, 4}) {
    Job job("footprint", {.ranks = ranks});
    ASSERT_TRUE(job.over(60)) << job.err();
    ASSERT_EQ(job.code(), 0) << job.err();
    std::istringstream lines(job.out());
    std::uint64_t open = 0, most = 0, set_aside = 0;
    for (int r = 0; r < ranks; ++r) {
      ASSERT_TRUE(lines >> open >> most >> set_aside);
      EXPECT_LE(most, set_aside) << "measured " << open << " when open";
      EXPECT_LE(open, set_aside + 3 * kMiB) << "more than what a program will hold beside it";
      EXPECT_LE(set_aside, open + 2 * kMiB) << "much too much is set aside";
    }
    std::printf("  %d ranks: %.1f MiB when open, %.1f later, %.1f set aside\n", ranks,
                static_cast<double>(open) / kMiB, static_cast<double>(most) / kMiB,
                static_cast<double>(set_aside) / kMiB);
  }
}

// The smallest budget that is named holds, with the library for messages in it, under a kernel limit.
TEST_F(Jobs, BudgetsHoldWithAWorld) {
  constexpr int kRanks = 2;
  std::uint64_t smallest = 0, peak = 0;
  {
    Job job("budget", {.ranks = kRanks});
    ASSERT_TRUE(job.over(120)) << job.err();
    ASSERT_EQ(job.code(), 0) << job.err();
    std::istringstream(job.out()) >> smallest >> peak;
  }
  ASSERT_GT(smallest, 11 * kMiB);
  std::vector<std::unique_ptr<MemoryGroup>> groups;
  std::vector<std::string> environment{fmt::format("EBB_TEST_BUDGET={}", smallest)};
  for (int r = 0; r < kRanks; ++r) {
    groups.push_back(std::make_unique<MemoryGroup>(smallest));
    if (!groups.back()->limited()) GTEST_SKIP() << groups.back()->why();
    environment.push_back(fmt::format("EBB_TEST_DOOR_{}={}", r, groups.back()->door()));
  }
  Job job("budget", {.ranks = kRanks, .environment = environment});
  ASSERT_TRUE(job.over(120)) << job.err();
  ASSERT_EQ(job.code(), 0) << job.err();
  std::istringstream lines(job.out());
  for (int r = 0; r < kRanks; ++r) {
    std::uint64_t again = 0;
    lines >> again >> peak;
    EXPECT_LE(peak, smallest) << "rank " << r;
    std::printf("  rank %d: budget %.2f MiB, peak %.2f MiB\n", r,
                static_cast<double>(smallest) / kMiB, static_cast<double>(peak) / kMiB);
  }
}

TEST_F(Jobs, DoctorMeasuresTheNetwork) {
  const std::string file = testing::TempDir() + fmt::format("ebb-network-{}", getpid());
  const std::string machine = "EBB_MACHINE=" + file + " ";
  const Ran plain = shell(machine + EBB_COMMAND " doctor --network --processes 3");
  EXPECT_EQ(plain.code, 0) << plain.text;
  EXPECT_TRUE(plain.text.starts_with("mpirun -np 3 ")) << plain.text;
  for (const char* part : {"3 on 1 host\n", "0 to 1 ", "1 to 2 ", "2 to 0 ", "(alpha)", "(1/beta)"})
    EXPECT_HAS(plain.text, part);
  EXPECT_HAS(read_file(file + ".network"), "ebb-network 1\nseconds_per_message ");
  const Ran json = shell(machine + EBB_COMMAND " doctor --network --json");
  EXPECT_EQ(json.code, 0) << json.text;
  EXPECT_TRUE(json.text.starts_with("{\"bytes_per_second\":")) << json.text;
  EXPECT_HAS(json.text, "\"ranks\":2");
  std::filesystem::remove(file + ".network");
}

TEST_F(Jobs, DoctorSaysWhatIsWrongOnce) {
  const std::string mpirun =
      fmt::format("mpirun {} --oversubscribe", geteuid() == 0 ? "--allow-run-as-root" : "");
  const auto line = [&](const Ran& ran) {
    std::string found;
    std::istringstream all(ran.text);
    for (std::string one; std::getline(all, one);)
      if (one.starts_with("ebb: ")) found += one + "\n";
    return found;
  };
  const Ran two = shell(mpirun + " -np 2 " EBB_COMMAND " doctor --network --processes 3");
  EXPECT_EQ(two.code, 2);
  EXPECT_EQ(line(two),
            "ebb: doctor: mpirun has started 2 processes, and --processes says 3; leave one of "
            "them out\n");
  const Ran alone = shell(mpirun + " -np 1 " EBB_COMMAND " doctor --network");
  EXPECT_EQ(line(alone), "ebb: network: one process has nobody to send to; start two or more\n");
  const Ran missing =
      shell("EBB_DIST_PLUGIN=/no/such.so " + mpirun + " -np 2 " EBB_COMMAND " doctor --network");
  EXPECT_EQ(missing.code, 2);
  EXPECT_HAS(line(missing),
             "ebb: dist: mpirun started 2 processes, but there is no libebb_dist_mpi.so in");
  EXPECT_EQ(line(missing).find('\n'), line(missing).size() - 1) << "once";
  const Ran train = shell(mpirun + " -np 2 " EBB_COMMAND " train some.toml");
  EXPECT_EQ(train.code, 2);
  EXPECT_EQ(
      line(train),
      "ebb: cannot open \"some.toml\": No such file or directory; check the name and that its "
      "folder exists\n");
  const Ran none = shell("PATH=/nowhere " EBB_COMMAND " doctor --network --json");
  EXPECT_EQ(none.code, 2);
  EXPECT_HAS(none.text, "there is no mpirun here; install Open MPI (apt-get install openmpi-bin)");
}

}  // namespace
}  // namespace ebb::test
