// Sampling: who may be drawn, how often, and what is refused.
#include "ebb/nn/sample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

std::map<std::int32_t, int> counts(const Tensor& logits, const nn::SampleOptions& options,
                                   int draws) {
  nn::Sampler sampler(options, logits.size());
  std::map<std::int32_t, int> out;
  for (int i = 0; i < draws; ++i) ++out[sampler(logits, static_cast<std::uint64_t>(i))];
  return out;
}

const Tensor& logits() {  // probabilities 0.5, 0.25, 0.125, 0.125 of ids 2, 0, 1, 3
  static const Tensor x =
      Tensor::of({std::log(0.25), std::log(0.125), std::log(0.5), std::log(0.125)});
  return x;
}

TEST(Sample, DrawsAsOftenAsTheLogitsSay) {
  const auto all = counts(logits(), {.seed = 3}, 40000);
  const double expected[] = {0.25, 0.125, 0.5, 0.125};
  for (std::int32_t id = 0; id < 4; ++id)
    EXPECT_NEAR(all.at(id) / 40000.0, expected[id], 0.01) << id;
  // Half the temperature squares the weights: 16, 4, 64, 4 of 88.
  const auto cold = counts(logits(), {.temperature = 0.5, .seed = 3}, 40000);
  EXPECT_NEAR(cold.at(2) / 40000.0, 64.0 / 88, 0.01);
  EXPECT_NEAR(cold.at(1) / 40000.0, 4.0 / 88, 0.01);
}

TEST(Sample, TopKKeepsTheLikeliestAndOfEqualsTheFirst) {
  const auto three = counts(logits(), {.top_k = 3}, 2000);
  EXPECT_EQ(three.size(), 3u);
  EXPECT_EQ(three.count(3), 0u);
  EXPECT_EQ(counts(logits(), {.top_k = 1}, 100).at(2), 100);
  EXPECT_EQ(counts(logits(), {.top_k = 99}, 2000).size(), 4u);
}

TEST(Sample, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(counts(logits(), {.top_p = 0.49}, 100).size(), 1u);
  EXPECT_EQ(counts(logits(), {.top_p = 0.7}, 2000).size(), 2u);
  EXPECT_EQ(counts(logits(), {.top_p = 0.8}, 2000).size(), 3u);
  EXPECT_EQ(counts(logits(), {.top_p = 0.8}, 2000).count(3), 0u);
  EXPECT_EQ(counts(logits(), {.top_p = 1e-9}, 100).size(), 1u);
  // Of what top_k leaves: 0.5 and 0.25 are 2/3 and 1/3.
  EXPECT_EQ(counts(logits(), {.top_k = 2, .top_p = 0.66}, 100).size(), 1u);
  EXPECT_EQ(counts(logits(), {.top_k = 2, .top_p = 0.67}, 2000).size(), 2u);
}

TEST(Sample, ALargeVocabularyIsPickedFromAsASmallOne) {
  std::vector<float> flat(5000, 0.0f);  // as good as equal: top_p has to go far
  flat[4999] = 1.0f;
  const Tensor x = Tensor::from(flat, {1, 5000});
  nn::Sampler sampler({.top_p = 0.5}, 5000);
  std::int32_t highest = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const std::int32_t id = sampler(x, i);
    if (id != 4999) highest = std::max(highest, id);
  }
  EXPECT_LT(highest, 2500);
  EXPECT_GT(highest, 2400);
}

TEST(Sample, GreedyTakesTheFirstOfTheLargest) {
  const Tensor x = Tensor::of({1, 3, 3, 2});
  nn::Sampler sampler({.temperature = 0}, 4);
  EXPECT_EQ(sampler(x, 0), 1);
  nn::Sampler cold({.temperature = 1e-300}, 4);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(cold(x, i) == 1 || cold(x, i) == 2);
}

TEST(Sample, WhatIsImpossibleIsNeverDrawn) {
  const float none = -std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::of({none, 0.0f, none, 0.0f, none});
  for (const double top_p : {1.0, 0.999999}) {
    const auto all = counts(x, {.top_p = top_p}, 500);
    EXPECT_EQ(all.size(), 2u);
    EXPECT_EQ(all.count(4), 0u);
  }
}

TEST(Sample, Mistakes) {
  const auto error = [](const nn::SampleOptions& o) {
    return error_of([&] { nn::Sampler(o, 4); });
  };
  EXPECT_NE(error({.temperature = -1}).find("temperature is -1"), std::string::npos);
  EXPECT_NE(error({.temperature = std::nan("")}).find("temperature"), std::string::npos);
  EXPECT_NE(error({.top_k = -2}).find("top_k is -2"), std::string::npos);
  EXPECT_NE(error({.top_p = 0}).find("top_p is 0"), std::string::npos);
  EXPECT_NE(error({.top_p = 1.5}).find("top_p is 1.5"), std::string::npos);
  nn::Sampler sampler({}, 4);
  EXPECT_NE(error_of([&] {
              sampler(Tensor::of({1, 2}), 0);
            }).find("expected 4"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              sampler(Tensor::of({1.0f, std::nanf(""), 0.0f, 0.0f}), 0);
            }).find("token 1 is not a number"),
            std::string::npos);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_NE(error_of([&] {
              sampler(Tensor::of({1.0f, 2.0f, inf, 0.0f}), 0);
            }).find("that of token 2"),
            std::string::npos);
}

}  // namespace
}  // namespace ebb
