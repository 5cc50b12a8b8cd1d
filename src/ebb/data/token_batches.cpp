#include "ebb/data/token_batches.hpp"

#include <algorithm>
#include <utility>

namespace ebb::data {

TokenBatches::TokenBatches(std::int64_t rows, std::vector<std::int64_t> lengths,
                           std::int64_t tokens)
    : rows_(rows),
      bucket_of_row_(static_cast<std::size_t>(rows), "lengths of rows", Category::data) {
  for (const std::int64_t length : lengths)
    buckets_.push_back({length, std::clamp<std::int64_t>(tokens / std::max<std::int64_t>(length, 1),
                                                         1, std::max<std::int64_t>(rows, 1))});
}

void TokenBatches::set_length(std::int64_t row, std::int64_t length) {
  const auto bucket = std::find_if(buckets_.begin(), buckets_.end() - 1,
                                   [&](const Bucket& b) { return length <= b.length; });
  ++bucket->rows;
  bucket_of_row_.data()[row] = static_cast<std::byte>(bucket - buckets_.begin());
}

std::int64_t TokenBatches::batches(bool drop_last) const {
  std::int64_t all = 0;
  for (const Bucket& b : buckets_)
    all += b.rows / b.batch_rows + (!drop_last && b.rows % b.batch_rows != 0);
  return all;
}

std::uint64_t TokenBatches::dealing_bytes() const {
  std::uint64_t rows = 0;
  for (const Bucket& b : buckets_)
    rows += static_cast<std::uint64_t>(std::min(b.batch_rows, b.rows));
  return rows * sizeof(std::uint32_t);
}

TokenBatches::Deal::Deal(const TokenBatches& all)
    : all_(all), waiting_(all.dealing_bytes(), "rows of batches", Category::data) {
  auto* at = reinterpret_cast<std::uint32_t*>(waiting_.data());
  for (const Bucket& b : all.buckets_) {
    begin_.push_back(at);
    at += std::min(b.batch_rows, b.rows);
  }
  start(nullptr);
}

void TokenBatches::Deal::start(const EpochOrder* order) {
  order_ = order;
  at_ = 0;
  emptied_ = 0;
  taken_ = false;
  end_ = begin_;
}

std::span<const std::uint32_t> TokenBatches::Deal::next(bool drop_last) {
  if (std::exchange(taken_, false)) end_[full_] = begin_[full_];
  for (; at_ < all_.rows_; ++at_) {
    const std::uint32_t row = order_ ? (*order_)[at_] : static_cast<std::uint32_t>(at_);
    const std::size_t bucket = all_.bucket_of(row);
    *end_[bucket]++ = row;
    if (end_[bucket] - begin_[bucket] < all_.buckets_[bucket].batch_rows) continue;
    ++at_;
    full_ = bucket;
    taken_ = true;
    return {begin_[bucket], end_[bucket]};
  }
  while (!drop_last && emptied_ < begin_.size()) {
    const std::size_t bucket = emptied_++;
    if (end_[bucket] != begin_[bucket]) return {begin_[bucket], end_[bucket]};
  }
  return {};
}

}  // namespace ebb::data
