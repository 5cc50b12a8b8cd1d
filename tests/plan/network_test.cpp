// The figures of a network: as text, and kept by hosts.
#include "ebb/plan/forecast/network.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ebb/base/error.hpp"
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

TEST(Network, IsWrittenAsPeopleWriteOne) {
  const auto expect = [](const char* text, double bytes_per_second, double seconds) {
    const Network n = parse_network(text);
    EXPECT_DOUBLE_EQ(n.bytes_per_second, bytes_per_second) << text;
    EXPECT_DOUBLE_EQ(n.seconds_per_message, seconds) << text;
  };
  expect("10Gbit/s,50us", 1.25e9, 50e-6);
  expect("1 gbit/s , 0.2 ms", 125e6, 200e-6);
  expect("2.5GB/s,900ns", 2.5e9, 900e-9);
  expect("100MiB/s, 1s", 100 * 1048576.0, 1);
  expect("56kbit/s,30ms", 7000, 30e-3);
  expect("400Gbit/s,1µs", 50e9, 1e-6);
  expect("1Tbit/s", 125e9, Network{}.seconds_per_message);
  expect("1Gbit/s,0us", 125e6, 0);
  EXPECT_EQ(readable(parse_network("10Gbit/s,50us")), "10 Gbit/s, 50 us");
  EXPECT_EQ(readable(parse_network("2.5MB/s,0.5us")), "20 Mbit/s, 0.5 us");
  for (const char* text :
       {"", ",", "10", "10Gbit", "Gbit/s,50us", "-1Gbit/s,50us", "1e3Gbit/s,50us", "1Gbit/s,",
        "1Gbit/s,50", "1Gbit/s,50us,1", "1.2.3Gbit/s,50us", "nanGbit/s,50us", "1Gbit/s,-5us",
        "0Mbit/s", "9999Tbit/s", "1Gbit/s,11s"}) {
    EXPECT_THROW(parse_network(text), Error) << text;
  }
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
