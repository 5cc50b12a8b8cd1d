// Data sets: columns with one first axis, in memory or in files, dealt out in batches.
//
//   auto data = Dataset::of({{"x", x}, {"y", y}}).shuffle(1).batch(32).prefetch(2);
//   for (const Batch& b : data.epochs(3)) step(b["x"], b["y"]);
//
// A Dataset is a value and cheap to copy: the settings below return a changed copy that shares the
// columns. Which rows there are is settled in the order of the calls; how they are dealt out may be said in
// any order. Rows are shuffled, never whole batches. A column is a Tensor, or rows that stay in their file
// (source.hpp): the batches are the same.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/data/batch.hpp"
#include "ebb/data/part.hpp"
#include "ebb/data/position.hpp"
#include "ebb/data/row_set.hpp"
#include "ebb/data/source.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

struct BatchOptions {
  bool drop_last = false;  // leave out a last batch that is not full
};

struct MapOptions {
  ByteSize memory = {};  // the most that the function takes beside its result, for walking_bytes()
};

struct DatasetSplit;
class BatchRange;
class BatchWalk;

class Dataset {
 public:
  static Dataset of(std::vector<std::pair<std::string, data::Source>> columns);
  Dataset(const Dataset&);
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(const Dataset&);
  Dataset& operator=(Dataset&&) noexcept;
  ~Dataset();

  // Which rows.
  Dataset rows(std::int64_t begin, std::int64_t end) const;  // a part: to hold out, to try out
  using Keep = std::function<bool(const Batch& row)>;
  Dataset filter(const Keep& keep) const;                       // each row is looked at now, once
  Dataset shard(std::int64_t index, std::int64_t count) const;  // every count-th from index on
  Dataset repeat(std::int64_t times) const;                     // one after the other, as one epoch
  // Rows drawn by seed, `fraction` of them held out; what is left over is `train`.
  DatasetSplit split(double fraction, std::uint64_t seed) const;

  // How they are dealt out.
  // A new order each epoch, the same for the same seed and epoch number on every machine.
  Dataset shuffle(std::uint64_t seed) const;
  Dataset batch(std::int64_t rows, BatchOptions options = {}) const;
  // Lists of like length, as many rows as give so many tokens, padding included, in the longest column of
  // lists (token_batches.hpp). Buckets are those of pad(), else 16, 32, 64 … A shape for each bucket: spec()
  // is that of the longest lists.
  Dataset batch_tokens(std::int64_t tokens, BatchOptions options = {}) const;
  // Up to so many batches are made ahead, by a thread of their own; 0 is none.
  Dataset prefetch(int batches) const;
  // Of every batch its own rows, for each of `count` who share it (part.hpp); none is padded or dealt twice.
  // Lists are as long as in the whole batch; a map is given its own rows. size(), batches() and positions stay
  // those of the whole, so that any number may go on where another was.
  Dataset part(std::int64_t index, std::int64_t count) const;
  template <class World>
  requires requires(const World& world) { world.rank() + world.size(); }
  Dataset part(const World& world) const { return part(world.rank(), world.size()); }

  // What batches hold.
  Dataset only(const Names& columns) const;  // these, in this order; files of others are not read
  // A u8 column that batches hold as f32, each byte times `factor`. Kept, it stays a byte each.
  Dataset scale(std::string_view column, float factor) const;
  // How lists of different lengths become a tensor.
  Dataset pad(std::string_view column, data::PadOptions options) const;
  // Batches become what `function` makes of them: as many rows, the same for the same batch. Where batches
  // are made ahead, it is called by that thread. A later map is of what an earlier one made.
  using Map = std::function<Batch(const Batch&)>;
  Dataset map(Map function, MapOptions options = {}) const;

  std::int64_t size() const;     // rows
  std::int64_t batches() const;  // in an epoch
  BatchSpec spec() const;        // of a full batch, or of the only one where there are fewer rows
  Batch all() const;             // every row in order, as one batch

  // Epochs 0 to count - 1, one after the other; `from` is where an earlier walk was.
  BatchRange epochs(std::int64_t count, const data::Position& from = {}) const;
  BatchRange epoch(std::int64_t number) const;  // one of them
  // The same, for those who want to know where they are: walk.next(), walk.position().
  BatchWalk walk(std::int64_t epochs, const data::Position& from = {}) const;
  // The most that a walk takes from the memory seam at any time, beside what the columns hold: the
  // order of the rows, the batch at hand and those made ahead, and what files are read through. (Not
  // from there, and not in it, is the stack of the thread that works ahead.)
  std::uint64_t walking_bytes() const;
  // What that would be if columns that could lie elsewhere did (Source::movable).
  std::uint64_t walking_bytes(data::Lying where) const;

  // Of the batch that a walk deals out from there, which row of the columns its row `i` is; not of batch_tokens.
  std::int64_t row_at(const data::Position& at, std::int64_t i) const;

  // For those who deal batches out: rows [begin, end) of the given order, or of the set's own.
  Batch gather(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const;

 private:
  friend class BatchWalk;
  class Gather;  // these: dataset_parts.hpp
  struct Mapping;
  struct Tokens;
  Dataset();
  Dataset with_rows(data::RowSet rows) const;
  void check_any(const char* what) const;  // throws where an epoch has no batch
  data::Position start() const;  // of the first batch, with all that a position belongs to
  void name_columns();           // of batches, before they are mapped

  std::shared_ptr<const Names> names_, batch_names_;  // of the columns; with masks and lengths
  std::vector<data::Source> columns_;
  data::RowSet rows_;  // of the columns' rows
  std::optional<std::uint64_t> seed_;
  std::int64_t batch_rows_ = 0;  // 0: not said yet
  std::shared_ptr<Tokens> tokens_;
  bool drop_last_ = false;
  data::Part part_;
  int ahead_ = 0;
  std::shared_ptr<const Mapping> map_;
};

struct DatasetSplit {
  Dataset train, held_out;
};

// A walk over batches. Ends its thread, if there is one, wherever it is left.
class BatchWalk {
 public:
  BatchWalk(Dataset data, std::int64_t end_epoch, const data::Position& from);
  BatchWalk(BatchWalk&&) noexcept;
  ~BatchWalk();
  const Batch* next();  // nullptr at the end; the batch stays until the next call
  // Where a walk goes on after the batch at hand, however many were made ahead.
  const data::Position& position() const { return position_; }

 private:
  class Maker;
  class Ahead;
  std::unique_ptr<Maker> maker_;
  std::unique_ptr<Ahead> ahead_;
  Batch current_;
  data::Position position_;
  std::int64_t batches_;
};

// For range-for. Each begin() is a walk of its own, from the start or the position given.
class BatchRange {
 public:
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return batch_; }
    Iterator& operator++() {
      batch_ = walk_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

   private:
    friend class BatchRange;
    explicit Iterator(std::unique_ptr<BatchWalk> walk);
    std::unique_ptr<BatchWalk> walk_;
    const Batch* batch_;
  };

  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Dataset;
  BatchRange(Dataset data, std::int64_t end_epoch, const data::Position& from);
  Dataset data_;
  std::int64_t end_epoch_;
  data::Position from_;
};

}  // namespace ebb
