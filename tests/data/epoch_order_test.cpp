// Orders that are computed, not kept: each row once, drawn evenly; and going on far inside a large set.
#include "ebb/data/epoch_order.hpp"

#include <chrono>
#include <cmath>
#include <cstring>

#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/data/files/jsonl.hpp"
#include "ebb/io/array/npy_header.hpp"
#include "tests/io/folder.hpp"

namespace ebb {
namespace {

using data::EpochOrder;
using data::Permutation;

TEST(Permutation, HasEachNumberOnce) {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 10, 97, 1000, 4096, 100'003, 1 << 20}) {
    const Permutation p(count, {7, 3});
    std::vector<bool> seen(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_LT(p[i], count);
      ASSERT_FALSE(seen[p[i]]) << count << " at " << i;
      seen[p[i]] = true;
    }
  }
}

// What is drawn today is drawn in every later version: positions are kept in files.
TEST(Permutation, IsForGood) {
  const Permutation small(12, {7, 0}), large(std::int64_t{1} << 32, {7, 5});
  std::vector<std::uint32_t> all;
  for (int i = 0; i < 12; ++i) all.push_back(small[i]);
  EXPECT_EQ(all, (std::vector<std::uint32_t>{6, 2, 10, 11, 3, 0, 4, 8, 1, 7, 9, 5}));
  EXPECT_EQ(large[0], 3725147975u);
  EXPECT_EQ(large[4294967295], 3322377710u);
}

// Over many keys every number comes to every place as often, and neighbours do not stay together.
TEST(Permutation, IsDrawnEvenly) {
  constexpr int kCount = 50, kKeys = 20'000;
  std::vector<int> places(kCount * kCount);
  int neighbours = 0;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const Permutation p(kCount, {key % 200, key / 200});
    for (int i = 0; i < kCount; ++i) ++places[static_cast<std::size_t>(i * kCount) + p[i]];
    for (int i = 0; i + 1 < kCount; ++i)
      neighbours += std::abs(static_cast<int>(p[i + 1]) - static_cast<int>(p[i])) == 1;
  }
  const double expected = double{kKeys} / kCount;
  for (const int count : places) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
  const double pairs = 2.0 * (kCount - 1) / kCount * kKeys;  // (count - 1) of 2 / count each
  EXPECT_NEAR(neighbours, pairs, 8 * std::sqrt(pairs));
}

class LargeTest : public test::InFolder {
 protected:
  // Rows of 4 bytes, nothing but zeros where none is put: a file without blocks.
  Dataset rows(std::int64_t count, std::initializer_list<std::int32_t> put_at) {
    const std::string front = npy_preamble({{count}, DType::i32});
    File file = File::create(path("a.npy"));
    file.write(front);
    for (const std::int32_t row : put_at)
      file.write_at(front.size() + static_cast<std::uint64_t>(row) * 4,
                    std::as_bytes(std::span(&row, 1)));
    std::filesystem::resize_file(path("a.npy"),
                                 front.size() + static_cast<std::uint64_t>(count) * 4);
    return Dataset::of({{"y", data::npy_rows(path("a.npy"))}});
  }
};

// Going on at row 100,000,000, in order and shuffled: a batch is read where it lies, and next to nothing held.
TEST_F(LargeTest, GoesOnAtRow100000000AtOnce) {
  constexpr std::int64_t kRows = 100'001'000, kBatch = 100;
  const Permutation order(kRows, {9, 2});
  const Dataset in_order = rows(kRows, {100'000'000, 100'000'099});
  const Dataset shuffled = in_order.shuffle(9).batch(kBatch);
  const data::Position at{.epoch = 2, .batch = 100'000'000 / kBatch};
  const auto live = ledger::total().live;
  ledger::reset_peak();
  const std::uint64_t before = file_faults::count(file_faults::Call::read);
  const auto start = std::chrono::steady_clock::now();
  auto walk = in_order.batch(kBatch).walk(3, at);
  const Tensor first = (*walk.next())["y"];
  EXPECT_EQ(first.data<std::int32_t>()[0], 100'000'000);
  EXPECT_EQ(first.data<std::int32_t>()[99], 100'000'099);
  EXPECT_EQ(file_faults::count(file_faults::Call::read) - before, 1u);
  auto drawn = shuffled.walk(3, at);
  EXPECT_EQ(drawn.next()->rows(), kBatch);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_LE(ledger::total().peak - live, 1u << 20);
  EXPECT_LE(shuffled.walking_bytes(), 1u << 20);

  const auto there = static_cast<std::int32_t>(order[100'000'017]);
  rows(kRows, {there});  // the file anew, with one row that the batch should find at its place
  const Dataset again =
      Dataset::of({{"y", data::npy_rows(path("a.npy"))}}).shuffle(9).batch(kBatch);
  auto found = again.walk(3, at);
  EXPECT_EQ((*found.next())["y"].data<std::int32_t>()[17], there);
}

TEST_F(LargeTest, PositionsGoOnWithoutAList) {
  const Dataset data = rows(EpochOrder::kListed + 1, {}).shuffle(3).batch(7);
  EXPECT_LT(data.walking_bytes(), 1u << 20);
  EXPECT_GT(data.rows(0, EpochOrder::kListed).walking_bytes(), 4u << 20) << "those have one";
  auto walk = data.walk(2, {.epoch = 1, .batch = 1000});
  for (int i = 0; i < 3; ++i) (void)walk.next();
  EXPECT_EQ(walk.position().batch, 1003);
  EXPECT_EQ(data.walk(2, data::Position::parse(to_string(walk.position()))).position(),
            walk.position());
}

// Rows that were lines once are found like that, too: as many reads far inside as at the start.
TEST_F(LargeTest, LinesAreFoundWithoutPassingOthers) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "{\"y\": " + std::to_string(i) + "}\n";
  const std::string file = put("a.jsonl", text);
  const data::JsonlOptions options{.store = {false, path("cache")}};
  (void)data::jsonl(file, options);
  const auto reads = [&](std::int64_t batch) {
    const std::uint64_t before = file_faults::count(file_faults::Call::read);
    auto walk = data::jsonl(file, options).rows.batch(10).walk(1, {.batch = batch});
    EXPECT_EQ((*walk.next())["y"].data<std::int32_t>()[0], batch * 10);
    return file_faults::count(file_faults::Call::read) - before;
  };
  EXPECT_EQ(reads(0), reads(4999));
  EXPECT_LE(reads(4999), 4u);
}

}  // namespace
}  // namespace ebb
