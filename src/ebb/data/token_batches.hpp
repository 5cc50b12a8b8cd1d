// Batches of about so many tokens: lists of like length together, so that little of a batch is padding.
//
// Each row belongs to a bucket by its length. Rows are dealt in their order to buckets, and one that is full
// becomes a batch; at the end of an epoch those that are not are batches, too. How many batches an epoch has
// does not depend on the order of its rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/base/memory/memory.hpp"
#include "ebb/data/epoch_order.hpp"

namespace ebb::data {

class TokenBatches {
 public:
  struct Bucket {
    std::int64_t length, batch_rows;  // lists up to this; so many rows are a batch
    std::int64_t rows = 0;            // there are
  };

  // Lists of no more than the last of `lengths`; a list longer than all `tokens` is a batch of its own.
  TokenBatches(std::int64_t rows, std::vector<std::int64_t> lengths, std::int64_t tokens);
  void set_length(std::int64_t row, std::int64_t length);  // of every row, once

  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::int64_t batches(bool drop_last) const;
  std::uint64_t dealing_bytes() const;  // what Deal takes

  // The batches of one epoch, in order.
  class Deal {
   public:
    explicit Deal(const TokenBatches& all);
    // Starts again with the rows in this order; null: their own.
    void start(const EpochOrder* order);
    // Rows of the next batch, good until the next call; none at the end.
    std::span<const std::uint32_t> next(bool drop_last);

   private:
    const TokenBatches& all_;
    memory::Buffer waiting_;  // rows of all buckets
    std::vector<std::uint32_t*> begin_, end_;
    const EpochOrder* order_ = nullptr;
    std::int64_t at_ = 0;
    std::size_t emptied_ = 0, full_ = 0;
    bool taken_ = false;  // bucket `full_` was handed out
  };

 private:
  std::size_t bucket_of(std::int64_t row) const {
    return std::to_integer<std::size_t>(bucket_of_row_.data()[row]);
  }
  std::int64_t rows_;
  std::vector<Bucket> buckets_;
  memory::Buffer bucket_of_row_;  // a byte each
};

}  // namespace ebb::data
