// The fake network keeps what the seam for messages promises, and is as unkind as it allows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "ebb/base/messages/transport_fakes.hpp"

namespace ebb {
namespace {

std::span<const std::byte> bytes_of(const int& value) {
  return std::as_bytes(std::span(&value, 1));
}
std::span<std::byte> room_of(int& value) { return std::as_writable_bytes(std::span(&value, 1)); }

struct Slow {  // a test's own time
  double now = 1;
  FakeNetwork::Options options(std::uint64_t seed, double delay) {
    return {seed, delay, [this] { return now; }};
  }
};

TEST(FakeNetwork, OneTagKeepsItsOrderAndOthersDoNot) {
  bool overtaken = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Slow clock;
    FakeNetwork network(2, clock.options(seed, 1));
    const auto from = network.open(0), to = network.open(1);
    std::array<int, 10> sent{}, got{};
    std::array<Transport::Request, 10> in{};
    for (int i = 0; i < 10; ++i) {
      sent[i] = i;
      from->send({1, Channel::data, i % 2}, bytes_of(sent[i]));
      in[i] = to->receive({0, Channel::data, i % 2}, room_of(got[i] = -1));
    }
    std::vector<int> order;
    std::set<int> over;
    for (; order.size() < 10 && clock.now < 10; clock.now += 0.01)
      for (int i = 0; i < 10; ++i)
        if (!over.contains(i) && to->test(in[static_cast<std::size_t>(i)])) {
          over.insert(i);
          order.push_back(i);
        }
    ASSERT_EQ(order.size(), 10u) << "seed " << seed;
    EXPECT_EQ(got, sent) << "the k-th receive of a tag has the k-th message of it, seed " << seed;
    for (const int tag : {0, 1}) {
      std::vector<int> of_tag;
      std::copy_if(order.begin(), order.end(), std::back_inserter(of_tag),
                   [&](int i) { return i % 2 == tag; });
      EXPECT_TRUE(std::is_sorted(of_tag.begin(), of_tag.end())) << "seed " << seed;
    }
    overtaken = overtaken || !std::is_sorted(order.begin(), order.end());
  }
  EXPECT_TRUE(overtaken) << "messages of different tags may overtake each other";
}

TEST(FakeNetwork, ChannelsDoNotMeet) {
  FakeNetwork network(2);
  const auto from = network.open(0), to = network.open(1);
  int sent = 7, got = 0;
  from->send({1, Channel::watch, 3}, bytes_of(sent));
  const auto other = to->receive({0, Channel::data, 3}, room_of(got));
  EXPECT_FALSE(to->test(other));
  to->cancel(other);
  EXPECT_EQ(network.under_way(), 1u);
  const auto mine = to->receive({0, Channel::watch, 3}, room_of(got));
  EXPECT_EQ(to->test(mine), sizeof(int));
  EXPECT_EQ(got, 7);
  EXPECT_THROW(to->test(mine), Error) << "it is spent";
}

TEST(FakeNetwork, SomeSendsAreOverOnlyWhenReceived) {
  FakeNetwork network(2, {.seed = 3});
  const auto from = network.open(0), to = network.open(1);
  int waited = 0, value = 5, got = 0;
  for (int i = 0; i < 50; ++i) {
    const auto out = from->send({1, Channel::data, 0}, bytes_of(value));
    const bool over = from->test(out).has_value();
    waited += !over;
    const auto in = to->receive({0, Channel::data, 0}, room_of(got));
    EXPECT_TRUE(to->test(in));
    if (!over) {
      EXPECT_TRUE(from->test(out));
    }
  }
  EXPECT_GT(waited, 10);
  EXPECT_LT(waited, 40);
}

TEST(FakeNetwork, ASilentRankNeitherSendsNorHears) {
  FakeNetwork network(2);
  const auto from = network.open(0), to = network.open(1);
  int sent = 7, got = 0;
  network.silence(0);
  from->send({1, Channel::data, 0}, bytes_of(sent));
  const auto in = to->receive({0, Channel::data, 0}, room_of(got));
  EXPECT_FALSE(to->test(in));
  network.wake(0);
  EXPECT_TRUE(to->test(in)) << "what it sent meanwhile arrives";
  network.silence(1);
  const auto late = to->receive({0, Channel::data, 0}, room_of(got));
  from->send({1, Channel::data, 0}, bytes_of(sent));
  EXPECT_FALSE(to->test(late));
}

TEST(FakeNetwork, ErrorsOfTheSeam) {
  FakeNetwork network(2);
  const auto from = network.open(0), to = network.open(1);
  std::array<int, 2> sent{1, 2};
  int got = 0;
  from->send({1, Channel::data, 0}, std::as_bytes(std::span(sent)));
  const auto in = to->receive({0, Channel::data, 0}, room_of(got));
  EXPECT_THROW(to->test(in), MessageTooLong);
  EXPECT_THROW(from->send({2, Channel::data, 0}, {}), Error) << "there is no rank 2";
  EXPECT_THROW(from->send({1, Channel::data, kLargestTag + 1}, {}), Error);
  network.fail_sends(1);
  EXPECT_THROW(from->send({1, Channel::data, 0}, {}), Error);
}

}  // namespace
}  // namespace ebb
