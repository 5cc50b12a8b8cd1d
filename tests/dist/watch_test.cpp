// Who is named, and when: ranks in a test's own time.
#include "ebb/dist/watch.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "ebb/base/messages/transport_fakes.hpp"

namespace ebb {
namespace {

using dist::Watch;

struct Told {
  int by = 0;
  double at = 0;
  Watch::Finding what;
};

// Some ranks; each takes a turn every 10 ms, unless it is stopped.
class Ring {
 public:
  explicit Ring(int ranks, std::uint64_t seed = 1)
      : network_(ranks, {.seed = seed, .delay_seconds = 0.03, .clock = [this] { return now_; }}) {
    for (int r = 0; r < ranks; ++r) {
      transports_.push_back(network_.open(r));
      watches_.push_back(std::make_unique<Watch>(r, ranks));
    }
  }

  void pass(double seconds) {
    for (const double end = now_ + seconds; now_ < end; now_ += 0.01)
      for (int r = 0; r < static_cast<int>(watches_.size()); ++r) {
        if (stopped_.contains(r)) continue;
        const bool alert = alerts_.erase(r) > 0;
        if (auto found = at(r).turn(*transports_[static_cast<std::size_t>(r)], now_,
                                    waiting_.contains(r), alert))
          told_.push_back({r, now_, *found});
      }
  }
  Watch& at(int rank) { return *watches_[static_cast<std::size_t>(rank)]; }
  void stop(int rank) { stopped_.insert(rank); }
  void go_on(int rank) { stopped_.erase(rank); }
  void cut(int rank) { network_.silence(rank); }
  void alert(int rank) { alerts_.insert(rank); }
  void wait(int rank) { waiting_.insert(rank); }
  double now() const { return now_; }
  const std::vector<Told>& told() const { return told_; }

 private:
  double now_ = 100;
  FakeNetwork network_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::set<int> stopped_, alerts_, waiting_;
  std::vector<Told> told_;
};

TEST(Watch, SaysNothingWhileAllAreAlive) {
  for (const int ranks : {2, 3, 8}) {
    Ring ring(ranks);
    ring.pass(60);
    EXPECT_TRUE(ring.told().empty());
  }
}

TEST(Watch, NamesAStoppedRankOnceAfterFiveSeconds) {
  for (const int ranks : {2, 3, 5})
    for (int victim = 0; victim < ranks; ++victim) {
      Ring ring(ranks, static_cast<std::uint64_t>(ranks * 10 + victim));
      ring.at(victim).set_step(41);
      ring.pass(3);
      ring.at(victim).set_step(42);
      ring.pass(0.3);
      ring.stop(victim);
      const double since = ring.now();
      ring.pass(7);
      ASSERT_EQ(ring.told().size(), 1u) << ranks << " ranks, " << victim;
      const Told& told = ring.told()[0];
      EXPECT_EQ(told.by, (victim + 1) % ranks);
      EXPECT_EQ(told.what.rank, victim);
      EXPECT_EQ(told.what.step, 42);
      EXPECT_TRUE(told.what.ends_job);
      EXPECT_TRUE(told.what.what.starts_with("no sign of life for 5.0 s"));
      EXPECT_GT(told.at - since, 4.4);
      EXPECT_LT(told.at - since, 5.2);
      // It wakes, as launchers wake what they end: it has heard nothing, and blames nobody.
      ring.go_on(victim);
      ring.alert(victim);
      ring.pass(2);
      for (std::size_t i = 1; i < ring.told().size(); ++i) EXPECT_EQ(ring.told()[i].what.what, "");
    }
}

TEST(Watch, APauseOfFourSecondsIsNone) {
  Ring ring(3);
  ring.pass(2);
  for (const int rank : {0, 1, 2}) {
    ring.stop(rank);
    ring.pass(4);
    ring.go_on(rank);
    ring.pass(3);
  }
  for (const int rank : {0, 1, 2}) ring.stop(rank);  // the whole machine
  ring.pass(100);
  for (const int rank : {0, 1, 2}) ring.go_on(rank);
  ring.pass(3);
  EXPECT_TRUE(ring.told().empty());
}

TEST(Watch, ARankThatIsCutOffIsNamedByItsFollower) {
  Ring ring(4);
  ring.pass(2);
  ring.cut(1);
  ring.pass(6);
  std::map<int, int> named;
  for (const Told& t : ring.told()) named[t.by] = t.what.rank;
  EXPECT_EQ(named, (std::map<int, int>{{1, 0}, {2, 1}})) << "it cannot know that it is itself";
}

// The launcher alerts all that are left: the follower of the dead one waits for its answer in vain.
TEST(Watch, AnAlertFindsTheDeadRank) {
  for (const int ranks : {2, 3, 5})
    for (int victim = 0; victim < ranks; ++victim)
      for (const double moment : {0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.49}) {
        Ring ring(ranks, static_cast<std::uint64_t>(victim + 1));
        ring.at(victim).set_step(7);
        ring.pass(3 + moment);
        ring.stop(victim);
        ring.pass(0.01);
        for (int r = 0; r < ranks; ++r)
          if (r != victim) ring.alert(r);
        ring.pass(0.9);
        ASSERT_EQ(ring.told().size(), 1u) << ranks << " ranks, " << victim << ", " << moment;
        EXPECT_EQ(ring.told()[0].by, (victim + 1) % ranks);
        EXPECT_EQ(ring.told()[0].what.rank, victim);
        EXPECT_EQ(ring.told()[0].what.step, 7);
        EXPECT_FALSE(ring.told()[0].what.ends_job) << "the launcher does, in a moment";
        ring.pass(4);
        ASSERT_GE(ring.told().size(), 2u) << "but where it does not";
        for (std::size_t i = 1; i < ring.told().size(); ++i) {
          EXPECT_TRUE(ring.told()[i].what.ends_job);
          EXPECT_EQ(ring.told()[i].what.what, "") << "it is told once";
        }
      }
}

TEST(Watch, AnAlertWhileAllAreAliveIsAnswered) {
  Ring ring(4);
  ring.pass(3);
  for (int r = 0; r < 4; ++r) ring.alert(r);
  ring.pass(10);
  ring.alert(2);  // one alone: the plain beats of the one before it are an answer
  ring.pass(10);
  EXPECT_TRUE(ring.told().empty());
}

TEST(Watch, WhoSaysThatItEndsIsNotNamed) {
  Ring ring(3);
  ring.pass(2);
  ring.at(1).end();
  ring.pass(0.2);
  EXPECT_TRUE(ring.at(1).told());
  ring.stop(1);
  for (const int r : {0, 2}) ring.alert(r);
  ring.pass(2);
  EXPECT_TRUE(ring.told().empty());
  ring.pass(4);
  ASSERT_FALSE(ring.told().empty()) << "the job does not go on without it";
  for (const Told& t : ring.told()) EXPECT_EQ(t.what.what, "");
}

TEST(Watch, ARankThatIsBusyForEverNamesItself) {
  Ring ring(3);
  for (int r = 0; r < 3; ++r) {
    ring.at(r).expect(1);
    ring.at(r).set_step(5);
    if (r != 1) ring.wait(r);  // for rank 1
  }
  ring.pass(19);
  EXPECT_TRUE(ring.told().empty());
  ring.pass(2);
  ASSERT_EQ(ring.told().size(), 1u);
  EXPECT_EQ(ring.told()[0].what.rank, 1);
  EXPECT_EQ(ring.told()[0].what.what, "busy with one step for 20 s, where 1 s were expected");
}

TEST(Watch, WhereAllWaitTheFirstSaysSo) {
  Ring ring(3);
  for (int r = 0; r < 3; ++r) {
    ring.at(r).expect(1);
    ring.at(r).set_step(5);
    ring.wait(r);
  }
  ring.pass(59);
  EXPECT_TRUE(ring.told().empty());
  ring.pass(2);
  ASSERT_EQ(ring.told().size(), 1u);
  EXPECT_EQ(ring.told()[0].what.rank, 0);
  EXPECT_EQ(ring.told()[0].what.what, "no step for 60 s, and it waits for others");
}

TEST(Watch, StepsOfAnyLengthWhereNothingWasSaid) {
  Ring ring(2);
  ring.at(0).set_step(1);
  ring.at(1).set_step(1);
  ring.pass(300);
  EXPECT_TRUE(ring.told().empty());
}

}  // namespace
}  // namespace ebb
