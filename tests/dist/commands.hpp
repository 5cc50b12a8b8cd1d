// ebb train and ebb resume in a folder of their own, with a small config in it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "ebb/base/sha256.hpp"
#include "tests/dist/job.hpp"
#include "tests/dist/shell.hpp"

namespace ebb::test {

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_jobs(); !why.empty()) GTEST_SKIP() << why;
    folder_ =
        (std::filesystem::temp_directory_path() / fmt::format("ebb-command-{}", getpid())).string();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    ASSERT_EQ(ebb("init mlp .").code, 0);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  Ran ebb(const std::string& words) const {
    return shell(fmt::format("cd {} && timeout 100 {} {} </dev/null", folder_, EBB_COMMAND, words));
  }
  // A short run, with an evaluation and a ragged last batch; its words and where it goes.
  Ran train(const std::string& out, int processes, int steps = 12) const {
    return ebb(fmt::format("train mlp.toml --out {} --set train.steps={} {} --processes {}", out,
                           steps, kSmall, processes));
  }
  std::string model(const std::string& run) const {
    std::ostringstream text;
    text << std::ifstream(folder_ + "/" + run + "/model/model.safetensors", std::ios::binary)
                .rdbuf();
    EXPECT_FALSE(text.str().empty()) << run;
    Sha256 sha;
    const std::string bytes = text.str();
    sha.add(std::as_bytes(std::span(bytes)));
    return sha.hex();
  }
  static constexpr char kSmall[] =
      "--set data.rows=400 --set train.batch=50 --set 'train.schedule=\"constant\"' "
      "--set train.warmup=0 --set every.eval=4 --set every.save=4 --set every.log=2";

  std::string folder_;
};

}  // namespace ebb::test
