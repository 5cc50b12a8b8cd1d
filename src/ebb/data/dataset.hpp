// Data sets: columns with one first axis, in memory or in files, dealt out in batches.
//
//   auto data = Dataset::of({{"x", x}, {"y", y}}).shuffle(1).batch(32).prefetch(2);
//   for (const Batch& b : data.epochs(3)) step(b["x"], b["y"]);
//
// A Dataset is a value and cheap to copy: the settings below return a changed copy that shares the
// columns, and may be given in any order. Rows are shuffled, never whole batches. A column is a
// Tensor, or rows that stay in their file (source.hpp): the batches are the same.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/data/batch.hpp"
#include "ebb/data/position.hpp"
#include "ebb/data/source.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

struct BatchOptions {
  bool drop_last = false;  // leave out a last batch that is not full
};

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

  // A new order each epoch, the same for the same seed and epoch number on every machine.
  Dataset shuffle(std::uint64_t seed) const;
  Dataset batch(std::int64_t rows, BatchOptions options = {}) const;
  // Up to so many batches are made ahead, by a thread of their own; 0 is none.
  Dataset prefetch(int batches) const;
  // A u8 column that batches hold as f32, each byte times `factor`. Kept, it stays a byte each.
  Dataset scale(std::string_view column, float factor) const;
  Dataset rows(std::int64_t begin, std::int64_t end) const;  // a part: to hold out, to try out

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

  // For those who deal batches out: rows [begin, end) of the given order, or of the columns' own.
  Batch gather(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const;

 private:
  friend class BatchWalk;
  Dataset();
  void check_any(const char* what) const;  // throws where an epoch has no batch
  data::Position start() const;  // of the first batch, with all that a position belongs to
  void read_files(const std::uint32_t* order, std::int64_t first, std::vector<Tensor>& to) const;

  std::shared_ptr<const Names> names_;
  std::vector<data::Source> columns_;
  std::int64_t first_ = 0, size_ = 0;  // the part of the columns' rows
  std::optional<std::uint64_t> seed_;
  std::int64_t batch_rows_ = 0;  // 0: not said yet
  bool drop_last_ = false;
  int ahead_ = 0;
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
