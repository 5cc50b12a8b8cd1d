// The one seam for memory: every buffer is taken here and entered in the Ledger.
//
// Freed buffers are kept for reuse, so that a loop in steady state asks the system for nothing;
// what is kept never exceeds a quarter of the peak (plus 16 MiB) beyond it, counts against the
// limit, and is given back before a request is refused.
//
// The seam is also the guard: with a limit, nothing is taken that would go above it, and nothing that
// was promised to one is given to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ebb/base/ledger.hpp"

namespace ebb::memory {

inline constexpr std::size_t kAlignment = 64;
constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}
constexpr std::uint64_t aligned(std::uint64_t bytes) { return round_up(bytes, kAlignment); }

// `site` names the creator; a string literal. Throws OutOfMemory and changes nothing.
void* take(std::size_t bytes, const char* site, Category category = CategoryScope::current());
// Whole pages of its own, from a page's start on and given back when given: an arena's.
void* take_pages(std::size_t bytes, const char* site, Category category = CategoryScope::current());
void give(void* bytes) noexcept;
void retag(void* bytes, Category category) noexcept;

void set_limit(std::uint64_t bytes);  // 0: none. On live bytes and those kept for reuse together
std::uint64_t limit();
// What the whole process may hold, as the system counts it; 0: no limit. Looked at when much is asked
// of the system, so that what the program holds beside the seam is seen.
void set_process_limit(std::uint64_t bytes);
std::uint64_t held();          // taken from the system: live, kept for reuse, and block headers
std::uint64_t system_calls();  // times the system was asked for memory so far
void trim();                   // give what is kept for reuse back to the system

// What a buffer of so many bytes adds to the process: with its header, in whole pages where it is
// mapped. A limit, and what is held, count this.
std::uint64_t charge_of(std::size_t bytes);

// Bytes set aside for what is taken later: while it lives, nobody else is given them. What is drawn
// from it counts to it; more than was promised may be drawn where there is room.
//
//   memory::Promise arena("the arena of compiled steps");
//   arena.set(12 << 20);
//   { memory::Drawing from(arena); data = memory::take_pages(12 << 20, "arena"); }
class Promise {
 public:
  explicit Promise(const char* who);  // a string literal
  ~Promise();
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  void set(std::uint64_t bytes) noexcept;
  std::uint64_t bytes() const;
  std::uint64_t drawn() const;

  // What is taken by all others: promised to them or drawn by them, whichever is more.
  std::uint64_t beside() const;

 private:
  friend class Drawing;
  friend void draw(void*, const Promise*) noexcept;
  std::uint8_t id_;
};

// What this thread takes while this lives is drawn from the promise.
class Drawing {
 public:
  explicit Drawing(const Promise& from) : Drawing(&from) {}
  explicit Drawing(const Promise* from);  // null: as before
  ~Drawing();
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

 private:
  std::uint8_t before_;
};

// While it lives, this thread may take what it needs: whoever plans decides what is promised, and gives
// back what he took.
class Planning {
 public:
  Planning();
  ~Planning();
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

 private:
  bool before_;
};

// What this thread takes while this lives may come out of what is promised to others and not drawn: for
// buffers that are gone again before anybody asks, such as those of saving between two steps. Whoever
// holds memory only to have it at hand gives it back first.
class Borrowing {
 public:
  Borrowing();
  ~Borrowing();
  Borrowing(const Borrowing&) = delete;
  Borrowing& operator=(const Borrowing&) = delete;

 private:
  bool before_;
};
void on_borrowing(void (*give_back)());  // who holds memory to have it at hand

// Counts a buffer that is there to this promise from now on; null: to the program's own.
void draw(void* bytes, const Promise* promise) noexcept;

// What the program holds of its own: all that is drawn from no promise.
std::uint64_t own();

// Room that the program will want for tensors of its own, beside what it holds now: set aside for as
// long as this lives.
class Room {
 public:
  explicit Room(std::uint64_t bytes);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  std::uint64_t bytes_;
};

// Fails the nth take from now (1 is the next), once or from then on, as if the system had refused.
class FailTake {
 public:
  explicit FailTake(std::uint64_t nth, bool forever = false);
  ~FailTake();
  FailTake(const FailTake&) = delete;
  FailTake& operator=(const FailTake&) = delete;
  static std::uint64_t takes();  // takes so far, to know how far to count
  bool fired() const;
};

class Buffer;
// So many bytes, or where there is no room for them a half, and so on, but not less than `least`.
Buffer up_to(std::size_t bytes, std::size_t least, const char* site, Category category);

// Owns what it takes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, const char* site, Category category = CategoryScope::current())
      : data_(bytes ? static_cast<std::byte*>(take(bytes, site, category)) : nullptr), size_(bytes) {}
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::byte* const old = std::exchange(data_, std::exchange(other.data_, nullptr));
    size_ = std::exchange(other.size_, 0);
    if (old) give(old);
    return *this;
  }
  ~Buffer() {
    if (data_) give(data_);
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ebb::memory
