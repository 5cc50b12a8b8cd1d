#include "ebb/data/dataset.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

// Row i is (2i, 2i + 1) in "x" and i in "y".
Dataset counting(std::int64_t rows) {
  return Dataset::of(
      {{"x", Tensor::arange(2 * rows).viewed({rows, 2})}, {"y", Tensor::arange(rows, DType::i32)}});
}

std::vector<std::int32_t> order_of(const BatchRange& range) {
  std::vector<std::int32_t> out;
  for (const Batch& b : range) {
    const auto y = b["y"].data<std::int32_t>();
    const auto x = b["x"].data<std::int64_t>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(x[2 * i], 2 * y[i]) << "columns apart";
      EXPECT_EQ(x[2 * i + 1], 2 * y[i] + 1);
      out.push_back(y[i]);
    }
  }
  return out;
}

std::vector<std::int64_t> sizes_of(const BatchRange& range) {
  std::vector<std::int64_t> out;
  for (const Batch& b : range) out.push_back(b.rows());
  return out;
}

std::vector<std::int32_t> first_numbers(std::int32_t n) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

using test::error_of;

TEST(Dataset, BatchesInOrderWithARaggedLastOne) {
  const Dataset data = counting(10).batch(4);
  EXPECT_EQ(data.size(), 10);
  EXPECT_EQ(data.batches(), 3);
  EXPECT_EQ(sizes_of(data.epochs(1)), (std::vector<std::int64_t>{4, 4, 2}));
  EXPECT_EQ(order_of(data.epochs(1)), first_numbers(10));
  EXPECT_EQ(sizes_of(data.epochs(2)), (std::vector<std::int64_t>{4, 4, 2, 4, 4, 2}));
  EXPECT_EQ(sizes_of(data.epochs(0)), std::vector<std::int64_t>{});
}

TEST(Dataset, TheLastOneCanBeDropped) {
  const Dataset data = counting(10).batch(4, {.drop_last = true});
  EXPECT_EQ(data.batches(), 2);
  EXPECT_EQ(sizes_of(data.epochs(1)), (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(sizes_of(counting(8).batch(4, {.drop_last = true}).epochs(1)),
            (std::vector<std::int64_t>{4, 4}));
}

TEST(Dataset, SpecIsThatOfAFullBatch) {
  const BatchSpec expected{{"x", Spec{{4, 2}, DType::i64}}, {"y", Spec{{4}, DType::i32}}};
  EXPECT_EQ(counting(10).batch(4).spec(), expected);
  EXPECT_EQ(counting(10).batch(4).spec()["x"], (Spec{{4, 2}, DType::i64}));
  EXPECT_EQ(counting(3).batch(4).spec()["y"].shape, Shape{3}) << "no batch is larger";
  EXPECT_EQ(counting(3).batch(4, {.drop_last = true}).spec()["y"].shape, Shape{4});
}

TEST(Dataset, ShuffleIsNewEachEpochAndTheSameForTheSameSeed) {
  const Dataset data = counting(100).shuffle(7).batch(8);
  const auto first = order_of(data.epoch(0)), second = order_of(data.epoch(1));
  EXPECT_NE(first, second);
  EXPECT_NE(first, first_numbers(100));
  for (auto order : {first, second}) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, first_numbers(100)) << "each row once";
  }
  auto both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(order_of(data.epochs(2)), both);
  EXPECT_EQ(order_of(counting(100).batch(8).shuffle(7).epochs(2)), both) << "any order of calls";
  EXPECT_EQ(order_of(counting(100).batch(33).shuffle(7).epoch(1)), second) << "any batch size";
  EXPECT_NE(order_of(data.shuffle(8).epoch(0)), first);
}

// Six orders of three rows, 6000 epochs: about 1000 each (five standard deviations are 145).
TEST(Dataset, EveryOrderIsAsLikely) {
  const Dataset data = counting(3).shuffle(99).batch(3);
  std::map<std::vector<std::int32_t>, int> seen;
  for (int epoch = 0; epoch < 6000; ++epoch) ++seen[order_of(data.epoch(epoch))];
  EXPECT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 145);
}

TEST(Dataset, ScaledBytesComeAsFloats) {
  const Tensor bytes = Tensor::of<std::uint8_t>({{0, 1}, {2, 255}});
  const Dataset data = Dataset::of({{"x", bytes}}).scale("x", 0.5f).batch(2);
  EXPECT_EQ(data.spec()["x"], (Spec{{2, 2}, DType::f32}));
  for (const Batch& b : data.epochs(1))
    EXPECT_EQ(b["x"].to_vector<float>(), (std::vector<float>{0, 0.5f, 1, 127.5f}));
  for (const Batch& b : data.shuffle(1).batch(1).epochs(1))
    EXPECT_EQ(b["x"].data<float>()[0], b["x"].data<float>()[1] == 0.5f ? 0.0f : 1.0f);
  EXPECT_EQ(data.all()["x"].dtype(), DType::f32);
}

TEST(Dataset, PartsAndWholesShareTheColumns) {
  const Dataset data = counting(1000);
  const auto live = ledger::of(Category::data).live;
  const Dataset head = data.rows(0, 900), tail = data.rows(900, 1000);
  EXPECT_EQ(tail.size(), 100);
  EXPECT_EQ(order_of(tail.batch(30).epochs(1)).front(), 900);
  EXPECT_EQ(head.all().rows(), 900);
  EXPECT_EQ(data.all()["x"].raw(), head.all()["x"].raw()) << "nothing is copied";
  EXPECT_EQ(ledger::of(Category::data).live, live);
  EXPECT_THROW(data.rows(5, 1001), Error);
}

TEST(Dataset, ABatchThatIsKeptStaysAsItWas) {
  for (const int ahead : {0, 2}) {
    std::vector<Batch> kept;
    for (const Batch& b : counting(20).shuffle(3).batch(5).prefetch(ahead).epochs(1))
      kept.push_back(b);
    std::vector<std::int32_t> order;
    for (const Batch& b : kept)
      for (const std::int32_t y : b["y"].data<std::int32_t>()) order.push_back(y);
    EXPECT_EQ(order, order_of(counting(20).shuffle(3).batch(5).epochs(1)));
  }
}

TEST(Dataset, OneBatchAtATimeIsAlive) {
  const Dataset data = counting(1000).shuffle(1).batch(100);
  const auto before = ledger::of(Category::data).live;
  const auto one = data.spec()["x"].bytes() + data.spec()["y"].bytes();
  std::uint64_t most = 0;
  for (const Batch& b : data.epochs(2)) {
    EXPECT_EQ(b.rows(), 100);
    most = std::max(most, ledger::of(Category::data).live - before);
  }
  EXPECT_GE(most, one + 4000);
  EXPECT_LT(most, one + 4000 + 2000) << "a batch and the order of the rows";
  EXPECT_EQ(ledger::of(Category::data).live, before);
}

TEST(Dataset, EmptyOnesAreValuesToo) {
  EXPECT_EQ(counting(0).shuffle(1).batch(4).batches(), 0);
  EXPECT_EQ(counting(0).all().rows(), 0);
  const Dataset narrow = Dataset::of({{"x", Tensor::zeros({3, 0})}}).shuffle(1).batch(2);
  for (const Batch& b : narrow.epochs(1)) EXPECT_EQ(b["x"].dim(1), 0);
}

TEST(Dataset, PrefetchGivesTheSame) {
  const Dataset data = counting(103).shuffle(5).batch(10);
  const auto expected = order_of(data.epochs(3));
  for (const int ahead : {1, 2, 100}) EXPECT_EQ(order_of(data.prefetch(ahead).epochs(3)), expected);
  const Dataset ahead = data.prefetch(2);
  const BatchRange range = ahead.epochs(3);
  EXPECT_EQ(order_of(range), expected);
  EXPECT_EQ(order_of(range), expected) << "each walk starts anew";
}

TEST(Dataset, PrefetchCanBeLeftAtAnyPlace) {
  const auto live = ledger::total().live;
  for (int stop = 0; stop < 12; ++stop) {
    int seen = 0;
    for (const Batch& b : counting(100).shuffle(5).batch(10).prefetch(3).epochs(1)) {
      EXPECT_EQ(b.rows(), 10);
      if (seen++ == stop) break;
    }
  }
  try {
    for (const Batch& b : counting(100).shuffle(5).batch(10).prefetch(3).epochs(1)) {
      if (b.rows() == 10) throw 1;
    }
    FAIL();
  } catch (int) {
  }
  EXPECT_EQ(ledger::total().live, live);
}

TEST(Dataset, PrefetchStaysAsFarAheadAsAsked) {
  const Dataset data = counting(1000).shuffle(5).batch(10).prefetch(2);
  const auto before = ledger::of(Category::data).live;
  const auto one = data.spec()["x"].bytes() + data.spec()["y"].bytes();
  for (const Batch& b : data.epochs(1)) {
    EXPECT_EQ(b.rows(), 10);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    // One in use, two that wait, one in the making, each with two blocks' heads; and the order.
    EXPECT_LT(ledger::of(Category::data).live - before, 4 * (one + 1000) + 4000 + 1000);
  }
}

// Each allocation of a walk fails in turn: an OutOfMemory where the loop stands, and no leak.
TEST(Dataset, RunningOutOfMemoryReachesTheLoop) {
  for (const int ahead : {0, 2}) {
    const Dataset data = counting(20).shuffle(3).batch(5).prefetch(ahead);
    const auto expected = order_of(data.epochs(1));
    const auto live = ledger::total().live;
    int failures = 0;
    for (std::uint64_t n = 1; n < 100; ++n) {
      memory::FailTake fault(n);
      try {
        EXPECT_EQ(order_of(data.epochs(1)), expected);
        if (!fault.fired()) break;
      } catch (const OutOfMemory&) {
        ++failures;
      }
      EXPECT_EQ(ledger::total().live, live) << n;
    }
    EXPECT_EQ(failures, 9) << "four batches of two columns, and the order";
  }
}

TEST(Dataset, TwoThreadsCanWalkTheSameData) {
  const Dataset data = counting(64).shuffle(5).batch(4).prefetch(1);
  const auto expected = order_of(data.epochs(2));
  std::vector<std::int32_t> there;
  std::thread other([&] { there = order_of(data.epochs(2)); });
  const auto here = order_of(data.epochs(2));
  other.join();
  EXPECT_EQ(here, expected);
  EXPECT_EQ(there, expected);
}

TEST(Dataset, MistakesAreNamed) {
  const Tensor three = Tensor::zeros({3, 2}), four = Tensor::zeros({4});
  EXPECT_HAS(error_of([&] {
               Dataset::of({{"x", three}, {"y", four}});
             }),
             "column \"y\" is f32(4), with 4 rows, and column \"x\" has 3; all columns need");
  EXPECT_HAS(error_of([&] { Dataset::of({}); }), "no columns were given");
  EXPECT_HAS(error_of([&] { Dataset::of({{"x", three}, {"x", three}}); }), "\"x\" is given twice");
  EXPECT_HAS(error_of([&] { Dataset::of({{"x", Tensor::scalar(1)}}); }), "\"x\" is a scalar");
  EXPECT_HAS(error_of([&] { Dataset::of({{"x", Tensor()}}); }), "\"x\" holds no tensor");
  const Dataset data = counting(4);
  EXPECT_HAS(error_of([&] { data.batch(0); }), "batch: 0 rows; a batch needs at least one");
  EXPECT_HAS(error_of([&] { data.batch(-3); }), "batch: -3 rows");
  EXPECT_HAS(error_of([&] { data.prefetch(-1); }), "prefetch: -1");
  EXPECT_HAS(error_of([&] { data.epochs(1); }), "call .batch(n) first");
  EXPECT_HAS(error_of([&] { (void)data.spec(); }), "call .batch(n) first");
  EXPECT_HAS(error_of([&] { data.batch(1).epochs(-1); }), "epochs: -1");
  EXPECT_HAS(error_of([&] { data.batch(1).epoch(-1); }), "counted from 0");
  EXPECT_HAS(error_of([&] { data.scale("x", 1); }), "only u8 can be scaled");
  EXPECT_HAS(error_of([&] { data.scale("z", 1); }), "no column \"z\"; there is x, y");
  EXPECT_HAS(error_of([&] { data.all()["image"]; }), "no column \"image\"; there is x, y");
  EXPECT_HAS(error_of([&] { Batch()["x"]; }), "there are none");
}

TEST(Batch, CanBeMadeByHand) {
  const Batch b{{"x", Tensor::zeros({3, 2})}, {"y", Tensor::ones({3})}};
  EXPECT_EQ(b.rows(), 3);
  EXPECT_EQ(b["y"].data<float>()[0], 1);
  EXPECT_EQ(b.names(), (Names{"x", "y"}));
  const Batch single{{"x", Tensor::zeros({5})}};
  EXPECT_EQ(single.rows(), 5);
}

TEST(Dataset, AnEmptyOneSaysSo) {
  const Dataset none = Dataset::of({{"x", Tensor::zeros({0, 3})}}).batch(4);
  const Dataset few = Dataset::of({{"x", Tensor::zeros({3, 3})}}).batch(4, {.drop_last = true});
  for (const Dataset& data : {none, few}) {
    const char* const says = data.size() ? "fewer than a batch of 4" : "no rows";
    EXPECT_NE(error_of([&] { data.epochs(3); }).find(says), std::string::npos);
    EXPECT_NE(error_of([&] { data.epoch(0); }).find(says), std::string::npos);
    EXPECT_EQ(data.batches(), 0);
    for ([[maybe_unused]] const Batch& b : data.epochs(0)) FAIL();
  }
  EXPECT_NE(error_of([&] { none.spec(); }).find("no rows"), std::string::npos);
}

}  // namespace
}  // namespace ebb
