// Specs of batches that vary: what they say of the largest, and that dealing these out is promised, too.
#include <gtest/gtest.h>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/random.hpp"
#include "tests/data/walk_peak.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

Dataset sequences(std::int64_t rows, std::int64_t length) {
  return Dataset::of(
      {{"x", random::normal({rows, length}, 0, 1, 3, 4)}, {"y", Tensor::arange(rows, DType::i32)}});
}

TEST(BatchSpec, NamesTheLargestBatch) {
  const BatchSpec spec = sequences(100, 6).batch(8).spec();
  EXPECT_EQ(spec.rows_up_to(20)["x"], (Spec{{20, 6}, DType::f32}));
  EXPECT_EQ(spec.rows_up_to(20)["y"], (Spec{{20}, DType::i32}));
  EXPECT_EQ(spec.lengths_up_to(9)["x"], (Spec{{8, 9}, DType::f32}));
  EXPECT_EQ(spec.lengths_up_to(9)["y"], (Spec{{8}, DType::i32})) << "it has no second axis";
  EXPECT_EQ(error_of([&] { (void)spec.rows_up_to(0); }),
            "batch spec: a size of 0; expected 1 or more");
}

// What a data set of such batches would hold, whatever it does to make them.
TEST(BatchSpec, PromisesWhatLargerBatchesTake) {
  const auto doubled = [](const Batch& b) { return Batch{{"z", b["x"] + b["x"]}}; };
  for (const std::int64_t length : {1, 5, 64, 700}) {
    const Dataset plain = sequences(1000, length);
    const Dataset kinds[] = {plain,
                             plain.shuffle(1),
                             plain.shuffle(1).prefetch(4),
                             plain.map(doubled),
                             plain.shuffle(1).map(doubled).prefetch(2),
                             plain.split(0.9, 1).train.shuffle(2)};
    for (std::size_t k = 0; k < std::size(kinds); ++k)
      for (const std::int64_t from : {1, 7, 32})
        for (const std::int64_t to : {2, 8, 31, 33, 64, 257, 800}) {
          SCOPED_TRACE(testing::Message()
                       << "kind " << k << ", " << from << " to " << to << " rows of " << length);
          const std::uint64_t before = kinds[k].batch(from).spec().dealing_bytes();
          const std::uint64_t promised = kinds[k].batch(from).spec().rows_up_to(to).dealing_bytes();
          EXPECT_GE(promised, before) << "the data set itself goes on";
          EXPECT_GE(promised, kinds[k].batch(to).spec().dealing_bytes());
        }
  }
}

TEST(BatchSpec, PromisesWhatLongerSequencesTake) {
  for (const std::int64_t to : {7, 50, 512}) {
    const Dataset data = sequences(100, 6).shuffle(1).batch(8).prefetch(2);
    const Dataset longer = sequences(100, to).shuffle(1).batch(8).prefetch(2);
    const std::uint64_t promised = data.spec().lengths_up_to(to).dealing_bytes();
    EXPECT_GE(promised, longer.spec().dealing_bytes()) << to;
    EXPECT_GE(promised, test::walk_peak(longer, [](const Batch&) { return false; })) << to;
  }
}

TEST(BatchSpec, NoLastBatchIsLargerThanTheLargest) {
  const BatchSpec spec = sequences(22, 6).batch(8).spec();
  ASSERT_EQ(spec.last_rows(), 6);
  EXPECT_EQ(spec.rows_up_to(7).last_rows(), 6);
  EXPECT_EQ(spec.rows_up_to(20).last_rows(), 6);
  EXPECT_EQ(spec.rows_up_to(6).last_rows(), 0) << "no smaller one: it needs no plan of its own";
  EXPECT_EQ(spec.rows_up_to(4).last_rows(), 0);
  EXPECT_EQ(spec.lengths_up_to(3).last_rows(), 6);
}

TEST(BatchSpec, BatchesOfTheProgramsOwnStayItsOwn) {
  const BatchSpec own{{"x", Spec{{4, 2}, DType::f32}}};
  EXPECT_EQ(own.rows_up_to(64).dealing_bytes(), 0u);
}

}  // namespace
}  // namespace ebb
