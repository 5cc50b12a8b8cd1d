// Batches that several share: every row once, in order, whatever the number; positions of the whole.
#include "ebb/data/part.hpp"

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/data/files/jsonl.hpp"
#include "tests/data/walk_peak.hpp"
#include "tests/io/folder.hpp"

namespace ebb {
namespace {

using test::error_of;
using Ints = std::vector<std::int32_t>;

TEST(Part, CoversEveryBatchOnceAndNeverShrinks) {
  for (std::int64_t count = 1; count <= 9; ++count)
    for (std::int64_t rows = 0; rows <= 40; ++rows) {
      std::int64_t at = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const data::Part part{i, count};
        EXPECT_EQ(part.begin(rows), at);
        at = part.end(rows);
        EXPECT_EQ(part.rows(rows), part.end(rows) - part.begin(rows));
        EXPECT_LE(part.rows(rows), part.rows(rows + 1)) << "a larger batch is never less";
        EXPECT_LE((data::Part{0, count}.rows(rows)) - part.rows(rows), 1) << "even, but for one";
      }
      EXPECT_EQ(at, rows);
    }
}

Dataset counting(std::int64_t rows) {
  return Dataset::of(
      {{"x", Tensor::arange(2 * rows).viewed({rows, 2})}, {"y", Tensor::arange(rows, DType::i32)}});
}

struct World {
  int rank() const { return r; }
  int size() const { return n; }
  int r, n;
};

// The parts side by side are the batches of the whole.
void expect_cover(const Dataset& whole, int count) {
  std::vector<BatchWalk> walks;
  for (int i = 0; i < count; ++i) walks.push_back(whole.part(World{i, count}).walk(2));
  BatchWalk all = whole.walk(2);
  while (const Batch* b = all.next()) {
    std::int64_t at = 0;
    std::vector<Ints> got(b->names().size());
    for (BatchWalk& walk : walks) {
      const Batch* part = walk.next();
      ASSERT_TRUE(part);
      EXPECT_EQ(part->names(), b->names());
      EXPECT_EQ(part->first_row(), at);
      EXPECT_EQ(part->whole_rows(), b->rows());
      at += part->rows();
      EXPECT_EQ(walk.position(), all.position()) << "all are where the whole is";
      for (std::size_t k = 0; k < got.size(); ++k) {
        const Tensor& t = part->values()[k];
        EXPECT_EQ(t.spec().with_axis(0, 1), b->values()[k].spec().with_axis(0, 1)) << b->names()[k];
        const auto* const bytes = reinterpret_cast<const char*>(t.raw());
        got[k].insert(got[k].end(), bytes, bytes + t.spec().bytes());
      }
    }
    EXPECT_EQ(at, b->rows());
    for (std::size_t k = 0; k < got.size(); ++k) {
      const Tensor& t = b->values()[k];
      const auto* const bytes = reinterpret_cast<const char*>(t.raw());
      EXPECT_EQ(got[k], Ints(bytes, bytes + t.spec().bytes())) << b->names()[k];
    }
  }
  for (BatchWalk& walk : walks) EXPECT_EQ(walk.next(), nullptr);
}

TEST(Part, OfADataSetIsAnExactCover) {
  const auto twice = [](const Batch& b) {
    EXPECT_GT(b.rows(), 0) << "no map is asked what it makes of nothing";
    return Batch({{"y", b["y"]}, {"again", b["y"]}});
  };
  for (const int count : {1, 2, 3, 4, 7}) {
    expect_cover(counting(23).batch(5), count);
    expect_cover(counting(23).batch(5).shuffle(3), count);
    expect_cover(counting(23).batch(5, {.drop_last = true}).shuffle(3).prefetch(2), count);
    expect_cover(counting(23).rows(2, 22).shard(0, 2).batch(4).shuffle(1), count);
    expect_cover(counting(3).batch(64), count);
    expect_cover(counting(23).batch(3).map(twice).shuffle(2), count);
  }
}

class PartOfFiles : public test::InFolder {
 protected:
  Dataset lists() {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      text += "{\"n\": " + std::to_string(i) + ", \"ids\": [";
      for (int k = 0; k < i * 5 % 13; ++k) text += (k ? "," : "") + std::to_string(i * 100 + k);
      text += "]}\n";
    }
    return data::jsonl(put("a.jsonl", text)).rows;
  }
};

// Padding belongs to the whole batch: the shapes of all parts are those of one process.
TEST_F(PartOfFiles, ListsAreAsLongAsInTheWholeBatch) {
  for (const int count : {2, 3, 5}) {
    expect_cover(lists().batch(4).shuffle(1), count);
    expect_cover(lists().pad("ids", {.buckets = {3, 8, 20}, .mask = "m", .lengths = "l"}).batch(4),
                 count);
    expect_cover(lists().batch_tokens(40).shuffle(2), count);
  }
}

TEST(Part, SpecsAreThoseOfThePart) {
  const Dataset data = counting(23).batch(5);
  EXPECT_EQ(data.part(0, 2).spec()["x"].shape, (Shape{3, 2}));
  EXPECT_EQ(data.part(1, 2).spec()["x"].shape, (Shape{2, 2}));
  EXPECT_EQ(data.part(0, 2).spec().last_rows(), 2);
  EXPECT_EQ(data.part(1, 2).spec().last_rows(), 1);
  EXPECT_EQ(data.part(6, 7).spec()["x"].shape, (Shape{0, 2}));
  EXPECT_EQ(data.part(0, 2).size(), 23);
  EXPECT_EQ(data.part(0, 2).batches(), 5);
  EXPECT_LT(data.shuffle(1).part(0, 5).walking_bytes(), data.shuffle(1).walking_bytes());
}

TEST_F(PartOfFiles, AWalkTakesNoMoreThanItSays) {
  const auto never = [](const Batch&) { return false; };
  for (const Dataset& data : {lists().batch(16).shuffle(1), lists().batch_tokens(60).shuffle(2),
                              counting(500).batch(100).shuffle(1), counting(500).batch(100)})
    for (const int count : {2, 5, 120})
      for (const int index : {0, count - 1}) {
        const Dataset part = data.part(index, count);
        EXPECT_LE(test::walk_peak(part, never), part.walking_bytes()) << index << " of " << count;
      }
}

// What one process has saved, three go on from; and the other way round.
TEST(Part, PositionsAreOfTheWhole) {
  const Dataset data = counting(23).batch(5).shuffle(9);
  BatchWalk alone = data.walk(3);
  for (int i = 0; i < 7; ++i) alone.next();
  const Batch* next = alone.next();
  Ints together;
  for (int r = 0; r < 3; ++r) {
    BatchWalk walk = data.part(r, 3).walk(3, data::Position::parse([&] {
                                            BatchWalk before = data.part(2 - r, 3).walk(3);
                                            for (int i = 0; i < 7; ++i) before.next();
                                            return to_string(before.position());
                                          }()));
    const Ints part = walk.next()->operator[]("y").to_vector<std::int32_t>();
    together.insert(together.end(), part.begin(), part.end());
  }
  EXPECT_EQ(together, (*next)["y"].to_vector<std::int32_t>());
}

TEST(Part, MistakesAreNamed) {
  const Dataset data = counting(23).batch(5);
  EXPECT_HAS(error_of([&] { data.part(2, 2); }), "part: 2 of 2; parts are counted from 0");
  EXPECT_HAS(error_of([&] { data.part(-1, 2); }), "-1 of 2");
  EXPECT_HAS(error_of([&] { data.part(0, 0); }), "0 of 0");
  EXPECT_HAS(error_of([&] { data.part(0, 2).part(0, 2); }), "part 0 of 2 already");
}

}  // namespace
}  // namespace ebb
