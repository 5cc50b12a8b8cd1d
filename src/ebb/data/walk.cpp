// How batches come one after the other: the order of an epoch, and the thread that works ahead.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "ebb/base/memory.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/data/dataset.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kShuffleStream = 0x73687566666c65;  // apart from all other draws of a seed

// A number below `bound`, from 64 random bits.
std::uint64_t below(std::uint64_t bound, std::uint64_t bits) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide(bits) * bound >> 64);
}

}  // namespace

// Makes the batches of some epochs in turn.
class BatchWalk::Maker {
 public:
  Maker(Dataset data, const data::Position& from, std::int64_t end_epoch)
      : data_(std::move(data)), epoch_(from.epoch), end_epoch_(end_epoch), index_(from.batch) {
    if (data_.batches() == 0) epoch_ = end_epoch_;
  }

  bool make(Batch& to) {
    const memory::Drawing draws(data::promise());
    if (index_ == data_.batches()) {
      index_ = 0;
      ++epoch_;
    }
    if (epoch_ >= end_epoch_) return false;
    if (data_.seed_ && shuffled_epoch_ != epoch_) shuffle();
    const std::int64_t begin = index_ * data_.batch_rows_;
    const std::int64_t end = std::min(begin + data_.batch_rows_, data_.size());
    to = data_.gather(reinterpret_cast<const std::uint32_t*>(order_.data()), begin, end);
    ++index_;
    return true;
  }

 private:
  // Fisher and Yates, each choice a draw keyed by seed and epoch: nothing carries over.
  void shuffle() {
    const auto rows = static_cast<std::size_t>(data_.size());
    if (!order_.data())
      order_ = memory::Buffer(rows * sizeof(std::uint32_t), "shuffle", Category::data);
    auto* order = reinterpret_cast<std::uint32_t*>(order_.data());
    std::iota(order, order + rows, 0u);
    const Key key{*data_.seed_, static_cast<std::uint64_t>(epoch_)};
    for (std::size_t i = rows; i > 1; --i)
      std::swap(order[i - 1], order[below(i, draw64(key, kShuffleStream, i))]);
    shuffled_epoch_ = epoch_;
  }

  Dataset data_;
  std::int64_t epoch_, end_epoch_, index_, shuffled_epoch_ = -1;
  memory::Buffer order_;
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
