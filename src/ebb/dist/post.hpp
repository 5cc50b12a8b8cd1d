// The one thread that makes all calls of a transport: it starts messages, asks how they are, and watches.
//
// Open MPI goes on with a message only while somebody calls it. So messages move beside computing because
// this thread polls: it yields while there is something to do, and sleeps shortly, then longer, when not.
//
//   dist::Message out(dist::Message::Direction::send, {.peer = 1, .channel = Channel::data}, bytes);
//   post.start(out);
//   …                                     // compute; the bytes stay as they are
//   post.wait(out);                       // RankLost where the peer is lost
//   post.start(out);                      // the same once more; nothing is allocated
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "ebb/base/messages/transport.hpp"
#include "ebb/base/timeline.hpp"

namespace ebb::dist {

class Post;

// A message that is sent or received, once or many times. Owned by whoever uses it.
class Message {
 public:
  enum class Direction : std::uint8_t { send, receive };
  Message(Direction direction, const Address& address, std::span<std::byte> bytes)
      : direction_(direction), address_(address), bytes_(bytes) {}
  static Message to(const Address& address, std::span<const std::byte> bytes);  // only read
  static Message from(const Address& address, std::span<std::byte> bytes) {
    return {Direction::receive, address, bytes};
  }
  Message(const Message&) = delete;  // while it is under way, the post knows where it is
  Message& operator=(const Message&) = delete;
  ~Message();  // cancelled, or waited for, where it is under way

  std::size_t moved() const { return moved_; }  // bytes that came, or were sent, when it is over
  Scope::Id about() const { return event_.scope; }  // where messages are recorded

 private:
  friend class Post;
  enum class State : std::uint8_t { idle, under_way, over, failed };

  Direction direction_;
  Address address_;
  std::span<std::byte> bytes_;
  std::size_t moved_ = 0;
  std::atomic<State> state_{State::idle};
  std::atomic<bool> cancelled_{false};
  Post* post_ = nullptr;
  // Of the post's thread.
  Transport::Request request_ = 0;
  double stuck_since_ = 0;  // 0: not
  timeline::Track* record_ = nullptr;
  timeline::Event event_;
  std::exception_ptr failure_;
  Message* next_ = nullptr;
};

class Post {
 public:
  // What else its thread does, at least every 10 ms: seconds of a clock that never goes back.
  using Turn = std::function<void(Transport& transport, double now)>;
  using Open = std::function<std::unique_ptr<Transport>()>;

  // Opens the transport on its thread; what that throws comes out here. `late` is called, once and on the
  // calling thread, where it is not open after so many seconds.
  Post(const Open& open, double most_seconds, const std::function<void()>& late);
  ~Post();  // ends the thread; the transport is not closed by that
  Post(const Post&) = delete;
  Post& operator=(const Post&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& host() const { return host_; }

  void set_turn(Turn turn);  // from now on

  void start(Message& message);             // not while it is under way
  bool over(const Message& message) const;  // RankLost where it never will be
  void wait(Message& message);              // until it is over; likewise
  void cancel(Message& message);  // of a receive; returns when the bytes are the caller's again
  std::uint64_t turns() const {
    return turns_.load();
  }  // of its thread: many a second, unless it hangs
  bool waited_for() const { return waiters_.load() > 0; }  // somebody is in wait()

  // What is under way, and all that is started later, fails with this: what wait() throws. By any thread.
  void fail(const std::exception_ptr& why);
  // The orderly end of the transport, by its thread; `late` as above.
  void close(double most_seconds, const std::function<void()>& late);

 private:
  void run(const Open& open);
  void begin(Message& message, double now);
  bool move(Message& message, double now);  // whether it is over, or given up
  bool poll(double now);                    // whether anything has moved
  void finish(Message& message, Message::State state);
  void stick(Message& message, double now);  // in a handler
  void rest(double quiet_seconds);
  void abandon();
  void leave();
  [[noreturn]] void rethrow(const Message& message) const;
  void wait_until(double most_seconds, const std::function<void()>& late,
                  const std::function<bool()>& reached);

  std::unique_ptr<Transport> transport_;
  int rank_ = 0, size_ = 1;
  std::string host_;

  mutable std::mutex lock_;
  std::condition_variable work_, news_;
  Message *first_new_ = nullptr, *last_new_ = nullptr;  // started, and not yet seen by the thread
  bool ending_ = false, closing_ = false, opened_ = false, closed_ = false;
  std::exception_ptr failure_;  // of all that is under way; or of opening
  std::shared_ptr<const Turn> turn_;
  std::atomic<bool> asked_{false};  // there is something new for the thread
  std::atomic<int> waiters_{0};
  std::atomic<std::uint64_t> turns_{0};

  Message* under_way_ = nullptr;  // of the thread
  std::thread thread_;            // last: it uses all of the above
};

}  // namespace ebb::dist
