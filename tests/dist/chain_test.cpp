// Steps that ranks share have the bits of one process; what one of them fails with, all do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include "tests/dist/job.hpp"
#include "tests/dist/ranks.hpp"
#include "tests/dist/shared_training.hpp"
#include "tests/error_of.hpp"

namespace ebb::test {
namespace {

class Chains : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_jobs(); !why.empty()) GTEST_SKIP() << why;
  }
};

// What rank 0 prints: the hash with all losses; then how.
struct Trained {
  std::string failed, hash, how;
};
Trained trained(const std::string& kind, int ranks, std::vector<std::string> environment = {}) {
  environment.push_back("EBB_TEST_KIND=" + kind);
  Job job("train", {.ranks = ranks, .environment = environment});
  EXPECT_TRUE(job.over(120)) << kind << " on " << ranks << "\n" << job.err();
  EXPECT_EQ(job.code(), 0) << kind << " on " << ranks << "\n" << job.err();
  Trained result;
  std::istringstream lines(job.out());
  for (std::string line; std::getline(lines, line);)
    (line.starts_with("failed:") ? result.failed
     : result.hash.empty()       ? result.hash
                                 : result.how) += line;
  return result;
}

// With dropout, clipping by norm, and a last batch of 3 rows, of which some ranks have none.
void expect_one_hash(const std::string& kind, std::initializer_list<int> worlds) {
  const Trained alone = trained(kind, 1);
  ASSERT_FALSE(alone.hash.empty());
  for (const int ranks : worlds)
    for (const char* small : {"EBB_TEST_SMALL=0", "EBB_TEST_SMALL=1"}) {
      const Trained shared = trained(kind, ranks, {small, "EBB_TEST_EXACT=1"});
      EXPECT_EQ(shared.hash, alone.hash) << kind << " on " << ranks << " " << small;
      EXPECT_TRUE(shared.how.starts_with("same bits")) << shared.how;
      std::printf("  %s on %d ranks: %s\n", kind.c_str(), ranks, shared.how.c_str());
    }
}

TEST_F(Chains, MlpHasOneHash) { expect_one_hash("mlp", {2, 3, 4, 8}); }
TEST_F(Chains, CnnHasOneHash) { expect_one_hash("cnn", {2, 3, 4}); }
TEST_F(Chains, GptHasOneHash) { expect_one_hash("gpt", {2, 3, 4}); }
TEST_F(Chains, TiedGptHasOneHash) { expect_one_hash("tied-lm", {2, 3, 4}); }
TEST_F(Chains, LlamaHasOneHash) { expect_one_hash("llama", {3}); }
TEST_F(Chains, EmbeddingsHaveOneHash) { expect_one_hash("embeddings", {3}); }

TEST_F(Chains, WhatDependsOnOtherExamplesIsRefusedOnce) {
  Job job("train", {.ranks = 3, .environment = {"EBB_TEST_KIND=resnet"}});
  ASSERT_TRUE(job.over(60)) << job.err();
  EXPECT_NE(job.code(), 0);
  ASSERT_EQ(job.lines().size(), 1u) << job.err();
  EXPECT_HAS(job.lines()[0],
             "the batch cannot be divided among 3 ranks: examples depend on each other in "
             "batch_norm_train");
}

// The step was never made, on any rank; made again, it is as if nothing had been.
TEST_F(Chains, AStepThatFailsOnOneRankIsMadeByNone) {
  const Trained alone = trained("mlp", 1);
  const std::map<std::string, std::string> failures = {
      {"label", "label"}, {"nan", "the loss"}, {"part", "take it from data.part(world)"}};
  for (const auto& [how, line] : failures) {
    const Trained shared = trained("mlp", 3, {"EBB_TEST_FAIL=" + how});
    EXPECT_EQ(shared.hash, alone.hash) << how;
    std::size_t told = 0;  // by each rank
    for (std::size_t at = 0; (at = shared.failed.find(line, at)) != std::string::npos; ++at) ++told;
    EXPECT_EQ(told, 3u) << shared.failed;
    EXPECT_EQ(shared.failed.find("AND THE WEIGHTS"), std::string::npos);
    if (how != "nan") {
      EXPECT_HAS(shared.failed, "rank 1 of 3 on ");
    }
  }
}

// Ranks as threads, with letters that are late and overtake each other.
TEST(ChainOfThreads, HasTheBitsOfOne) {
  for (const char* kind : {"mlp", "tied-lm"}) {
    std::string alone;
    {
      dist::World world;
      SharedTraining training(kind, world, 43);
      auto step = training.compiled();
      for (const Batch& b : training.own.epochs(1)) step(b);
      alone = training.hash();
    }
    for (const int ranks : {2, 5}) {
      FakeNetwork network(ranks, {.seed = 3, .delay_seconds = 1e-3});
      std::mutex lock;
      expect_none(in_worlds(network, ranks, [&](dist::World& world) {
        std::optional<SharedTraining> training;
        {
          const std::lock_guard one(lock);
          training.emplace(kind, world, 43);
        }
        auto step = training->compiled();
        for (const Batch& b : training->own.epochs(1)) step(b);
        EXPECT_EQ(training->hash(), alone) << kind << " on " << ranks;
        world.barrier();
      }));
    }
  }
}

}  // namespace
}  // namespace ebb::test
