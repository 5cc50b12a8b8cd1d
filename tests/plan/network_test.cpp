// The figures of a network: as text, and kept by hosts.
#include "ebb/plan/forecast/network.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/io/folder.hpp"

namespace ebb::plan {
namespace {

const Network kSome{
    .seconds_per_message = 12.5e-6, .bytes_per_second = 3.25e9, .ranks = 4, .hosts = 2};

TEST(Network, AMessageTakesAlphaAndItsBytes) {
  EXPECT_DOUBLE_EQ(kSome.seconds(0), 12.5e-6);
  EXPECT_DOUBLE_EQ(kSome.seconds(3.25e9), 1 + 12.5e-6);
}

TEST(Network, IsReadAsItWasWrittenAndNothingElseIs) {
  Network read;
  ASSERT_TRUE(parse(to_string(kSome), read));
  EXPECT_EQ(read, kSome);
  for (const char* text :
       {"", "ebb-network 2", "ebb-network 1\nseconds_per_message nan",
        "ebb-network 1\nseconds_per_message 1e-5\nbytes_per_second 0\nranks 2\nhosts 1\n",
        "ebb-network 1\nseconds_per_message nan\nbytes_per_second 1e9\nranks 2\nhosts 1\n",
        "ebb-network 1\nseconds_per_message 1e-5\nbytes_per_second 1e9\nranks 1\nhosts 1\n",
        "ebb-network 1\nseconds_per_message 1e-5\nbytes_per_second 1e9\nranks 2\nhosts 3\n"})
    EXPECT_FALSE(parse(text, read)) << text;
  EXPECT_EQ(read, kSome) << "and changes nothing";
}

class KeptNetwork : public test::InFolder {
 protected:
  void TearDown() override { unsetenv("EBB_MACHINE"); }
};

TEST_F(KeptNetwork, ByTheHostsItIsOf) {
  const std::string machine = put("machine", "");
  setenv("EBB_MACHINE", machine.c_str(), 1);
  Network found;
  EXPECT_FALSE(known_network({"a", "b"}, found));
  keep_network({"b", "a", "a"}, kSome);
  ASSERT_TRUE(known_network({"a", "b"}, found)) << "however many ranks each has";
  EXPECT_EQ(found, kSome);
  EXPECT_FALSE(known_network({"a", "c"}, found));
  EXPECT_FALSE(known_network({"a"}, found));
  setenv("EBB_MACHINE", "off", 1);
  keep_network({"a"}, kSome);
  EXPECT_FALSE(known_network({"a"}, found)) << "nothing is kept";
}

}  // namespace
}  // namespace ebb::plan
