// A compiled step whose spill file fails: a clear error, and never a mixture.
#include <gtest/gtest.h>

#include <optional>

#include <filesystem>

#include <sys/stat.h>

#include <cstring>

#include "ebb/base/files/file.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/exec/spill/disk_space.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "tests/bytes.hpp"
#include "tests/exec/deep.hpp"

namespace ebb {
namespace {

using file_faults::Call;
using file_faults::Fault;
using test::Deep;

// A model whose smallest plan spills, its data, and its bytes.
struct Trial {
  Deep model{nn::Init(1)};
  optim::Adam adam{params(model)};
  Tensor x = random::normal({64, 256}, 0, 1, 1, 2), y = random::normal({64, 256}, 0, 1, 1, 3);
  Batch batch{{"x", x}, {"y", y}};

  auto compiled(CompileOptions options) {
    return compile({{"x", x.spec()}, {"y", y.spec()}}, options,
                   [this](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["y"])); });
  }
  test::Bytes bytes() const { return test::bytes(adam.params()); }
};

const CompileOptions kSpilling{.recompute = false, .split = false};

// Somewhat above the smallest budget: what the program holds beside the step varies a little.
std::uint64_t smallest() {
  Trial run;
  return run.compiled(kSpilling).plan().minimum + (std::uint64_t{256} << 10);
}

TEST(SpillFaults, TheSmallestPlanSpillsAndGivesTheSameBits) {
  Trial loose, tight;
  {
    auto step = loose.compiled({});
    for (int i = 0; i < 4; ++i) step(loose.batch);
  }
  CompileOptions options = kSpilling;
  options.memory = ByteSize{smallest()};
  auto spilled = tight.compiled(options);
  ASSERT_GT(spilled.plan().chosen.written, 0u);
  for (int i = 0; i < 4; ++i) spilled(tight.batch);
  EXPECT_EQ(loose.bytes(), tight.bytes());
}

// What parameters and optimizer state begin with, the file makes when it is read.
TEST(SpillFaults, CompilingWritesNoFirstValues) {
  CompileOptions options = kSpilling;
  options.memory = ByteSize{smallest()};
  Trial run;
  const std::uint64_t before = file_faults::count(Call::write);
  auto step = run.compiled(options);
  ASSERT_TRUE(step.plan().chosen.state_spilled);
  EXPECT_LE(file_faults::count(Call::write), before + 2);
}

// Of files without a name.
std::uint64_t bytes_on_disk() {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat about {};
    if (::stat(entry.path().c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 0)
      bytes += static_cast<std::uint64_t>(about.st_size);
  }
  return bytes;
}

TEST(SpillDisk, ThePlanSaysWhatTheFileTakes) {
  CompileOptions options = kSpilling;
  options.memory = ByteSize{smallest()};
  Trial run;
  const std::uint64_t before = bytes_on_disk();
  auto step = run.compiled(options);
  const plan::Plan& plan = step.plan();
  EXPECT_GT(plan.forecast.spilled, 0u);
  EXPECT_EQ(plan.forecast.spilled, bytes_on_disk() - before);
  const std::string bytes = std::to_string(plan.forecast.spilled);
  EXPECT_NE(to_string(plan).find("of the disk (" + bytes + " bytes)"), std::string::npos);
  EXPECT_NE(plan.json().find("\"spilled\": " + bytes), std::string::npos);
}

TEST(SpillDisk, ADiskWithoutRoomIsRefusedBeforeItIsFilled) {
  CompileOptions options = kSpilling;
  options.memory = ByteSize{smallest()};
  std::uint64_t needed = 0;
  {
    Trial run;
    needed = run.compiled(options).plan().forecast.spilled;
  }
  const std::uint64_t enough = needed + exec::space_for_others(0);
  {
    const exec::PretendedSpace space(enough);
    Trial run;
    EXPECT_NO_THROW(run.compiled(options));
  }
  const exec::PretendedSpace space(enough - 1);
  Trial run;
  try {
    run.compiled(options);
    ADD_FAILURE() << "not refused";
  } catch (const Error& e) {
    const std::string line = e.what();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_NE(line.find(std::to_string(needed) + " bytes"), std::string::npos) << line;
    EXPECT_NE(line.find(std::to_string(enough - 1) + " bytes"), std::string::npos) << line;
    EXPECT_NE(line.find(exec::spill_directory("")), std::string::npos) << line;
    EXPECT_NE(line.find("without the file the smallest budget"), std::string::npos) << line;
  }
  // Where there is another way, it is taken.
  std::uint64_t more = 0;
  {
    Trial other;
    CompileOptions kept = kSpilling;
    kept.spill = false;
    more = other.compiled(kept).plan().minimum + (std::uint64_t{256} << 10);
  }
  options.memory = ByteSize{more};
  EXPECT_EQ(run.compiled(options).plan().forecast.spilled, 0u);
}

int open_files() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// Variables in the file can be read for as long as somebody holds them; then the file goes.
TEST(SpillFaults, TheFileEndsWithItsVariables) {
  const std::uint64_t budget = smallest();
  const int before = open_files();
  {
    Trial run;
    CompileOptions options = kSpilling;
    options.memory = ByteSize{budget};
    {
      auto step = run.compiled(options);
      ASSERT_TRUE(step.plan().chosen.state_spilled);
      step(run.batch);
    }
    EXPECT_GT(open_files(), before);
    EXPECT_FALSE(run.bytes().empty());
  }
  EXPECT_EQ(open_files(), before);
}

TEST(SpillFaults, AMissingDirectoryIsRefusedAtOnce) {
  Trial run;
  CompileOptions options = kSpilling;
  options.memory = ByteSize{smallest()};
  options.spill_directory = "/nowhere/at/all";
  try {
    run.compiled(options);
    FAIL() << "not refused";
  } catch (const FileError& e) {
    EXPECT_NE(std::string(e.what()).find("/nowhere/at/all"), std::string::npos) << e.what();
  }
}

TEST(SpillFaults, AFileSystemInMemoryIsNoPlaceToSpillTo) {
  if (!File::temporary("/dev/shm", false).in_memory())
    GTEST_SKIP() << "/dev/shm is not a tmpfs here";
  Trial run;
  CompileOptions options = kSpilling;
  options.spill_directory = "/dev/shm";
  try {
    run.compiled(options);
    FAIL() << "not refused";
  } catch (const FileError& e) {
    EXPECT_NE(std::string(e.what()).find("tmpfs"), std::string::npos) << e.what();
  }
  // Where nobody named it, plans do without.
  const std::string before = getenv("TMPDIR") ? getenv("TMPDIR") : "";
  setenv("TMPDIR", "/dev/shm", 1);
  const std::uint64_t without = run.compiled(kSpilling).plan().minimum;
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  EXPECT_GT(without, run.compiled(kSpilling).plan().minimum);
}

// Whichever transfer fails, the step throws; what the parameters are then is what they were, or the
// step says that it is torn and refuses to go on.
TEST(SpillFaults, AFailedTransferLeavesNoMixture) {
  int torn = 0, whole = 0;
  for (const bool write : {true, false})
    for (std::uint64_t nth = 1; nth < 24; nth += 4) {
      Trial run;
      CompileOptions options = kSpilling;
      options.memory = ByteSize{smallest()};  // errors bring in code that was not there before
      std::optional made = run.compiled(options);
      auto& step = *made;
      step(run.batch);
      const auto before = run.bytes();
      const file_faults::Guard guard;
      if (write) {
        file_faults::fail_write(nth, Fault::enospc);
      } else {
        file_faults::fail_read(nth, Fault::eio);
      }
      bool failed = false;
      try {
        step(run.batch);
      } catch (const FileError& e) {
        failed = true;
        EXPECT_NE(std::string(e.what()).find("spill"), std::string::npos) << e.what();
      }
      file_faults::clear();
      if (!failed) continue;
      if (step.executor().torn()) {
        ++torn;
        EXPECT_THROW(step(run.batch), Error);
        continue;
      }
      ++whole;
      EXPECT_EQ(run.bytes(), before) << (write ? "write " : "read ") << nth;
      EXPECT_EQ(run.adam.steps(), 1);
      step(run.batch);  // goes on as if nothing had been
      made.reset();     // and its budget
      Trial again;
      auto same = again.compiled({});
      same(again.batch);
      same(again.batch);
      EXPECT_EQ(run.bytes(), again.bytes()) << (write ? "write " : "read ") << nth;
    }
  EXPECT_GT(torn + whole, 4) << "the faults reached the spill file";
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace ebb
