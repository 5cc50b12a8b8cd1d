#include "ebb/dist/post.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>

#include "ebb/base/error.hpp"

namespace ebb::dist {
namespace {

constexpr int kSpins = 100;  // of who waits, before it sleeps

}  // namespace

Message Message::to(const Address& address, std::span<const std::byte> bytes) {
  return {Direction::send, address, {const_cast<std::byte*>(bytes.data()), bytes.size()}};
}

Message::~Message() {
  if (post_ && state_.load() == State::under_way) post_->cancel(*this);
}

Post::Post(const Open& open, double most_seconds, const std::function<void()>& late)
    : thread_([this, open] { run(open); }) {
  wait_until(most_seconds, late, [&] { return opened_ || failure_; });
  if (opened_) return;
  thread_.join();
  std::rethrow_exception(failure_);
}

Post::~Post() {
  {
    const std::lock_guard lock(lock_);
    if (!failure_) failure_ = std::make_exception_ptr(Error("dist: the world has ended"));
    ending_ = true;
    asked_ = true;
  }
  work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Post::wait_until(double most_seconds, const std::function<void()>& late,
                      const std::function<bool()>& reached) {
  std::unique_lock lock(lock_);
  if (news_.wait_for(lock, std::chrono::duration<double>(most_seconds), reached)) return;
  lock.unlock();
  if (late) late();
  lock.lock();
  news_.wait(lock, reached);
}

void Post::set_turn(Turn turn) {
  const std::lock_guard lock(lock_);
  turn_ = turn ? std::make_shared<const Turn>(std::move(turn)) : nullptr;
  asked_ = true;
  work_.notify_one();
}

void Post::start(Message& message) {
  if (message.state_.load() == Message::State::under_way)
    throw Error("dist: a message is started that is under way; wait for it first");
  const Address& a = message.address_;
  if (a.peer < 0 || a.peer >= size_ || a.tag < 0 || a.tag > kLargestTag ||
      message.bytes_.size() > kLargestMessage)
    throw Error(fmt::format(
        "dist: a message of {} bytes, rank {} of {}, tag {}; expected at most {} bytes, a "
        "rank that there is, a tag from 0 to {}",
        message.bytes_.size(), a.peer, size_, a.tag, kLargestMessage, kLargestTag));
  message.record_ = a.channel == Channel::data ? timeline::messages() : nullptr;
  if (message.record_)
    message.event_ = {.begin = timeline::nanoseconds_now(),
                      .scope = timeline::about,
                      .step = timeline::step(),
                      .peer = a.peer,
                      .tag = a.tag,
                      .kind = message.direction_ == Message::Direction::send
                                  ? timeline::Kind::send
                                  : timeline::Kind::receive};
  {
    const std::lock_guard lock(lock_);
    if (failure_) std::rethrow_exception(failure_);
    message.post_ = this;
    message.next_ = nullptr;
    message.failure_ = nullptr;
    message.stuck_since_ = 0;
    message.cancelled_ = false;
    message.state_ = Message::State::under_way;
    (last_new_ ? last_new_->next_ : first_new_) = &message;
    last_new_ = &message;
    asked_ = true;
  }
  work_.notify_one();
}

void Post::rethrow(const Message& message) const {
  if (message.failure_) std::rethrow_exception(message.failure_);
  const std::lock_guard lock(lock_);
  std::rethrow_exception(failure_);
}

bool Post::over(const Message& message) const {
  const auto state = message.state_.load(std::memory_order_acquire);
  if (state == Message::State::failed) rethrow(message);
  return state == Message::State::over;
}

void Post::wait(Message& message) {
  const auto under_way = [&] {
    return message.state_.load(std::memory_order_acquire) == Message::State::under_way;
  };
  for (int i = 0; i < kSpins && under_way(); ++i) sched_yield();
  if (under_way()) {
    ++waiters_;
    std::unique_lock lock(lock_);
    news_.wait(lock, [&] { return !under_way(); });
    --waiters_;
  }
  if (message.state_.load() == Message::State::failed) rethrow(message);
}

void Post::cancel(Message& message) {
  std::unique_lock lock(lock_);
  message.cancelled_ = true;
  asked_ = true;
  work_.notify_one();
  ++waiters_;
  news_.wait(lock, [&] { return message.state_.load() != Message::State::under_way; });
  --waiters_;
}

void Post::fail(const std::exception_ptr& why) {
  const std::lock_guard lock(lock_);
  if (!failure_) failure_ = why;
  asked_ = true;
  work_.notify_one();
}

void Post::close(double most_seconds, const std::function<void()>& late) {
  {
    const std::lock_guard lock(lock_);
    closing_ = true;
    asked_ = true;
  }
  work_.notify_one();
  wait_until(most_seconds, late, [&] { return closed_; });
}

}  // namespace ebb::dist
