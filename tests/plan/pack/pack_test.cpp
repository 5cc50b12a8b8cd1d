#include "ebb/plan/pack/pack.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

namespace ebb::plan {
namespace {

using Blocks = std::vector<Block>;
using Random = std::mt19937_64;

std::uint64_t below(Random& random, std::uint64_t n) { return random() % n; }
std::uint64_t size_in(Random& random, double low,
                      double high) {  // 2^low … 2^high, evenly in the log
  return static_cast<std::uint64_t>(
      std::exp2(low + (high - low) * static_cast<double>(below(random, 1 << 20)) / (1 << 20)));
}

// No two blocks that are alive together share a byte; all are aligned and inside. By a sweep
// through time, with the live blocks in the order of their offsets.
std::string fault(const Blocks& blocks, const Packing& packing, std::uint64_t alignment) {
  if (packing.offsets.size() != blocks.size()) return "number of offsets";
  struct Event {
    std::int64_t step;
    bool start;
    std::size_t block;
    auto operator<=>(const Event&) const = default;
  };
  std::vector<Event> events;
  std::uint64_t top = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (packing.offsets[i] % std::max(alignment, blocks[i].alignment))
      return "alignment of block " + std::to_string(i);
    if (blocks[i].bytes == 0 || blocks[i].first >= blocks[i].last) continue;
    top = std::max(top,
                   packing.offsets[i] + (blocks[i].bytes + alignment - 1) / alignment * alignment);
    events.push_back({blocks[i].first, true, i});
    events.push_back({blocks[i].last, false, i});
  }
  if (top != packing.bytes) return "bytes is not the top of the highest block";
  std::sort(events.begin(), events.end());
  std::map<std::uint64_t, std::uint64_t> live;  // begin → end
  for (const Event& e : events) {
    const std::uint64_t begin = packing.offsets[e.block], end = begin + blocks[e.block].bytes;
    if (!e.start) {
      live.erase(begin);
      continue;
    }
    const auto next = live.lower_bound(begin);
    if (next != live.end() && next->first < end)
      return "overlap of block " + std::to_string(e.block);
    if (next != live.begin() && std::prev(next)->second > begin)
      return "overlap of block " + std::to_string(e.block);
    live.emplace(begin, end);
  }
  return {};
}

struct Timed {
  Packing packing;
  double seconds;
};
Timed timed(const Blocks& blocks, const PackOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Timed result{pack(blocks, options), 0};
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

TEST(Pack, Nothing) {
  EXPECT_EQ(pack({}), Packing{});
  EXPECT_EQ(load({}), 0u);
  const Blocks blocks{{0, 5, 0}, {3, 3, 100}, {4, 2, 100}, {0, 9, 0}};
  EXPECT_EQ(pack(blocks).bytes, 0u);
  EXPECT_EQ(load(blocks), 0u);
}

TEST(Pack, EndsAreNotIncluded) {
  const Blocks one_after_the_other{{0, 2, 100}, {2, 4, 100}, {-5, 0, 100}};
  EXPECT_EQ(load(one_after_the_other), 100u);
  EXPECT_EQ(load(one_after_the_other, 64), 128u);
  EXPECT_EQ(pack(one_after_the_other), (Packing{{0, 0, 0}, 128}));
  const Blocks together{{0, 3, 100}, {2, 4, 1}};
  EXPECT_EQ(load(together), 101u);
  EXPECT_EQ(pack(together).bytes, 192u);
  EXPECT_EQ(pack(together, {.alignment = 1}).bytes, 101u);
}

// Between blocks that lie at pages, those that need not are not rounded up to pages.
TEST(Pack, EachBlockHasItsOwnAlignment) {
  Blocks blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back({0, 2, 3 * 4096 + 1024, 4096});
    blocks.push_back({0, 2, 3 * 1024});
  }
  const Packing packing = pack(blocks);
  EXPECT_EQ(fault(blocks, packing, 64), "");
  EXPECT_EQ(packing.bytes, load(blocks, 64));
  EXPECT_EQ(packing.bytes, 8u * 4 * 4096);
}

TEST(Pack, TheCheckFindsFaults) {
  const Blocks blocks{{0, 3, 100}, {2, 4, 64}};
  EXPECT_EQ(fault(blocks, {{0, 128}, 192}, 64), "");
  EXPECT_NE(fault(blocks, {{0, 64}, 128}, 64), "");
  EXPECT_NE(fault(blocks, {{32, 0}, 160}, 32), "");
  EXPECT_NE(fault(blocks, {{0, 130}, 194}, 64), "");
  EXPECT_NE(fault(blocks, {{0, 128}, 191}, 64), "");
  EXPECT_NE(fault({{0, 3, 100}, {2, 4, 64, 256}}, {{0, 128}, 192}, 64), "");
}

TEST(Pack, RandomBlocksNeverOverlap) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Blocks blocks(below(random, 120));
    const std::uint64_t steps = 1 + below(random, 60), longest = 1 + below(random, 30);
    for (Block& b : blocks) {
      b.first = static_cast<std::int64_t>(below(random, steps)) - 20;
      b.last = b.first + static_cast<std::int64_t>(below(random, longest + 1));
      b.bytes = below(random, 10) ? size_in(random, 0, 14) : 0;
    }
    const std::uint64_t alignment = std::uint64_t{1} << below(random, 9);
    if (seed % 2)
      for (Block& b : blocks) b.alignment = below(random, 3) ? 1 : 8 * alignment;
    const Packing packing = pack(blocks, {.alignment = alignment, .effort = 300'000});
    ASSERT_EQ(fault(blocks, packing, alignment), "");
    ASSERT_GE(packing.bytes, load(blocks, alignment));
    ASSERT_EQ(packing, pack(blocks, {.alignment = alignment, .effort = 300'000}));
    const PackOptions no_effort{.alignment = alignment, .effort = 0};
    ASSERT_EQ(fault(blocks, pack(blocks, no_effort), alignment), "");
  }
}

// A training step: of each op's outputs some live until the way back, the others for a few steps;
// scratch lives for one. On the way back there are gradients, some of which live to the end, and
// where `recompute`, values made again shortly before they are needed.
Blocks training_step(int ops, std::uint64_t seed, bool gradients_stay, bool recompute) {
  Random random(seed);
  Blocks blocks;
  const std::int64_t end = 2 * ops + 4;
  for (std::int64_t i = 0; i < ops; ++i) {
    const std::int64_t back = 2 * ops - i;
    const std::uint64_t bytes = size_in(random, 8, 20);
    const bool kept = below(random, 3) == 0;
    const auto short_life = static_cast<std::int64_t>(2 + below(random, 3));
    blocks.push_back({i, kept ? back + 1 : i + short_life, bytes});
    blocks.push_back({back, back + static_cast<std::int64_t>(2 + below(random, 2)), bytes});
    if (below(random, 4) == 0) blocks.push_back({i, i + 1, size_in(random, 8, 20)});
    if (below(random, 4) == 0) blocks.push_back({back, back + 1, size_in(random, 8, 20)});
    if (gradients_stay && below(random, 3) == 0)
      blocks.push_back({back, end, size_in(random, 8, 20)});
    if (recompute && !kept)
      blocks.push_back({back - 1 - static_cast<std::int64_t>(below(random, 6)), back + 1, bytes});
  }
  return blocks;
}

// A forward pass that keeps one value a segment, and segments made again one by one on the way
// back: memory is about as full many times.
Blocks segments(int count, int ops, std::uint64_t seed) {
  Random random(seed);
  Blocks blocks;
  for (int g = 0; g < count; ++g) {
    const std::int64_t forward = std::int64_t{g} * ops;
    const std::int64_t again = std::int64_t{count} * ops + 2ll * (count - 1 - g) * ops;
    for (int i = 0; i < ops; ++i) {
      const std::uint64_t bytes = size_in(random, 10, 18);
      const std::int64_t back = again + 2 * ops - 1 - i;
      blocks.push_back({forward + i, i == ops - 1 ? again + 2 : forward + i + 2, bytes});
      blocks.push_back({again + i, back + 1, bytes});
      blocks.push_back({back, back + 2, bytes});
      if (below(random, 3) == 0) blocks.push_back({back, back + 1, size_in(random, 10, 18)});
    }
  }
  return blocks;
}

void expect_within_a_hundredth(const std::string& what, const Blocks& blocks) {
  const std::uint64_t least = load(blocks, 64);
  const Timed result = timed(blocks, {.enough = least + least / 100});
  ASSERT_EQ(fault(blocks, result.packing, 64), "") << what;
  std::printf(
      "%s, %zu blocks: %.2f%% above the load, %.1f ms\n", what.c_str(), blocks.size(),
      100.0 * static_cast<double>(result.packing.bytes - least) / static_cast<double>(least),
      result.seconds * 1e3);
  EXPECT_LE(result.packing.bytes, least + least / 100) << what;
}

TEST(Pack, TrainingStepsComeWithinOnePercentOfTheLoad) {
  for (const int ops : {20, 100, 300, 1000, 4000, 7000})
    for (const int kind : {0, 1, 3})
      for (const std::uint64_t seed : {1, 2, 3})
        expect_within_a_hundredth(
            "training step, kind " + std::to_string(kind) + ", seed " + std::to_string(seed),
            training_step(ops, seed, kind & 1, kind & 2));
}

TEST(Pack, SegmentsComeWithinOnePercentOfTheLoad) {
  for (const int side : {5, 10, 20, 60, 80})
    for (const std::uint64_t seed : {1, 2, 3})
      expect_within_a_hundredth("segments, seed " + std::to_string(seed),
                                segments(side, side, seed));
}

TEST(Pack, NestedLifetimesAreExact) {
  Blocks blocks;
  Random random(7);
  for (std::int64_t i = 0; i < 10'000; ++i)
    blocks.push_back({i, 20'000 - i, size_in(random, 6, 20)});
  EXPECT_EQ(pack(blocks).bytes, load(blocks, 64));
}

// A square cut into rectangles again and again: a packing without a byte to spare exists.
Blocks cut_square(int pieces, std::uint64_t seed) {
  struct Piece {
    std::int64_t first, last;
    std::uint64_t low, high;
  };
  Random random(seed);
  std::vector<Piece> all{{0, 1000, 0, 1 << 20}};
  while (static_cast<int>(all.size()) < pieces) {
    Piece& piece = all[below(random, all.size())];
    Piece rest = piece;
    if (below(random, 2)) {
      if (piece.last - piece.first < 20) continue;
      const auto width = static_cast<std::uint64_t>(piece.last - piece.first);
      piece.last = rest.first =
          piece.first + static_cast<std::int64_t>(width / 4 + below(random, width / 2));
    } else {
      if (piece.high - piece.low < 4096) continue;
      const std::uint64_t height = (piece.high - piece.low) / 1024;
      piece.high = rest.low = piece.low + 1024 * (height / 4 + below(random, height / 2));
    }
    all.push_back(rest);
  }
  std::shuffle(all.begin(), all.end(), random);
  Blocks blocks;
  for (const Piece& piece : all)
    blocks.push_back({piece.first, piece.last, piece.high - piece.low});
  return blocks;
}

TEST(Pack, FindsPackingsWithoutAByteToSpare) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Blocks blocks = cut_square(40, seed);
    ASSERT_EQ(load(blocks), 1u << 20);
    const Timed result = timed(blocks, {.alignment = 1});
    std::printf("cut square, seed %d: %llu of %u bytes, %.1f ms\n", static_cast<int>(seed),
                static_cast<unsigned long long>(result.packing.bytes), 1u << 20,
                result.seconds * 1e3);
    ASSERT_EQ(fault(blocks, result.packing, 1), "") << "seed " << seed;
    EXPECT_EQ(result.packing.bytes, 1u << 20) << "seed " << seed;
  }
}

// Instances from the MiniMalloc project: hard ones, of a capacity their name gives.
TEST(Pack, MiniMalloc) {
  const std::filesystem::path folder =
      std::filesystem::path(EBB_SOURCE_DIR) / "../shared/data/minimalloc";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no instances in " << folder;
  constexpr std::uint64_t kCapacity = 1 << 20;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    std::ifstream file(entry.path());
    std::string line;
    std::getline(file, line);
    ASSERT_EQ(line, "id,lower,upper,size");
    Blocks blocks;
    while (std::getline(file, line)) {
      long long id, lower, upper, size;
      ASSERT_EQ(std::sscanf(line.c_str(), "%lld,%lld,%lld,%lld", &id, &lower, &upper, &size), 4);
      blocks.push_back({lower, upper, static_cast<std::uint64_t>(size)});
    }
    const Timed result =
        timed(blocks, {.alignment = 1, .enough = kCapacity, .effort = 400'000'000});
    std::printf("%s: %llu bytes, %.0f ms\n", entry.path().filename().c_str(),
                static_cast<unsigned long long>(result.packing.bytes), result.seconds * 1e3);
    EXPECT_EQ(fault(blocks, result.packing, 1), "") << entry.path();
    EXPECT_LE(result.packing.bytes, kCapacity) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace ebb::plan
