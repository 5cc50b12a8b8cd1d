// Going on from a position gives what an uninterrupted walk gives.
#include "ebb/data/position.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/data/dataset.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using data::Position;
using test::error_of;

Dataset counting(std::int64_t rows) {
  return Dataset::of({{"y", Tensor::arange(rows, DType::i32)}});
}

using Rows = std::vector<std::int32_t>;

Rows rows_of(const Batch& b) { return b["y"].to_vector<std::int32_t>(); }

std::vector<Rows> batches_of(const BatchRange& range) {
  std::vector<Rows> out;
  for (const Batch& b : range) out.push_back(rows_of(b));
  return out;
}

std::vector<Rows> from(const std::vector<Rows>& all, std::size_t first) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
}

// What epochs deal out today they deal out in every later version: positions are kept in files.
TEST(Position, TheOrderOfAnEpochIsForGood) {
  const auto order = [](std::int64_t epoch) {
    return batches_of(counting(12).shuffle(7).batch(12).epoch(epoch)).at(0);
  };
  EXPECT_EQ(order(0), (Rows{11, 7, 2, 4, 10, 9, 8, 3, 5, 6, 1, 0}));
  EXPECT_EQ(order(5), (Rows{11, 8, 10, 1, 6, 7, 5, 3, 2, 0, 4, 9}));
}

// So is the fingerprint: neither other compilers nor where the rows lie may change it.
TEST(Position, WhatItBelongsToIsForGood) {
  const Tensor x = Tensor::zeros({12, 3, 2}, DType::u8), y = Tensor::zeros({12}, DType::i32);
  const Dataset data = Dataset::of({{"x", x}, {"y", y}}).scale("x", 0.5f).shuffle(7);
  auto walk = data.batch(5).walk(1);
  (void)walk.next();
  EXPECT_EQ(to_string(walk.position()),
            "epoch=0 batch=1 rows=12 batch_rows=5 drop_last=0 seed=7 columns=9985e0e8a573db41");
}

TEST(Position, AWalkCanBeHandedOn) {
  for (const int ahead : {0, 2}) {
    const Dataset data = counting(30).shuffle(5).batch(5).prefetch(ahead);
    auto first = data.walk(1);
    (void)first.next();
    auto second = std::move(first);
    EXPECT_EQ(second.position().batch, 1);
    EXPECT_EQ(rows_of(*second.next()), batches_of(data.epochs(1)).at(1));
  }
}

TEST(Position, GoesOnAsIfNothingHadHappened) {
  const Dataset in_order = counting(23);
  for (const Dataset& rows : {in_order, in_order.shuffle(5), in_order.shuffle(5).rows(2, 22)})
    for (const bool drop_last : {false, true})
      for (const int ahead : {0, 1, 3}) {
        const Dataset data = rows.batch(5, {.drop_last = drop_last}).prefetch(ahead);
        const std::vector<Rows> all = batches_of(data.epochs(3));
        auto walk = data.walk(3);
        std::size_t done = 0;
        for (;;) {
          const Position at = walk.position();
          EXPECT_EQ(at.epoch * data.batches() + at.batch, static_cast<std::int64_t>(done));
          EXPECT_LT(at.batch, data.batches());
          EXPECT_EQ(batches_of(data.epochs(3, at)), from(all, done)) << to_string(at);
          EXPECT_EQ(batches_of(data.prefetch(2).epochs(3, Position::parse(to_string(at)))),
                    from(all, done))
              << "as text, and whatever is made ahead";
          const Batch* b = walk.next();
          if (!b) break;
          EXPECT_EQ(rows_of(*b), all.at(done++));
        }
        EXPECT_EQ(done, all.size());
        EXPECT_EQ(walk.position().epoch, 3);
        EXPECT_EQ(walk.position().batch, 0);
        EXPECT_EQ(batches_of(data.epochs(2, walk.position())).size(), 0u) << "past the end";
        EXPECT_EQ(batches_of(data.epochs(4, walk.position())), batches_of(data.epoch(3)))
            << "more epochs than at first";
      }
}

// An order for the epoch, and one batch: nothing is made for those before.
TEST(Position, IsReachedWithoutWalkingThere) {
  const Dataset data = counting(1000).shuffle(1).batch(1);
  auto walk = data.walk(1000, {.epoch = 900, .batch = 999});
  const std::uint64_t before = memory::FailTake::takes();
  const Batch* last = walk.next();
  EXPECT_EQ(memory::FailTake::takes() - before, 2u);
  EXPECT_EQ(rows_of(*last), batches_of(data.epoch(900)).back());
  EXPECT_EQ(walk.position().epoch, 901);
}

TEST(Position, StaysWhereABatchCouldNotBeMade) {
  for (const int ahead : {0, 2}) {
    const Dataset data = counting(20).shuffle(3).batch(5).prefetch(ahead);
    const auto all = batches_of(data.epochs(1));
    for (std::uint64_t n = 1; n <= 5; ++n) {
      memory::FailTake fault(n);
      auto walk = data.walk(1);
      std::size_t done = 0;
      EXPECT_THROW(while (walk.next())++ done, OutOfMemory);
      EXPECT_EQ(done, n == 1 ? 0 : n - 2) << "the order, then batch by batch";
      EXPECT_EQ(walk.position().batch, static_cast<std::int64_t>(done));
      EXPECT_EQ(batches_of(data.epochs(1, walk.position())), from(all, done));
    }
  }
}

TEST(Position, OfNoBatchesIsRefused) {
  const Dataset none = counting(3).batch(4, {.drop_last = true});
  EXPECT_HAS(error_of([&] { none.walk(2); }), "fewer than a batch of 4");
  EXPECT_HAS(error_of([&] { none.epochs(2, Position{}); }), "fewer than a batch of 4");
}

TEST(Position, IsWrittenAndReadAsOneLine) {
  const Position p{.epoch = 3,
                   .batch = 17,
                   .rows = 60000,
                   .batch_rows = 512,
                   .drop_last = true,
                   .seed = ~std::uint64_t{0},
                   .columns = 0xab};
  EXPECT_EQ(to_string(p),
            "epoch=3 batch=17 rows=60000 batch_rows=512 drop_last=1 "
            "seed=18446744073709551615 columns=00000000000000ab");
  EXPECT_EQ(Position::parse(to_string(p)), p);
  Position unshuffled = p;
  unshuffled.seed.reset();
  EXPECT_HAS(to_string(unshuffled), " seed=none ");
  EXPECT_EQ(Position::parse(to_string(unshuffled)), unshuffled);
  EXPECT_EQ(Position::parse(to_string(Position{})), Position{});

  const std::string good = to_string(p);
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_HAS(error_of([&] { Position::parse(good.substr(0, n)); }), "is none; expected the line");
  for (const char* bad :
       {" epoch=3 batch=17 rows=1 batch_rows=1 drop_last=0 seed=1 columns=00000000000000ab",
        "epoch=-3 batch=17 rows=1 batch_rows=1 drop_last=0 seed=1 columns=00000000000000ab",
        "epoch=3 batch=17 rows=1 batch_rows=1 drop_last=2 seed=1 columns=00000000000000ab",
        "epoch=3 batch=17 rows=1 batch_rows=1 drop_last=0 seed=-1 columns=00000000000000ab",
        "epoch=3  batch=17 rows=1 batch_rows=1 drop_last=0 seed=1 columns=00000000000000ab",
        "epoch=3 batch=17 rows=1 batch_rows=1 drop_last=0 seed=1 columns=00000000000000ab ",
        "epoch=99999999999999999999 batch=17 rows=1 batch_rows=1 drop_last=0 seed=1 columns=0b"})
    EXPECT_HAS(error_of([&] { Position::parse(bad); }), "is none; expected the line");
}

TEST(Position, OfAnotherWalkIsRefusedByName) {
  const Dataset rows = counting(100).shuffle(7);
  const Dataset data = rows.batch(8);
  auto walk = data.walk(2);
  (void)walk.next();
  const Position at = walk.position();
  const auto refusal = [&](const Dataset& other) {
    const std::string line = error_of([&] { other.epochs(2, at); });
    EXPECT_EQ(error_of([&] { (void)other.walk(2, at); }), line);
    return line;
  };
  EXPECT_EQ(refusal(data.prefetch(3)), "no error");
  EXPECT_HAS(refusal(counting(99).shuffle(7).batch(8)),
             "position: epoch 0, batch 1 is of another walk: it has 100 rows, this one 99; go on");
  EXPECT_HAS(refusal(rows.batch(9)), "its batches have 8 rows, those of this one 9");
  EXPECT_HAS(refusal(rows.batch(8, {.drop_last = true})), "it keeps a last batch that is not full");
  EXPECT_HAS(refusal(data.shuffle(8)), "it has shuffle(7), this one shuffle(8)");
  EXPECT_HAS(refusal(counting(100).batch(8)), "it has shuffle(7), this one no shuffle");
  EXPECT_HAS(refusal(counting(101).rows(1, 101).shuffle(7).batch(8)), "another part of the rows");
  const Tensor y = Tensor::arange(100, DType::i32);
  EXPECT_HAS(refusal(Dataset::of({{"z", y}}).shuffle(7).batch(8)), "other names, types or shapes");
  EXPECT_HAS(refusal(Dataset::of({{"y", y.viewed({100, 1})}}).shuffle(7).batch(8)), "shapes");
  EXPECT_HAS(refusal(Dataset::of({{"y", Tensor::arange(100)}}).shuffle(7).batch(8)), "types");

  EXPECT_HAS(error_of([&] { data.epochs(2, {.batch = 13}); }), "batch 13 of an epoch that has 13");
  EXPECT_HAS(error_of([&] { data.epochs(2, {.epoch = -1}); }), "both are counted from 0");
  EXPECT_HAS(error_of([&] { (void)data.walk(-1); }), "walk: -1 epochs");
  EXPECT_HAS(error_of([&] { (void)rows.walk(1); }), "call .batch(n) first");
}

}  // namespace
}  // namespace ebb
