// By whom a process was started, and what is said where the plugin is missing or of another kind.
#include "ebb/dist/open.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "ebb/dist/launch.hpp"
#include "tests/error_of.hpp"
#include "tests/io/folder.hpp"

namespace ebb {
namespace {

using dist::Started;
using test::error_of;

std::string seen(const std::map<std::string, std::string>& environment) {
  const auto as = dist::started([&](const char* name) -> const char* {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  });
  return as ? as->by + " " + std::to_string(as->rank) + " of " + std::to_string(as->size) : "alone";
}

TEST(Started, ByLaunchersOfSeveralAlone) {
  EXPECT_EQ(seen({}), "alone");
  EXPECT_EQ(seen({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "mpirun 2 of 4");
  EXPECT_EQ(seen({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}), "mpirun 1 of 3");
  EXPECT_EQ(seen({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "1"}}),
            "srun 1 of 2");
  // mpirun -np 1, and what is no launcher: a batch script itself, variables that make no sense.
  EXPECT_EQ(seen({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), "alone");
  EXPECT_EQ(seen({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), "alone");
  EXPECT_EQ(seen({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "alone");
  EXPECT_EQ(seen({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), "alone");
  EXPECT_EQ(seen({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "99999999999"}}),
            "alone");
}

class PluginTest : public test::InFolder {
 protected:
  void TearDown() override { unsetenv("EBB_DIST_PLUGIN"); }
  std::string refused(const std::string& plugin) {
    setenv("EBB_DIST_PLUGIN", plugin.c_str(), 1);
    return error_of([] { dist::open_plugin({"mpirun", 0, 4}); });
  }
};

TEST_F(PluginTest, IsLookedForWhereItIsNamedAndBesideTheProgram) {
  setenv("EBB_DIST_PLUGIN", "/somewhere/plugin.so", 1);
  EXPECT_EQ(dist::plugin_places(), std::vector<std::string>{"/somewhere/plugin.so"});
  unsetenv("EBB_DIST_PLUGIN");
  const auto places = dist::plugin_places();
  ASSERT_FALSE(places.empty());
  for (const std::string& place : places) {
    EXPECT_TRUE(place.starts_with('/')) << "never where the user happens to be: " << place;
    EXPECT_TRUE(place.ends_with("/libebb_dist_mpi.so")) << place;
  }
}

TEST_F(PluginTest, WhatIsMissingIsSaid) {
  EXPECT_HAS(
      refused("/no/such/plugin.so"),
      "mpirun started 4 processes, but there is no libebb_dist_mpi.so in /no/such/plugin.so; "
      "install Open MPI (libopenmpi-dev)");
  EXPECT_HAS(refused(put("text.so", "not a library")), "text.so cannot be opened");
}

// Made by the compiler of the tests: the table of another version, and a library that is no plugin.
TEST_F(PluginTest, OfAnotherKindIsRefused) {
  const auto library = [&](const std::string& name, const std::string& source) {
    const std::string from = put(name + ".c", source), to = from.substr(0, from.size() - 2) + ".so";
    if (std::system(("cc -shared -fPIC -o " + to + " " + from + " 2>/dev/null").c_str()) != 0)
      return std::string();
    return to;
  };
  const std::string other = library("other",
                                    "static const unsigned table[100] = {77, 400};\n"
                                    "const void* ebb_dist_plugin(void) { return table; }\n");
  if (other.empty()) GTEST_SKIP() << "there is no cc";
  EXPECT_HAS(refused(other),
             "other.so has interface 77, and this Ebb has 1: it is of another version");
  EXPECT_HAS(refused(library("none", "int x;\n")), "none.so is no plugin of Ebb's");
}

TEST(Launch, TheLineIsAValue) {
  const auto line =
      dist::mpirun_line({.processes = 2, .threads = 3, .program = {"ebb", "train", "a b.toml"}});
  const std::string text = dist::shell_line(line);
  EXPECT_TRUE(text.starts_with("mpirun -np 2 ")) << text;
  EXPECT_TRUE(text.ends_with(" ebb train 'a b.toml'")) << text;
  for (const char* part : {"--oversubscribe", "--bind-to none", "-x EBB_THREADS=3",
                           "--mca mpi_yield_when_idle 1", "--mca oob_tcp_keepalive_time 2",
                           "--mca oob_tcp_keepalive_intvl 1", "--mca oob_tcp_keepalive_probes 3"})
    EXPECT_HAS(text, part);
  EXPECT_EQ(text.find("--allow-run-as-root") != std::string::npos, geteuid() == 0);
  EXPECT_HAS(
      dist::shell_line(dist::mpirun_line({.processes = 1000, .threads = 0, .program = {"x"}})),
      "EBB_THREADS=1 ");
  EXPECT_EQ(dist::shell_line({"it's", "", "a=b"}), "'it'\\''s' '' a=b");
}

TEST(Launch, MistakesAreNamed) {
  EXPECT_HAS(error_of([] { dist::mpirun_line({.processes = 0, .threads = 0, .program = {"x"}}); }),
             "0 processes; expected 1 to 1024");
  EXPECT_HAS(error_of([] { dist::mpirun_line({.processes = 2, .threads = 0, .program = {}}); }),
             "no program");
  EXPECT_HAS(error_of([] { dist::become({"no-such-mpirun"}); }),
             "there is no no-such-mpirun here; install Open MPI");
}

}  // namespace
}  // namespace ebb
