// The thread of messages, over a network that is late and reorders.
#include "ebb/dist/post.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/messages/transport_fakes.hpp"
#include "tests/dist/ranks.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using dist::Message;
using dist::Post;
using test::error_of;

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(value));
}

// Each rank sends numbers to the next on several tags at once, and receives those of the one before.
TEST(Post, MovesWhatIsGivenToIt) {
  constexpr int kRanks = 4, kTags = 5, kTimes = 20;
  for (const std::uint64_t seed : {1, 2, 3}) {
    FakeNetwork network(kRanks, {.seed = seed, .delay_seconds = 2e-3});
    test::expect_none(test::on_ranks(kRanks, [&](int rank) {
      Post post([&] { return network.open(rank); }, 10, nullptr);
      EXPECT_EQ(post.rank(), rank);
      EXPECT_EQ(post.size(), kRanks);
      const int next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
      std::vector<std::array<int, 100>> out(kTags), in(kTags);
      std::vector<std::unique_ptr<Message>> messages;
      for (int tag = 0; tag < kTags; ++tag) {
        const auto at = static_cast<std::size_t>(tag);
        messages.push_back(std::make_unique<Message>(
            Message::Direction::send, Address{next, Channel::data, tag}, bytes_of(out[at])));
        messages.push_back(std::make_unique<Message>(
            Message::Direction::receive, Address{before, Channel::data, tag}, bytes_of(in[at])));
      }
      for (int time = 0; time < kTimes; ++time) {
        for (int tag = 0; tag < kTags; ++tag)
          std::iota(out[static_cast<std::size_t>(tag)].begin(),
                    out[static_cast<std::size_t>(tag)].end(), rank * 1000 + tag * 100 + time);
        for (auto& m : messages) post.start(*m);
        for (auto m = messages.rbegin(); m != messages.rend(); ++m) post.wait(**m);
        for (int tag = 0; tag < kTags; ++tag) {
          EXPECT_EQ(in[static_cast<std::size_t>(tag)][7], before * 1000 + tag * 100 + time + 7);
          EXPECT_EQ(messages[static_cast<std::size_t>(2 * tag + 1)]->moved(), 400u);
        }
      }
    }));
    EXPECT_EQ(network.under_way(), 0u);
  }
}

TEST(Post, AReceiveForWhichNothingComesIsCancelled) {
  FakeNetwork network(2);
  Post post([&] { return network.open(0); }, 10, nullptr);
  int room = 0;
  {
    Message in = Message::from({1, Channel::data, 0}, std::as_writable_bytes(std::span(&room, 1)));
    post.start(in);
    EXPECT_FALSE(post.over(in));
    EXPECT_HAS(error_of([&] { post.start(in); }), "under way");
    post.cancel(in);
    post.start(in);
  }  // and by its end
  const auto other = network.open(1);
  int sent = 5;
  other->send({0, Channel::data, 0}, std::as_bytes(std::span(&sent, 1)));
  EXPECT_EQ(network.under_way(), 1u);
  EXPECT_EQ(room, 0) << "nobody writes there any more";
}

TEST(Post, WhatFailsIsThrownByWhoWaits) {
  FakeNetwork network(2);
  Post post([&] { return network.open(0); }, 10, nullptr);
  int room = 0, after = 0;
  Message in = Message::from({1, Channel::data, 0}, std::as_writable_bytes(std::span(&room, 1)));
  Message more = Message::from({1, Channel::data, 1}, std::as_writable_bytes(std::span(&after, 1)));
  post.start(in);
  std::thread fails([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    post.fail(std::make_exception_ptr(dist::RankLost(1, "there", 12, "rank 1 is lost")));
  });
  try {
    post.wait(in);
    ADD_FAILURE() << "nothing has come";
  } catch (const dist::RankLost& lost) {
    EXPECT_EQ(lost.rank(), 1);
    EXPECT_EQ(lost.host(), "there");
    EXPECT_EQ(lost.step(), 12);
  }
  fails.join();
  EXPECT_THROW(post.start(more), dist::RankLost) << "nor will anything later";
}

TEST(Post, MistakesAreNamed) {
  FakeNetwork network(2);
  const auto other = network.open(1);
  Post post([&] { return network.open(0); }, 10, nullptr);
  std::array<int, 2> sent{};
  int room = 0;
  other->send({0, Channel::data, 0}, std::as_bytes(std::span(sent)));
  Message in = Message::from({1, Channel::data, 0}, std::as_writable_bytes(std::span(&room, 1)));
  post.start(in);
  EXPECT_THROW(post.wait(in), MessageTooLong);
  Message nobody = Message::from({2, Channel::data, 0}, {});
  EXPECT_HAS(error_of([&] { post.start(nobody); }), "rank 2 of 2");
  Message tag = Message::from({1, Channel::data, kLargestTag + 1}, {});
  EXPECT_HAS(error_of([&] { post.start(tag); }), "a tag from 0 to 32767");
}

TEST(Post, ATransportThatDoesNotOpen) {
  EXPECT_HAS(error_of([] {
               Post post([]() -> std::unique_ptr<Transport> { throw Error("no way"); }, 10,
                         nullptr);
             }),
             "no way");
  std::atomic<bool> late = false;
  FakeNetwork network(2);
  Post post(
      [&] {
        while (!late) std::this_thread::yield();
        return network.open(0);
      },
      0.02, [&] { late = true; });
  EXPECT_TRUE(late);
}

// A message to a peer that is gone waits until the watch has said who is lost.
TEST(Post, AnUnreachablePeerIsLeftToTheWatch) {
  FakeNetwork network(2);
  Post post([&] { return network.open(0); }, 10, nullptr);
  network.fail_sends(1);
  int value = 1;
  Message out = Message::to({1, Channel::data, 0}, std::as_bytes(std::span(&value, 1)));
  post.start(out);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(post.over(out));
  post.fail(std::make_exception_ptr(dist::RankLost(1, "there", 3, "rank 1 is lost")));
  EXPECT_THROW(post.wait(out), dist::RankLost);
}

}  // namespace
}  // namespace ebb
