// Attention where numbers are large, infinite or not there: what the op table's ranges leave out.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "ebb/ops/attention.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Result {
  Tensor out;
  std::array<Tensor, 3> d;  // of q, k and v, for an output's gradient of ones
};

Result run(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {},
           const Tensor& mask = {}) {
  Result r;
  const Tensor in[] = {q, k, v};
  Tape tape;
  for (const Tensor& x : in) tape.watch(x);
  const Tensor ys[] = {attention(q, k, v, options, mask)};
  const Tensor ds[] = {Tensor::ones(q.shape(), q.dtype())};
  tape.gradient_into(ys, ds, in, r.d);
  r.out = ys[0];
  return r;
}

// (1, positions, 1, size) of small numbers that are all different.
std::vector<float> numbers(std::int64_t positions, std::int64_t size, int seed) {
  std::vector<float> x(static_cast<std::size_t>(positions * size));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<float>(i) * 1.7f + static_cast<float>(seed));
  return x;
}
Tensor heads(const std::vector<float>& x, std::int64_t size) {
  return Tensor::from(x, {1, static_cast<std::int64_t>(x.size()) / size, 1, size});
}
std::vector<float> row_of(const Tensor& x, std::int64_t row) {
  return x.viewed({x.dim(1), x.dim(3)}).rows(row, row + 1).to_vector<float>();
}

// The only key has all the weight, however large its score.
TEST(AttentionExtremes, OneKeyHasAllTheWeight) {
  for (const float scale : {1.0f, 1e2f, 1e3f, 1e4f, 1e6f, 1e10f, 1e15f}) {
    std::vector<float> q = numbers(3, 8, 1), k = numbers(1, 8, 2);
    for (float& x : q) x *= scale;
    for (float& x : k) x *= scale;
    const Result r = run(heads(q, 8), heads(k, 8), heads(numbers(1, 8, 3), 8));
    for (const float g : r.d[2].to_vector<float>()) EXPECT_EQ(g, 3) << scale;
    for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(row_of(r.out, i), numbers(1, 8, 3)) << scale;
  }
}

// Weights depend on how far scores lie apart, not on how large they are.
TEST(AttentionExtremes, WeightsOfLargeScoresAddUpToOne) {
  for (const float level : {0.0f, 1e3f, 1e5f, 1e7f}) {
    // One column makes the level, one the differences; both are exact.
    std::vector<float> q, k;
    for (int i = 0; i < 5; ++i) q.insert(q.end(), {1, 0.5f * static_cast<float>(i)});
    for (int j = 0; j < 200; ++j) k.insert(k.end(), {level, static_cast<float>(j % 7)});
    const std::vector<float> v = numbers(200, 2, 4);
    const Result r = run(heads(q, 2), heads(k, 2), heads(v, 2), {.scale = 1});
    std::vector<double> expected(200, 0);
    for (int i = 0; i < 5; ++i) {
      double sum = 0;
      for (int j = 0; j < 200; ++j) sum += std::exp(0.5 * i * (j % 7));
      for (int j = 0; j < 200; ++j)
        expected[static_cast<std::size_t>(j)] += std::exp(0.5 * i * (j % 7)) / sum;
    }
    const std::vector<float> dv = r.d[2].to_vector<float>();
    // A score is rounded like any float: at 1e7 by half of 1.
    const double tolerance = level < 1e7f ? 1e-2 * level / 1e5 + 2e-6 : 1;
    for (std::size_t j = 0; j < 200; ++j)
      EXPECT_NEAR(dv[2 * j], expected[j], tolerance * expected[j]) << level << " key " << j;
    double total = 0;
    for (std::size_t j = 0; j < 200; ++j) total += dv[2 * j];
    EXPECT_NEAR(total, 5, 2e-5) << level;
  }
}

// What a query does not see is as good as not there, whatever stands in it.
void expect_hidden(const AttentionOptions& options, const Tensor& mask, std::int64_t positions,
                   std::int64_t hidden, std::int64_t queries_that_see) {
  constexpr std::int64_t size = 8;
  const auto q = numbers(positions, size, 1), k = numbers(positions, size, 2),
             v = numbers(positions, size, 3);
  const Result plain = run(heads(q, size), heads(k, size), heads(v, size), options, mask);
  for (const float bad : {kNan, kInf, -kInf})
    for (const bool in_keys : {true, false}) {
      auto k2 = k, v2 = v;
      (in_keys ? k2 : v2)[static_cast<std::size_t>(hidden * size + 3)] = bad;
      const Result r = run(heads(q, size), heads(k2, size), heads(v2, size), options, mask);
      for (std::int64_t i = 0; i < positions - queries_that_see; ++i) {
        EXPECT_EQ(row_of(r.out, i), row_of(plain.out, i)) << bad << in_keys << " query " << i;
        EXPECT_EQ(row_of(r.d[0], i), row_of(plain.d[0], i)) << bad << in_keys << " dq " << i;
      }
      if (queries_that_see > 0) continue;
      for (const std::size_t g : {1, 2})
        EXPECT_EQ(r.d[g].to_vector<float>(), plain.d[g].to_vector<float>()) << bad << in_keys;
    }
}

TEST(AttentionExtremes, MaskedKeysContributeNothing) {
  for (const std::int64_t positions : {5, 70, 300}) {
    std::vector<bool> mask(static_cast<std::size_t>(positions), true);
    const std::int64_t hidden = positions / 2;
    mask[static_cast<std::size_t>(hidden)] = false;
    expect_hidden({}, Tensor::from(mask, {1, positions}), positions, hidden, 0);
    expect_hidden({.causal = true}, Tensor::from(mask, {1, positions}), positions, hidden, 0);
  }
}

TEST(AttentionExtremes, KeysToComeContributeNothing) {
  for (const std::int64_t positions : {5, 70, 300})
    for (const std::int64_t seen_by : {1, 4})
      expect_hidden({.causal = true}, {}, positions, positions - seen_by, seen_by);
}

TEST(AttentionExtremes, KeysMaskedForSomeQueriesContributeNothingToThose) {
  for (const std::int64_t positions : {5, 70, 300}) {
    std::vector<bool> mask(static_cast<std::size_t>(positions * positions), true);
    for (std::int64_t i = 0; i < positions - 2; ++i)
      mask[static_cast<std::size_t>(i * positions + 1)] = false;
    expect_hidden({}, Tensor::from(mask, {1, positions, positions}), positions, 1, 2);
  }
}

// A query that sees no key gives zeros and takes none, though it be no number itself.
TEST(AttentionExtremes, QueriesThatSeeNothingContributeNothing) {
  constexpr std::int64_t size = 8, positions = 70;
  std::vector<bool> mask(positions * positions, true);
  for (std::size_t j = 0; j < positions; ++j) mask[3 * positions + j] = false;
  const Tensor seen = Tensor::from(mask, {1, positions, positions});
  auto q = numbers(positions, size, 1);
  const Tensor k = heads(numbers(positions, size, 2), size);
  const Tensor v = heads(numbers(positions, size, 3), size);
  const Result plain = run(heads(q, size), k, v, {}, seen);
  q[3 * size + 1] = kNan;
  const Result r = run(heads(q, size), k, v, {}, seen);
  EXPECT_EQ(r.out.to_vector<float>(), plain.out.to_vector<float>());
  for (const std::size_t g : {0, 1, 2})
    EXPECT_EQ(r.d[g].to_vector<float>(), plain.d[g].to_vector<float>()) << g;
}

}  // namespace
}  // namespace ebb
