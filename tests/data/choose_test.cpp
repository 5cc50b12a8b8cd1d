// Which rows a data set has, and what its batches become.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/ops/binary.hpp"
#include "tests/data/walk_peak.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using data::Bitmap;
using data::RowSet;
using test::error_of;
using Rows = std::vector<std::int32_t>;

Dataset counting(std::int64_t rows) {
  return Dataset::of({{"y", Tensor::arange(rows, DType::i32)},
                      {"x", Tensor::arange(2 * rows, DType::f32).viewed({rows, 2})}});
}
Rows rows_of(const BatchRange& range) {
  Rows out;
  for (const Batch& b : range)
    for (std::size_t i = 0; i < static_cast<std::size_t>(b.rows()); ++i) {
      out.push_back(b["y"].data<std::int32_t>()[i]);
      EXPECT_EQ(b["x"].data<float>()[2 * i], static_cast<float>(2 * out.back())) << "columns apart";
    }
  return out;
}
Rows in_order(const Dataset& d) { return d.size() ? rows_of(d.batch(7).epoch(0)) : Rows{}; }

TEST(Bitmap, FindsTheNthOfAny) {
  for (const std::int64_t bits : {0, 1, 63, 64, 65, 511, 512, 513, 5000}) {
    Bitmap map(bits);
    std::vector<std::int64_t> set;
    for (std::int64_t i = 0; i < bits; ++i)
      if (i * i % 7 < 3 || (i > 1000 && i < 3000)) {
        map.set(i);
        set.push_back(i);
      }
    map.seal();
    ASSERT_EQ(map.count(), static_cast<std::int64_t>(set.size()));
    for (std::size_t n = 0; n < set.size(); ++n)
      ASSERT_EQ(map.nth(static_cast<std::int64_t>(n)), set[n]) << bits;
    EXPECT_EQ(map.inverse()->count(), bits - map.count());
    for (std::int64_t i = 0; i < bits; ++i) ASSERT_NE(map.test(i), map.inverse()->test(i));
  }
}

// A hundred million rows in less than 16 MB.
TEST(Bitmap, IsSmall) {
  const auto live = ledger::total().live;
  Bitmap map(100'000'000);
  for (std::int64_t i = 0; i < 100'000'000; i += 3) map.set(i);
  map.seal();
  EXPECT_LT(ledger::total().live - live, 16'000'000u);
  EXPECT_EQ(map.nth(20'000'000), 60'000'000);
}

TEST(RowSet, SetsOfSets) {
  const RowSet all(20);
  const auto list = [](const RowSet& set) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < set.size(); ++i) out.push_back(set.at(i));
    return out;
  };
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(list(all.rows(5, 9).every(1, 2)), (List{6, 8}));
  EXPECT_EQ(list(all.every(1, 6).rows(1, 3).repeated(2)), (List{7, 13, 7, 13}));
  EXPECT_EQ(list(all.rows(3, 5).repeated(3).every(0, 2)), (List{3, 3, 3}));
  EXPECT_EQ(list(all.rows(3, 5).repeated(2).rows(1, 4)), (List{4, 3, 4}));
  EXPECT_TRUE(all.rows(3, 9).rows(1, 2).contiguous());
  EXPECT_EQ(all.rows(3, 9).rows(1, 2).first(), 4);
  EXPECT_FALSE(all.every(0, 2).contiguous());
  EXPECT_EQ(all.every(5, 100).size(), 1);
  EXPECT_EQ(all.rows(0, 3).every(7, 9).size(), 0);
  std::set<std::uint64_t> prints{all.fingerprint(), all.rows(1, 3).fingerprint(),
                                 all.every(0, 2).fingerprint(), all.every(1, 2).fingerprint(),
                                 all.repeated(2).fingerprint()};
  EXPECT_EQ(prints.size(), 5u);
}

TEST(Choose, ShardsCoverAllRowsOnce) {
  for (const std::int64_t count : {1, 2, 3, 7, 50}) {
    Rows all;
    for (std::int64_t i = 0; i < count; ++i) {
      const Rows part = in_order(counting(23).shard(i, count));
      EXPECT_LE(part.size(), static_cast<std::size_t>(23 / count + 1));
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, in_order(counting(23)));
  }
  EXPECT_HAS(error_of([] { counting(3).shard(2, 2); }), "shard: 2 of 2");
}

TEST(Choose, FiltersKeepWhatTheySay) {
  const auto odd = [](const Batch& row) { return row["y"].item<std::int32_t>() % 2 == 1; };
  const Dataset data = counting(1000).filter(odd);
  EXPECT_EQ(data.size(), 500);
  const Rows rows = in_order(data);
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(rows[i], static_cast<std::int32_t>(2 * i + 1));
  EXPECT_EQ(in_order(counting(10).rows(2, 9).filter(odd).repeat(2)), (Rows{3, 5, 7, 3, 5, 7}));
  EXPECT_EQ(in_order(counting(10).repeat(2).filter(odd).shard(1, 2)), (Rows{3, 7, 1, 5, 9}));
  EXPECT_EQ(counting(10).filter([](const Batch&) { return false; }).size(), 0);
}

TEST(Choose, SplitsAreExactAndDrawnBySeed) {
  const auto [train, held] = counting(1000).split(0.1, 7);
  EXPECT_EQ(held.size(), 100);
  EXPECT_EQ(train.size(), 900);
  Rows all = in_order(train), some = in_order(held);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_NE(some, in_order(counting(1000).split(0.1, 8).held_out));
  EXPECT_EQ(some, in_order(counting(1000).split(0.1, 7).held_out));
  all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, in_order(counting(1000)));
  EXPECT_EQ(counting(3).split(0, 1).held_out.size(), 0);
  EXPECT_EQ(counting(3).split(1, 1).train.size(), 0);
  EXPECT_THROW(counting(3).split(1.5, 1), Error);
  // The same for good, as positions in files are.
  EXPECT_EQ(in_order(counting(12).split(0.25, 1).held_out),
            in_order(counting(12).split(0.25, 1).held_out));
}

Batch doubled(const Batch& b) { return {{"z", b["x"] * 2.0}, {"y", b["y"]}}; }

TEST(Choose, MapsAreSeenInSpecsAndBatches) {
  const Dataset data = counting(10).map(doubled).batch(4);
  EXPECT_EQ(data.spec(), (BatchSpec{{"z", {{4, 2}, DType::f32}}, {"y", {{4}, DType::i32}}}));
  for (const int ahead : {0, 2}) {
    std::int64_t row = 0;
    for (const Batch& b : data.prefetch(ahead).epochs(1))
      for (std::size_t i = 0; i < static_cast<std::size_t>(b.rows()); ++i, ++row)
        EXPECT_EQ(b["z"].data<float>()[2 * i], static_cast<float>(4 * row));
    EXPECT_EQ(row, 10);
  }
  const Dataset twice = data.map([](const Batch& b) { return Batch{{"w", b["z"] + 1.0}}; });
  EXPECT_EQ(twice.all()["w"].data<float>()[3], 7);
  EXPECT_HAS(error_of([&] {
               (void)data.map([](const Batch&) { return Batch{{"w", Tensor::zeros({3})}}; }).all();
             }),
             "map: of a batch of 10 rows it made a column \"w\" that is f32(3)");
}

TEST(Choose, ColumnsCanBeChosen) {
  const Dataset data = counting(10).rows(2, 8).shuffle(3).batch(4);
  const Dataset y = data.only({"y"}), turned = data.only({"x", "y"});
  EXPECT_EQ(y.spec(), (BatchSpec{{"y", {{4}, DType::i32}}}));
  EXPECT_EQ(turned.spec().names(), (Names{"x", "y"}));
  EXPECT_EQ((*y.epoch(0).begin())["y"].to_vector<std::int32_t>(),
            (*data.epoch(0).begin())["y"].to_vector<std::int32_t>());
  EXPECT_HAS(error_of([&] { (void)data.only({}); }), "no columns");
  EXPECT_HAS(error_of([&] { (void)data.only({"y", "y"}); }), "twice");
  EXPECT_HAS(error_of([&] { (void)data.only({"z"}); }), "\"z\"");
  EXPECT_HAS(error_of([&] { (void)data.map(doubled).only({"y"}); }), "before .map");
}

// Each way to choose rows goes on from a position as it would have gone on.
TEST(Choose, PositionsGoOnWithEveryPiece) {
  const auto odd = [](const Batch& row) { return row["y"].item<std::int32_t>() % 2 == 1; };
  const Dataset all = counting(60);
  for (const Dataset& data :
       {all.filter(odd), all.shard(1, 3), all.repeat(2), all.split(0.3, 1).train,
        all.filter(odd).repeat(3).shard(0, 2).rows(3, 30)})
    for (const Dataset& set : {data.batch(4), data.shuffle(5).batch(4).prefetch(2)}) {
      std::vector<Rows> batches;
      std::vector<data::Position> at;
      auto walk = set.walk(2);
      at.push_back(walk.position());
      while (const Batch* b = walk.next()) {
        batches.push_back(b->values()[0].to_vector<std::int32_t>());
        at.push_back(walk.position());
      }
      for (std::size_t k = 0; k < at.size(); k += 3) {
        auto rest = set.walk(2, data::Position::parse(to_string(at[k])));
        for (std::size_t i = k; i < batches.size(); ++i)
          ASSERT_EQ(rest.next()->values()[0].to_vector<std::int32_t>(), batches[i]);
        EXPECT_EQ(rest.next(), nullptr);
      }
      EXPECT_NE(error_of([&] {
                  (void)all.rows(0, set.size() < 60 ? set.size() : 60).batch(4).walk(2, at[1]);
                }),
                "no error")
          << "it belongs to another walk";
    }
}

TEST(Choose, RowsAreFoundAgain) {
  const Dataset some = counting(50).split(0.3, 1).train;
  for (const Dataset& d : {some.batch(8), some.batch(8).shuffle(3)}) {
    BatchWalk walk = d.walk(2);
    data::Position at;  // of the first batch
    while (const Batch* b = walk.next()) {
      for (std::int64_t i = 0; i < b->rows(); ++i)
        EXPECT_EQ(d.row_at(at, i), (*b)["y"].data<std::int32_t>()[static_cast<std::size_t>(i)]);
      at = walk.position();
    }
    EXPECT_EQ(at.epoch, 2);
  }
}

TEST(Choose, WalkingBytesStayTrue) {
  const auto odd = [](const Batch& row) { return row["y"].item<std::int32_t>() % 2 == 1; };
  const Dataset all = counting(4000);
  for (const Dataset& rows :
       {all.filter(odd), all.shard(1, 3), all.repeat(2), all.split(0.3, 1).held_out,
        all.map(doubled, {.memory = 64_KiB}), all.filter(odd).map(doubled, {.memory = 64_KiB})})
    for (const Dataset& data : {rows, rows.shuffle(2)})
      for (const std::int64_t batch : {1, 100, 999})
        for (const int ahead : {0, 3}) {
          const Dataset set = data.batch(batch).prefetch(ahead);
          const std::uint64_t said = set.walking_bytes();
          std::int64_t seen = 0;
          const auto enough = [&](const Batch& b) { return (seen += b.rows()) > 20 * batch; };
          EXPECT_LE(test::walk_peak(set, enough), said) << batch << " ahead " << ahead;
        }
}

}  // namespace
}  // namespace ebb
