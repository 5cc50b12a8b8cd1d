// ebb verify --processes: the same bits on several, on the user's own config.
#include <nlohmann/json.hpp>

#include "tests/dist/commands.hpp"
#include "tests/error_of.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;

class VerifyOnProcesses : public Commands {
 protected:
  Json verified(const std::string& words, int code = 0) const {
    const Ran ran = shell(fmt::format("cd {} && timeout 100 {} verify {} --steps 3 --json {} 2>err",
                                      folder_, EBB_COMMAND, words, kSmall));
    EXPECT_EQ(ran.code, code) << ran.text;
    return Json::parse(ran.text, nullptr, false);
  }
  static Json find(const Json& all, const char* key, const std::string& value) {
    for (const Json& one : all)
      if (one.at(key) == value) return one;
    return {};
  }
};

TEST_F(VerifyOnProcesses, HasTheBitsOfOne) {
  const Json found = verified("mlp.toml --processes 1,3,2,3");
  for (const char* count : {"2", "3"}) {
    const Json run = find(found["runs"], "run", std::string(count) + " processes");
    EXPECT_EQ(run["digest"], found["digest"]) << found;
    const Json promise = find(found["promises"], "id", std::string("processes-") + count);
    EXPECT_EQ(promise["verdict"], "same bits") << promise;
  }
  EXPECT_TRUE(found["holds"]);
  EXPECT_EQ(find(found["promises"], "id", "processes-1"), Json());
}

TEST_F(VerifyOnProcesses, CanFail) {
  const Json found = verified("mlp.toml --processes 2 --spoil 0.001", 1);
  EXPECT_EQ(find(found["promises"], "id", "processes-2")["verdict"], "FAILS") << found;
  EXPECT_FALSE(found["holds"]);
}

TEST_F(VerifyOnProcesses, WhatCannotBeDividedDoesNotApply) {
  std::ofstream(folder_ + "/norm.toml") << "[model]\nkind = \"layers\"\nlayers = [{kind='dense', "
                                           "out=16}, {kind='batch_norm'}, {kind='dense'}]\n"
                                           "[data]\nformat = \"digits\"\n";
  const Json found = verified("norm.toml --processes 2");
  const Json promise = find(found["promises"], "id", "processes-2");
  EXPECT_EQ(promise["verdict"], "does not apply") << found;
  EXPECT_HAS(promise["why"].get<std::string>(), "examples depend on each other in batch_norm");
}

TEST_F(VerifyOnProcesses, MistakesAreOneLine) {
  const auto expect = [&](const std::string& line, const std::string& text) {
    const Ran ran = shell(fmt::format("cd {} && {}", folder_, line));
    EXPECT_EQ(ran.code, 2) << ran.text;
    ASSERT_EQ(ran.lines().size(), 1u) << ran.text;
    EXPECT_HAS(ran.lines()[0], text);
  };
  const std::string verify = EBB_COMMAND " verify mlp.toml --processes ";
  expect(verify + "0", "verify: --processes: \"0\" is no number from 1 to 1024");
  expect(verify + "2,x", "verify: --processes: \"x\" is no number from 1 to 1024");
  expect("PATH=/nowhere " + verify + "2", "launch: there is no mpirun here; install Open MPI");
  expect("EBB_DIST_PLUGIN=/no/such.so " + verify + "2",
         "there is no libebb_dist_mpi.so in /no/such.so");
  expect("OMPI_COMM_WORLD_SIZE=1 " + verify + "2",
         "verify: a launcher has started this process, and --processes starts others");
}

}  // namespace
}  // namespace ebb::test
