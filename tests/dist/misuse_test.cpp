// What several processes are refused, or allowed, on the command line: each mistake is one line.
#include <signal.h>

#include <functional>

#include "ebb/base/files/file.hpp"
#include "ebb/ebb.hpp"
#include "tests/dist/commands.hpp"
#include "tests/dist/hosts.hpp"
#include "tests/error_of.hpp"

namespace ebb::test {
namespace {

namespace fs = std::filesystem;

class Misuse : public Commands {
 protected:
  static std::string mpirun() {
    return fmt::format("mpirun {}--oversubscribe -x EBB_THREADS=1",
                       geteuid() == 0 ? "--allow-run-as-root " : "");
  }
  Ran run(const std::string& line) const {
    return shell(fmt::format("cd {} && timeout 100 {} </dev/null", folder_, line));
  }
  // One line of Ebb's, and nothing is begun.
  void expect_line(const Ran& ran, int code, const std::string& text) const {
    EXPECT_EQ(ran.code, code) << ran.text;
    ASSERT_EQ(ran.lines().size(), 1u) << ran.text;
    EXPECT_HAS(ran.lines()[0], text);
    EXPECT_FALSE(file_exists(folder_ + "/run/log.txt"));
  }
  std::string train(const std::string& more = "") const {
    return fmt::format("{} train mlp.toml --out run --set train.steps=3 {} {}", EBB_COMMAND, kSmall,
                       more);
  }
  // Two folders of rows, and a config for each.
  void put_rows() const {
    const Batch digits = data::digits(60, 1).all();
    for (const char* name : {"a", "b"}) {
      const std::string folder = folder_ + "/" + name;
      fs::create_directory(folder);
      save_npy(folder + "/x.npy", digits["image"]);
      save_npy(folder + "/y.npy", digits["label"]);
      std::ofstream(folder + "/c.toml")
          << "[model]\nkind = \"mlp\"\nhidden = [16]\n[data]\npath = \"x.npy\"\n"
             "target_path = \"y.npy\"\n[train]\nbatch = 10\nsteps = 4\n[every]\nsave = 2\n";
    }
  }
};

TEST_F(Misuse, NumbersOfProcesses) {
  const auto expect = [&](const std::string& number, const std::string& text) {
    expect_line(run(train("--processes " + number)), 2, text);
  };
  expect("0", "train: --processes: \"0\" is no number from 1 to 1024");
  expect("-3", "train: --processes: \"-3\" is no number from 1 to 1024");
  expect("2.5", "train: --processes: \"2.5\" is no whole number");
  expect("many", "train: --processes: \"many\" is no number from 1 to 1024");
  expect("51", "train: 51 processes share batches of 50 examples (train.batch), so that 1 of them");
  const std::string thousand = "--processes 1000 --set train.batch=1000 --set data.rows=4000";
  const Ran ran = run("prlimit --as=8000000000 " + train(thousand));
  expect_line(ran, 2, "train: each of 1000 processes takes ");
  EXPECT_HAS(ran.text, "; --processes ");
}

TEST_F(Misuse, ProcessesInsideOfMpirun) {
  expect_line(run(mpirun() + " -np 2 " + train("--processes 3")), 2,
              "train: mpirun has started 2 processes, and --processes says 3; leave one of them");
  expect_line(run(mpirun() + " -np 1 " + train("--processes 2")), 2,
              "train: mpirun has started this process, and --processes 2 would start others");
  EXPECT_EQ(run(mpirun() + " -np 2 " + train("--processes 2")).code, 0);
}

TEST_F(Misuse, MoreRanksThanRows) {
  expect_line(run(mpirun() + " -np 4 " + train("--set train.batch=3")), 2,
              "train: 4 processes share batches of 3 examples (train.batch), so that 1 of them");
  put_rows();
  const std::string one = fmt::format("{} train a/c.toml --out run ", EBB_COMMAND);
  expect_line(
      run(mpirun() + " -np 4 " + one + "--set data.limit=2 --set data.validation_fraction=0"), 2,
      "train: 4 processes share batches of 2 examples (the rows there are)");
}

TEST_F(Misuse, OtherConfigs) {
  expect_line(run(fmt::format("{} -np 2 {} : -np 1 {}", mpirun(), train("--set train.lr=0.5"),
                              train("--set train.lr=0.25"))),
              2, "dist: ranks differ in the config: ranks 0, 1 (");
  const Ran ran = run(
      fmt::format("{} -np 1 {} : -np 1 {}", mpirun(), train(), train("--set train.clip_norm=2")));
  expect_line(ran, 2, "\"train.clip_norm = 2");
}

TEST_F(Misuse, OtherData) {
  put_rows();
  const Tensor labels = load_npy(folder_ + "/b/y.npy");
  std::vector<std::int32_t> values = labels.to_vector<std::int32_t>();
  values[7] = (values[7] + 1) % 10;
  save_npy(folder_ + "/b/y.npy", Tensor::from(std::span<const std::int32_t>(values), {60}));
  const auto of = [&](const char* folder) {
    return fmt::format("{} train {}/c.toml --out run", EBB_COMMAND, folder);
  };
  expect_line(run(fmt::format("{} -np 1 {} : -np 2 {}", mpirun(), of("a"), of("b"))), 2,
              "dist: ranks differ in the content of data.target_path: rank 0 (");
}

TEST_F(Misuse, FilesThatOneRankHasNot) {
  put_rows();
  fs::remove(folder_ + "/b/x.npy");
  const auto of = [&](const char* folder) {
    return fmt::format("{} train {}/c.toml --out run", EBB_COMMAND, folder);
  };
  const Ran ran = run(fmt::format("{} -np 2 {} : -np 1 {}", mpirun(), of("a"), of("b")));
  expect_line(ran, 2, "ebb: rank 2 of 3 on ");
  EXPECT_HAS(ran.text, "b/x.npy");
}

// What a rank's machine is like may differ: its memory, its threads, where its files are.
TEST_F(Misuse, OtherBudgetsThreadsAndPlacesAreNone) {
  put_rows();
  const std::string one = fmt::format("{} train a/c.toml -q --out ", EBB_COMMAND);
  ASSERT_EQ(run(one + "whole").code, 0);
  const std::string two = fmt::format("{} train b/c.toml -q --out both ", EBB_COMMAND);
  const Ran ran =
      run(fmt::format("{} -np 1 {}both --memory none : -np 1 {} --memory 20MiB --set "
                      "train.threads=2 : -np 1 {} --memory 64MiB --set memory.micro_batch=2",
                      mpirun(), one, two, two));
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(model("both"), model("whole"));
}

TEST_F(Misuse, ARankThatIsAlone) {
  expect_line(run("env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 " + train()), 2,
              "dist: mpirun started 3 processes, and MPI sees 1: they were not started by the MPI "
              "that Ebb was built with; use its mpirun");
}

TEST_F(Misuse, NoOpenMpi) {
  expect_line(run("env PATH=/nowhere " + train("--processes 2")), 2,
              "there is no mpirun here; install Open MPI (apt-get install openmpi-bin)");
  expect_line(
      run(mpirun() + " -x EBB_DIST_PLUGIN=/no/such.so -np 2 " + train()), 2,
      "dist: mpirun started 2 processes, but there is no libebb_dist_mpi.so in /no/such.so");
  // As where its library is not installed: the plugin asks for one of another name.
  std::string plugin = read_file(EBB_PLUGIN);
  const std::size_t at = plugin.find("libmpi.so");
  ASSERT_NE(at, std::string::npos);
  plugin.replace(at, 6, "libnon");
  std::ofstream(folder_ + "/plugin.so", std::ios::binary) << plugin;
  const Ran ran = run(mpirun() + " -x EBB_DIST_PLUGIN=./plugin.so -np 2 " + train());
  expect_line(ran, 2, "plugin.so cannot be opened: libnon.so");
  EXPECT_HAS(ran.text, "; install Open MPI (openmpi-bin)");
}

TEST_F(Misuse, TwoJobsInOneDirectory) {
  JobOptions options{.ranks = 2};
  options.program = {EBB_COMMAND, "train", folder_ + "/mlp.toml", "--out", folder_ + "/run",
                     "-q",        "--set", "train.steps=1000000", "--set", "every.save=2"};
  Job first(options);
  for (const double end = seconds() + 60;
       seconds() < end && !file_exists(folder_ + "/run/checkpoints/step-00000002/manifest.json");)
    ::usleep(5000);
  const auto refused = [&](const Ran& ran, const std::string& text) {
    EXPECT_EQ(ran.code, 2) << ran.text;
    ASSERT_EQ(ran.lines().size(), 1u) << ran.text;
    EXPECT_HAS(ran.lines()[0], text);
  };
  refused(run(fmt::format("{} resume run --processes 2 -q", EBB_COMMAND)), " at work there; wait");
  refused(run(fmt::format("{} resume run -q", EBB_COMMAND)), " at work there; wait");
  refused(run(train("--processes 3 -q")), "it holds a run already");
  ::kill(first.launcher(), SIGTERM);
  EXPECT_TRUE(first.over(10)) << first.err();
  const Ran ran = run(fmt::format("{} inspect run", EBB_COMMAND));
  EXPECT_EQ(ran.code, 0) << ran.text;
}

// The second host has another folder of that name: an empty one, or one with another run in it.
TEST_F(Misuse, DirectoriesThatOtherHostsDoNotSee) {
  TwoHosts hosts;
  if (!hosts.why().empty()) GTEST_SKIP() << hosts.why();
  put_rows();
  for (const char* name : {"/runs", "/other"}) fs::create_directory(folder_ + name);
  const auto ebb = [&](const std::string& words) { return std::string(EBB_COMMAND) + words; };
  const auto on_both = [&](const std::string& words) {
    JobOptions options{.ranks = 2, .mpirun = hosts.mpirun(), .before = hosts.first()};
    options.program = {"/bin/sh", "-c", fmt::format("cd {}; exec {}", folder_, ebb(words))};
    Job job(options);
    EXPECT_TRUE(job.over(60)) << job.err();
    return Ran{job.out() + job.err(), job.code()};
  };
  hosts.see(folder_ + "/runs", folder_ + "/other");
  const std::string of_second = "ebb: rank 1 of 2 on " + hosts.second_name() + ": ";
  expect_line(on_both(" train a/c.toml --out runs/r -q"), 2,
              of_second + "runs/r is not here, where");
  EXPECT_FALSE(fs::exists(folder_ + "/runs/r")) << "left behind";
  ASSERT_EQ(run(ebb(" train a/c.toml --out runs/r -q")).code, 0);
  expect_line(on_both(" resume runs/r -q --set train.steps=8"), 2,
              of_second + "cannot use \"runs/r\" for a run: there is no such directory");
  ASSERT_EQ(run(ebb(" train a/c.toml --out other/r -q --set train.seed=2")).code, 0);
  fs::copy_file(folder_ + "/runs/r/config.toml", folder_ + "/other/r/config.toml",
                fs::copy_options::overwrite_existing);
  expect_line(on_both(" resume runs/r -q --set train.steps=8"), 2,
              "dist: ranks differ in the checkpoint ");
}

// A budget that needs a spill file, for which one rank's disk has no room.
TEST_F(Misuse, OneRankWithoutRoomForItsSpillFile) {
  const std::string disk = folder_ + "/disk";
  fs::create_directory(disk);
  if (shell(
          fmt::format(
              "truncate -s 16M {0}.img && mkfs.ext4 -q {0}.img && mount -o loop {0}.img {0}", disk))
          .code != 0)
    GTEST_SKIP() << "a small disk cannot be mounted here";
  const std::string large = train("--memory 26MiB --set model.hidden=[512,512]");
  const Ran ran =
      run(fmt::format("{} -np 1 {} : -np 1 -x TMPDIR={} {}", mpirun(), large, disk, large));
  EXPECT_EQ(shell("umount " + disk).code, 0);
  expect_line(ran, 2, "ebb: rank 1 of 2 on ");
  EXPECT_HAS(ran.text, "of the disk under \"" + disk + "\", where ");
}

}  // namespace
}  // namespace ebb::test
