// What this process has done lately, as slices of time on tracks, for a look at it afterwards: calls, waits, messages.
// report/timeline_events makes a file of it.
//
//   timeline::Recording recording;                  // of this thread's work, and of all messages
//   { const timeline::Slice save("save"); … }       // nothing, where nobody records
//   recording.stop();
//
// A track is a ring of fixed length, taken at the memory seam: of a long run the last slices are kept. Where nobody
// records, a slice costs a look at a pointer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>

#include "ebb/base/memory/memory.hpp"

namespace ebb::timeline {

// Of the steady clock.
inline std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

enum class Kind : std::uint8_t {
  work,     // a stretch of the program's: a save, a vote
  step,     // a compiled one
  part,     // a micro-batch of it
  call,     // of an op
  wait,     // for a message, or a transfer
  send,     // a message, until it is gone
  receive,  // a message, until it is here
};

struct Event {
  std::int64_t begin = 0, end = 0;  // nanoseconds_now()
  const char* name = "";            // that outlives the recording
  Scope::Id scope = 0;
  std::uint32_t step = 0;   // of a message: that it was sent in
  std::uint32_t bytes = 0;  // of a message
  std::int32_t peer = -1;   // likewise: the other rank
  std::int32_t tag = -1;
  Kind kind = Kind::work;
};

// The last events of one track. Several threads may add.
class Track {
 public:
  Track(std::size_t events, const char* site);
  void add(const Event& event);

  // When nobody adds any more.
  std::span<Event> events();  // in no order
  // Of what began before this, some is lost; 0: nothing is.
  std::int64_t lost_until() const { return lost_until_; }
  std::uint64_t lost() const { return added_ > capacity_ ? added_ - capacity_ : 0; }

 private:
  memory::Buffer memory_;
  std::size_t capacity_;
  std::uint64_t added_ = 0;
  std::int64_t lost_until_ = 0;
  std::mutex lock_;
};

struct RecordingOptions {
  std::size_t work = 20000, messages = 8000;  // events that are kept
};

// One at a time in a process.
class Recording {
 public:
  using Options = RecordingOptions;
  explicit Recording(Options options = {});
  ~Recording();  // stops
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void stop();
  Track& work() { return work_; }
  Track& messages() { return messages_; }

 private:
  Track work_, messages_;
};

// Where to add; null: nobody records. Work is that of the thread that has begun the recording.
inline thread_local Track* work_of_thread = nullptr;
inline Track* work() { return work_of_thread; }
Track* messages();

// Steps begun so far by the thread whose work is recorded; and what a message is about that is started now.
std::uint32_t step();
void step_begins();
inline thread_local Scope::Id about = 0;

// From here to the end of the scope.
class Slice {
 public:
  explicit Slice(const char* name, Kind kind = Kind::work) : track_(work()) {
    if (track_) event_ = {.begin = nanoseconds_now(), .name = name, .kind = kind};
  }
  ~Slice() {
    if (!track_) return;
    event_.end = nanoseconds_now();
    track_->add(event_);
  }
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;
  Event& event() { return event_; }

 private:
  Track* const track_;
  Event event_;
};

}  // namespace ebb::timeline
