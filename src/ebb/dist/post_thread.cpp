// What the post's thread does.
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "ebb/dist/post.hpp"

namespace ebb::dist {
namespace {

using namespace std::chrono_literals;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Without news the thread yields for so long, then sleeps: a message whose peer still computes may take a
// while, and the core is wanted for computing.
constexpr double kYielding = 2e-3, kNapping = 20e-3;
constexpr std::chrono::microseconds kNap = 20us, kLongNap = 200us, kIdle = 5ms;
// A peer that cannot be reached is named by the watch, which needs so long at most; then the message itself
// says what it knows.
constexpr double kStuck = 8;

}  // namespace

void Post::finish(Message& message, Message::State state) {
  if (message.record_ &&
      state == Message::State::over) {  // before anybody can know that it is over
    message.event_.end = timeline::nanoseconds_now();
    message.event_.bytes = static_cast<std::uint32_t>(message.moved_);
    message.record_->add(message.event_);
  }
  {
    const std::lock_guard lock(lock_);  // so that who is about to sleep sees it
    message.state_.store(state, std::memory_order_release);
  }
  news_.notify_all();
}

// What cannot be moved waits for the watch to say why.
void Post::stick(Message& message, double now) {
  message.failure_ = std::current_exception();
  message.stuck_since_ = now;
}

void Post::begin(Message& message, double now) {
  try {
    message.request_ = message.direction_ == Message::Direction::send
                           ? transport_->send(message.address_, message.bytes_)
                           : transport_->receive(message.address_, message.bytes_);
  } catch (const Error&) {
    stick(message, now);
  }
}

bool Post::move(Message& message, double now) {
  if (message.stuck_since_ != 0) {
    if (!message.cancelled_ && now - message.stuck_since_ < kStuck) return false;
    finish(message, Message::State::failed);
    return true;
  }
  try {
    if (const auto bytes = transport_->test(message.request_)) {
      message.moved_ =
          message.direction_ == Message::Direction::send ? message.bytes_.size() : *bytes;
      finish(message, Message::State::over);
      return true;
    }
  } catch (const MessageTooLong&) {
    message.failure_ = std::current_exception();
    finish(message, Message::State::failed);
    return true;
  } catch (const Error&) {
    stick(message, now);
    return false;
  }
  if (!message.cancelled_ || message.direction_ == Message::Direction::send) return false;
  transport_->cancel(message.request_);
  finish(message, Message::State::idle);
  return true;
}

bool Post::poll(double now) {
  bool moved = false;
  for (Message** at = &under_way_; *at;) {
    Message& message = **at;
    Message* const next = message.next_;  // whoever owns it may end it once it is over
    if (move(message, now)) {
      *at = next;
      moved = true;
    } else {
      at = &message.next_;
    }
  }
  return moved;
}

void Post::rest(double quiet_seconds) {
  if (under_way_ && quiet_seconds < kYielding) {
    sched_yield();
    return;
  }
  std::unique_lock lock(lock_);
  work_.wait_for(lock,
                 !under_way_                ? kIdle
                 : quiet_seconds < kNapping ? kNap
                                            : kLongNap,
                 [&] { return asked_.load(); });
}

void Post::run(const Open& open) {
  pthread_setname_np(pthread_self(), "ebb-post");
  sigset_t all;
  sigfillset(&all);  // signals are the program's, also in threads that a library starts from here
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  prctl(PR_SET_TIMERSLACK, 1000);
  try {
    transport_ = open();
    rank_ = transport_->rank();
    size_ = transport_->size();
    host_ = transport_->host();
  } catch (...) {
    const std::lock_guard lock(lock_);
    failure_ = std::current_exception();
    news_.notify_all();
    return;
  }
  {
    const std::lock_guard lock(lock_);
    opened_ = true;
    news_.notify_all();
  }
  std::shared_ptr<const Turn> turn;
  bool ending = false, closing = false, failed = false;
  for (double last_news = 0; !ending; ++turns_) {
    const double now = seconds_now();
    if (asked_.exchange(false)) {
      Message* fresh = nullptr;
      {
        const std::lock_guard lock(lock_);
        fresh = std::exchange(first_new_, nullptr);
        last_new_ = nullptr;
        turn = turn_;
        ending = ending_;
        closing = closing_;
        failed = failure_ != nullptr;
      }
      Message** end = &under_way_;
      while (*end) end = &(*end)->next_;
      *end = fresh;
      for (Message* m = fresh; m; m = m->next_) begin(*m, now);
      last_news = now;
    }
    if (poll(now)) last_news = now;
    if (failed) abandon();
    if (turn) (*turn)(*transport_, now);
    if (closing && !closed_) leave();
    if (!ending) rest(now - last_news);
  }
  abandon();
}

// Nothing of this will come to an end.
void Post::abandon() {
  for (Message* m = std::exchange(under_way_, nullptr); m;) {
    Message& message = *m;
    m = m->next_;
    if (message.stuck_since_ == 0 && message.direction_ == Message::Direction::receive)
      transport_->cancel(message.request_);
    message.failure_ = nullptr;
    finish(message, Message::State::failed);
  }
}

void Post::leave() {
  try {
    transport_->close();
  } catch (const Error&) {  // the work is done, and there is nobody to tell
  }
  const std::lock_guard lock(lock_);
  closed_ = true;
  news_.notify_all();
}

}  // namespace ebb::dist
