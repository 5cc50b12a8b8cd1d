// How batches come one after the other, and the thread that works ahead.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "ebb/base/memory/memory.hpp"
#include "ebb/data/dataset_parts.hpp"
#include "ebb/data/epoch_order.hpp"

namespace ebb {

// Makes the batches of some epochs in turn.
class BatchWalk::Maker {
 public:
  Maker(Dataset data, const data::Position& from, std::int64_t end_epoch)
      : data_(std::move(data)), epoch_(from.epoch), end_epoch_(end_epoch), index_(from.batch) {
    if (data_.batches() == 0) epoch_ = end_epoch_;
    if (data_.seed_) order_.emplace(data_.size(), *data_.seed_);
  }

  bool make(Batch& to) {
    // Where nobody has declared them, as with a spec of the program's own, they are tensors of the program's.
    const memory::Drawing draws(data::promise().bytes() > 0 ? &data::promise() : nullptr);
    if (index_ == data_.batches()) {
      index_ = 0;
      ++epoch_;
    }
    if (epoch_ >= end_epoch_) return false;
    if (order_) order_->start(epoch_);
    if (data_.tokens_) {
      const auto rows = dealt();
      to = deal(rows.data(), 0, static_cast<std::int64_t>(rows.size()));
    } else {
      const std::int64_t begin = index_ * data_.batch_rows_;
      const std::int64_t end = std::min(begin + data_.batch_rows_, data_.size());
      if (order_ && !order_->listed())
        to = deal(part(begin, end), 0, end - begin);
      else
        to = deal(order_ ? order_->list() : nullptr, begin, end);
    }
    ++index_;
    return true;
  }

 private:
  Batch deal(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const {
    return Dataset::Gather(data_).dealt(order, begin, end);
  }

  // Of an order that has no list.
  const std::uint32_t* part(std::int64_t begin, std::int64_t end) {
    if (!part_.data())
      part_ = memory::Buffer(static_cast<std::size_t>(std::min(data_.batch_rows_, data_.size())) *
                                 sizeof(std::uint32_t),
                             "shuffle", Category::data);
    auto* const rows = reinterpret_cast<std::uint32_t*>(part_.data());
    for (std::int64_t i = begin; i < end; ++i) rows[i - begin] = (*order_)[i];
    return rows;
  }

  // Batch `index_` of batches by tokens. Nothing of those before it is read: rows are dealt by their
  // lengths, which are known.
  std::span<const std::uint32_t> dealt() {
    if (!deal_) deal_.emplace(Dataset::Gather(data_).token_batches());
    if (dealt_epoch_ != epoch_) {
      deal_->start(order_ ? &*order_ : nullptr);
      dealt_epoch_ = epoch_;
      for (std::int64_t i = 0; i < index_; ++i) deal_->next(data_.drop_last_);
    }
    return deal_->next(data_.drop_last_);
  }

  Dataset data_;
  std::int64_t epoch_, end_epoch_, index_, dealt_epoch_ = -1;
  std::optional<data::EpochOrder> order_;  // none: as the rows lie
  memory::Buffer part_;
  std::optional<data::TokenBatches::Deal> deal_;
};

// Runs a Maker in a thread, at most so many batches ahead of who takes them. One is begun only
// where there is room for it: those that wait and the one in the making are never more than `most`.
class BatchWalk::Ahead {
 public:
  Ahead(Maker& maker, std::size_t most) : maker_(maker), most_(most), thread_([this] { run(); }) {}
  ~Ahead() {
    {
      std::lock_guard lock(lock_);
      stopped_ = true;
    }
    room_.notify_one();
    thread_.join();
  }

  bool take(Batch& to) {
    std::unique_lock lock(lock_);
    filled_.wait(lock, [&] { return !ready_.empty() || done_; });
    if (!ready_.empty()) {
      to = std::move(ready_.front());
      ready_.pop_front();
      lock.unlock();
      room_.notify_one();
      return true;
    }
    if (failure_) std::rethrow_exception(failure_);
    return false;
  }

 private:
  void run() {
    std::exception_ptr failure;
    try {
      for (;;) {
        {
          std::unique_lock lock(lock_);
          room_.wait(lock, [&] { return ready_.size() < most_ || stopped_; });
          if (stopped_) return;
        }
        Batch batch;
        if (!maker_.make(batch)) break;
        std::lock_guard lock(lock_);
        ready_.push_back(std::move(batch));
        filled_.notify_one();
      }
    } catch (...) {
      failure = std::current_exception();
    }
    std::lock_guard lock(lock_);
    failure_ = failure;
    done_ = true;
    filled_.notify_one();
  }

  Maker& maker_;
  const std::size_t most_;
  std::mutex lock_;
  std::condition_variable filled_, room_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  bool done_ = false, stopped_ = false;
  std::thread thread_;  // last: it uses all of the above
};

BatchWalk::BatchWalk(Dataset data, std::int64_t end_epoch, const data::Position& from)
    : position_(data.start()), batches_(data.batches()) {
  check_fits(from, position_, batches_);
  position_.epoch = from.epoch;
  position_.batch = from.batch;
  const int ahead = data.ahead_;
  maker_ = std::make_unique<Maker>(std::move(data), from, end_epoch);
  if (ahead == 0) return;
  try {
    ahead_ = std::make_unique<Ahead>(*maker_, static_cast<std::size_t>(ahead));
  } catch (const std::system_error&) {
    // The system allows no more threads: batches are made when they are asked for.
  }
}

BatchWalk::BatchWalk(BatchWalk&&) noexcept = default;
BatchWalk::~BatchWalk() = default;

const Batch* BatchWalk::next() {
  current_ = Batch();  // its memory is there for the next one
  const bool more = ahead_ ? ahead_->take(current_) : maker_->make(current_);
  if (!more) return nullptr;
  if (++position_.batch == batches_) {
    position_.batch = 0;
    ++position_.epoch;
  }
  return &current_;
}

}  // namespace ebb
