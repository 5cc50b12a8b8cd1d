// Lists of different lengths: padding, masks, buckets, batches by tokens.
#include <algorithm>
#include <map>

#include "ebb/base/error.hpp"
#include "ebb/data/files/jsonl.hpp"
#include "tests/io/folder.hpp"

namespace ebb {
namespace {

using test::error_of;
using Ints = std::vector<std::int32_t>;

class ListsTest : public test::InFolder {
 protected:
  // Row i has i * 5 % 13 tokens, i * 100 and so on, and n is i.
  Dataset rows(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "{\"n\": " + std::to_string(i) + ", \"ids\": [";
      for (int k = 0; k < i * 5 % 13; ++k) text += (k ? "," : "") + std::to_string(i * 100 + k);
      text += "]}\n";
    }
    return data::jsonl(put("a.jsonl", text)).rows;
  }
};

void check_batch(const Batch& b, std::int32_t pad) {
  const std::int64_t length = b["ids"].dim(1);
  for (std::int64_t i = 0; i < b.rows(); ++i) {
    const std::int32_t row = b["n"].data<std::int32_t>()[static_cast<std::size_t>(i)];
    for (std::int64_t k = 0; k < length; ++k) {
      const auto at = static_cast<std::size_t>(i * length + k);
      const bool there = k < row * 5 % 13;
      EXPECT_EQ(b["ids"].data<std::int32_t>()[at], there ? row * 100 + k : pad);
      if (b.names().size() > 2) {
        EXPECT_EQ(b["mask"].data<bool>()[at], there);
      }
    }
    if (b.names().size() > 2) {
      EXPECT_EQ(b["lengths"].data<std::int32_t>()[static_cast<std::size_t>(i)], row * 5 % 13);
    }
  }
}

TEST_F(ListsTest, ArePaddedToTheLongestOfTheBatch) {
  const Dataset data = rows(50).batch(4);
  EXPECT_EQ(data.spec()["ids"], (Spec{{4, 12}, DType::i32})) << "the longest that may come";
  std::vector<std::int64_t> lengths;
  for (const Batch& b : data.epochs(1)) {
    check_batch(b, 0);
    lengths.push_back(b["ids"].dim(1));
  }
  EXPECT_EQ(lengths[0], 10) << "0, 5, 10, 2";
  EXPECT_EQ(lengths[1], 12) << "7, 12, 4, 9";
}

TEST_F(ListsTest, MasksAndLengthsStandBehindTheColumns) {
  const Dataset data =
      rows(50).pad("ids", {.value = -1, .mask = "mask", .lengths = "lengths"}).shuffle(1).batch(7);
  EXPECT_EQ(data.spec().names(), (Names{"n", "ids", "mask", "lengths"}));
  EXPECT_EQ(data.spec()["mask"], (Spec{{7, 12}, DType::boolean}));
  EXPECT_EQ(data.spec()["lengths"], (Spec{{7}, DType::i32}));
  for (const Batch& b : data.prefetch(2).epochs(2)) check_batch(b, -1);
}

TEST_F(ListsTest, BucketsAreTheOnlyLengths) {
  const Dataset data = rows(50).pad("ids", {.buckets = {3, 8, 20}}).batch(2);
  EXPECT_EQ(data.spec()["ids"].shape, (Shape{2, 20}));
  std::map<std::int64_t, int> seen;
  for (const Batch& b : data.epochs(1)) {
    check_batch(b, 0);
    ++seen[b["ids"].dim(1)];
  }
  for (const auto& [length, count] : seen) EXPECT_TRUE(length == 3 || length == 8 || length == 20);
  const Dataset cut = rows(50).pad("ids", {.buckets = {4}, .cut = true, .lengths = "l"}).batch(50);
  const Batch all = cut.all();
  EXPECT_EQ(all["ids"].shape(), (Shape{50, 4}));
  EXPECT_EQ(all["l"].data<std::int32_t>()[1], 4);
  EXPECT_EQ(all["ids"].data<std::int32_t>()[4 + 3], 103);
}

TEST_F(ListsTest, MistakesAreNamed) {
  const Dataset data = rows(50);
  EXPECT_HAS(error_of([&] { data.pad("n", {}); }), "column \"n\" is i32(50), rows of one length");
  EXPECT_HAS(error_of([&] { data.pad("ids", {.buckets = {4}}); }),
             "a list of 12, longer than the last bucket, 4");
  EXPECT_HAS(error_of([&] {
               data.pad("ids", {.buckets = {4, 4, 20}});
             }),
             "each above the one before");
  EXPECT_HAS(error_of([&] { data.pad("ids", {.value = 0.5}); }), "0.5");
  EXPECT_HAS(error_of([&] { data.pad("ids", {.mask = "n"}); }), "a column \"n\" already");
  EXPECT_HAS(error_of([&] { data.batch_tokens(0); }), "at least one");
  const Dataset plain = Dataset::of({{"y", Tensor::arange(3)}});
  EXPECT_HAS(error_of([&] { plain.batch_tokens(9); }), "no column holds lists");
}

// Every row once, no batch above the tokens, rows of one bucket together, as many batches as was said.
TEST_F(ListsTest, BatchesByTokens) {
  for (const bool shuffled : {false, true})
    for (const std::int64_t tokens : {1, 12, 40, 10'000})
      for (const bool buckets : {false, true}) {
        Dataset data = rows(200).batch_tokens(tokens);
        if (buckets)
          data = data.pad("ids", {.buckets = {3, 8, 12}, .mask = "mask", .lengths = "lengths"});
        if (shuffled) data = data.shuffle(4);
        Ints all;
        std::int64_t count = 0;
        for (const Batch& b : data.epochs(1)) {
          ++count;
          check_batch(b, 0);
          EXPECT_TRUE(b.rows() == 1 || b.rows() * b["ids"].dim(1) <= tokens);
          const Ints n = b["n"].to_vector<std::int32_t>();
          all.insert(all.end(), n.begin(), n.end());
        }
        EXPECT_EQ(count, data.batches());
        std::sort(all.begin(), all.end());
        ASSERT_EQ(all.size(), 200u);
        for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(all[i], static_cast<std::int32_t>(i));
      }
  const Dataset full =
      rows(200).pad("ids", {.buckets = {3, 8, 12}}).batch_tokens(24, {.drop_last = true});
  for (const Batch& b : full.epochs(1)) EXPECT_EQ(b.rows(), 24 / b["ids"].dim(1));
  EXPECT_EQ(full.spec()["ids"].shape, (Shape{2, 12}));
}

TEST_F(ListsTest, BatchesByTokensGoOnFromAPosition) {
  const Dataset data = rows(100).batch_tokens(30).shuffle(4).prefetch(1);
  std::vector<Ints> batches;
  std::vector<data::Position> at;
  auto walk = data.walk(3);
  do at.push_back(walk.position());
  while ([&] {
    const Batch* b = walk.next();
    if (b) batches.push_back(b->values()[0].to_vector<std::int32_t>());
    return b != nullptr;
  }());
  EXPECT_EQ(batches.size(), static_cast<std::size_t>(3 * data.batches()));
  for (std::size_t k = 0; k < batches.size(); k += 7) {
    auto rest = data.walk(3, data::Position::parse(to_string(at[k])));
    for (std::size_t i = k; i < batches.size(); ++i)
      ASSERT_EQ(rest.next()->values()[0].to_vector<std::int32_t>(), batches[i]) << k;
  }
  EXPECT_NE(error_of([&] { (void)rows(100).batch_tokens(31).shuffle(4).walk(3, at[5]); }),
            "no error");
}

TEST_F(ListsTest, RowsChosenLaterAreDealtAnew) {
  const Dataset data = rows(100).batch_tokens(30);
  EXPECT_GT(data.batches(), data.shard(0, 4).batches());
  std::int64_t seen = 0;
  for (const Batch& b : data.shard(0, 4).epochs(1)) seen += b.rows();
  EXPECT_EQ(seen, 25);
}

}  // namespace
}  // namespace ebb
