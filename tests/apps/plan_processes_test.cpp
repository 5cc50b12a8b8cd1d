// ebb plan --processes: what several processes would take, before there are any.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ebb/plan/forecast/network.hpp"
#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;

class Processes : public Commands {
 protected:
  // The machine's figures are measured once, and no network is known.
  void SetUp() override {
    put("c.toml", small_config());
    setenv("EBB_MACHINE", path("machine").c_str(), 1);
  }
  void TearDown() override { unsetenv("EBB_MACHINE"); }

  Json json(std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "c.toml", "--json"});
    const Ran ran = ebb(words);
    EXPECT_EQ(ran.err, "");
    EXPECT_EQ(ran.code, 0);
    return Json::parse(ran.out);
  }
};

TEST_F(Processes, areForecastWithoutThem) {
  const Ran ran = ebb({"plan", "c.toml", "--processes", "1,2,5", "--network", "10Gbit/s,50us"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* part : {"processes", "time a step", "speed-up", "waiting", "exposed",
                           "peak of each", "10 Gbit/s, 50 us"})
    EXPECT_HAS(ran.out, part);

  const Json all =
      json({"--processes", "1,2,5", "--network", "10Gbit/s,50us", "--set", "train.threads=1"});
  EXPECT_EQ(all["network"]["bytes_per_second"], 1.25e9);
  EXPECT_DOUBLE_EQ(all["network"]["seconds_per_message"], 5e-5);
  EXPECT_FALSE(all["network"]["measured"]);
  ASSERT_EQ(all["processes"].size(), 3u);
  const std::int64_t examples = all["examples"];
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& of = all["processes"][i];
    const int count = std::vector<int>{1, 2, 5}[i];
    EXPECT_EQ(of["processes"], count);
    EXPECT_EQ(of["threads"], 1);
    EXPECT_EQ(of["per_host"], 1);
    EXPECT_EQ(of["rows"], (examples + count - 1) / count);
    EXPECT_TRUE(of["fits"]);
    EXPECT_GT(of["seconds"], 0);
    EXPECT_GT(of["peak"], 1 << 20);
    ASSERT_EQ(of["ranks"].size(), static_cast<std::size_t>(count));
    for (const Json& rank : of["ranks"])
      EXPECT_NEAR(double(rank["busy"]) + double(rank["waiting"]), double(of["seconds"]), 1e-9);
    if (count == 1) {
      EXPECT_EQ(of["waiting"], 0);
      EXPECT_EQ(of["sent"], 0);
    } else {
      EXPECT_GT(of["waiting"], 0);
      EXPECT_GT(of["sent"], 1000);
      // The network's time is in it: four votes and the sums around.
      EXPECT_GT(of["seconds"], 4 * 5e-5);
    }
  }
  EXPECT_GT(all["processes"][1]["peak"], all["processes"][0]["peak"]) << "messages take memory";

  const Json slow =
      json({"--processes", "2", "--network", "1 Mbit/s, 20ms", "--set", "train.threads=1"});
  EXPECT_GT(slow["processes"][0]["seconds"], 10 * double(all["processes"][1]["seconds"]));
}

TEST_F(Processes, ofThisMachineUseWhatDoctorHasFound) {
  expect_line(ebb({"plan", "c.toml", "--processes", "1,2"}), 2,
              "plan: how fast messages are here is not known; ebb doctor --network measures it, or "
              "say --network 10Gbit/s,50us");
  EXPECT_EQ(ebb({"plan", "c.toml", "--processes", "1"}).code, 0) << "which sends none";
  plan::keep_network({"here"}, {.seconds_per_message = 1e-5, .bytes_per_second = 3e9, .ranks = 2});
  const Json all = json({"--processes", "3"});
  EXPECT_TRUE(all["network"]["measured"]);
  EXPECT_EQ(all["network"]["bytes_per_second"], 3e9);
  EXPECT_EQ(all["processes"][0]["per_host"], 3);
  EXPECT_HAS(ebb({"plan", "c.toml", "--processes", "3"}).out, "ebb doctor --network has found it");
  EXPECT_EQ(json({"--processes", "4", "--per-host", "2"})["processes"][0]["per_host"], 2);
}

TEST_F(Processes, thatDoNotFitAreSaid) {
  const Ran ran = ebb({"plan", "c.toml", "--processes", "1,2", "--network", "1Gbit/s,50us",
                       "--memory", "16MiB", "--json"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_HAS(ran.err,
             "c.toml: the budget is too small for 2 processes: the smallest that does is ");
  const Json all = Json::parse(ran.out)["processes"];
  EXPECT_TRUE(all[0]["fits"]);
  EXPECT_FALSE(all[1]["fits"]);
  const std::uint64_t least = all[1]["smallest_budget"];
  EXPECT_GT(least, 16u << 20);
  const Json fits =
      json({"--processes", "2", "--network", "1Gbit/s,50us", "--memory", std::to_string(least)});
  EXPECT_TRUE(fits["processes"][0]["fits"]);
  EXPECT_LE(fits["processes"][0]["peak"], least);
}

}  // namespace
}  // namespace ebb::test
