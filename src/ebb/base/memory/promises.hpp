// Who may take what of a limit: bytes that are set aside before they are taken, and the exceptions from
// that. memory.hpp gives nothing out that is promised to somebody else.
#pragma once

#include <cstdint>

namespace ebb::memory {

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
class Unguarded {
 public:
  Unguarded();
  ~Unguarded();
  Unguarded(const Unguarded&) = delete;
  Unguarded& operator=(const Unguarded&) = delete;

 private:
  bool before_;
};

// What this thread takes while this lives may come out of what is promised to others and not drawn: for
// buffers that are gone again before anybody asks, such as those of saving between two steps. Under a limit,
// whoever is lent from gives back what he holds only to have it at hand, and asks for nothing until this ends.
class Borrowing {
 public:
  Borrowing();
  ~Borrowing();
  Borrowing(const Borrowing&) = delete;
  Borrowing& operator=(const Borrowing&) = delete;

 private:
  bool before_;
  void (*end_)() = nullptr;
};
// Who is lent from. Both are called on the thread that borrows.
struct Lender {
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};
void set_lender(const Lender& lender);

// Counts a buffer that is there to this promise from now on; null: to the program's own.
void draw(void* bytes, const Promise* promise) noexcept;

// What the program holds of its own: all that is drawn from no promise.
std::uint64_t own();

// Room that the program will want for tensors of its own, beside what it holds now: set aside for as
// long as this lives. Throws OutOfMemory where a budget has promised it to others already.
class Room {
 public:
  explicit Room(std::uint64_t bytes);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  std::uint64_t bytes_;
};

}  // namespace ebb::memory
