#include "ebb/base/memory/promises.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory_state.hpp"

namespace ebb::memory {

Promise::Promise(const char* who) : id_(0) {
  State& s = state();
  std::unique_lock lock(s.lock);
  for (std::size_t i = 1; i < s.promises.size() && id_ == 0; ++i)
    if (!s.promises[i].who) id_ = static_cast<std::uint8_t>(i);
  if (id_ == 0) lock.unlock();  // an Error asks where it is
  if (id_ == 0)
    throw Error(fmt::format("memory: there are {} promises, and no more can be made",
                            s.promises.size() - 1));
  s.promises[id_] = {who, 0, 0};
}

Promise::~Promise() {
  State& s = state();
  std::lock_guard lock(s.lock);
  for (Block* b = s.live.next; b != &s.live; b = b->next)
    if (b->promise == id_) b->promise = 0, s.promises[0].drawn += b->charge;
  s.promises[id_] = {};
}

void Promise::set(std::uint64_t bytes) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.promises[id_].bytes = bytes;
}

std::uint64_t Promise::bytes() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.promises[id_].bytes;
}

std::uint64_t Promise::drawn() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.promises[id_].drawn;
}

std::uint64_t Promise::beside() const {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.taken() - s.promises[id_].taken();
}

Drawing::Drawing(const Promise* from)
    : before_(std::exchange(this_thread.promise, from ? from->id_ : this_thread.promise)) {}
Drawing::~Drawing() { this_thread.promise = before_; }

Unguarded::Unguarded() : before_(std::exchange(this_thread.unguarded, true)) {}
Unguarded::~Unguarded() { this_thread.unguarded = before_; }

Borrowing::Borrowing() : before_(std::exchange(this_thread.borrows, true)) {
  Lender lender;
  {
    State& s = state();
    std::lock_guard lock(s.lock);
    if (s.limit && !before_) lender = s.lender;
  }
  if (lender.begin) lender.begin();
  end_ = lender.end;
}
Borrowing::~Borrowing() {
  this_thread.borrows = before_;
  if (end_) end_();
}

void set_lender(const Lender& lender) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.lender = lender;
}

void draw(void* bytes, const Promise* promise) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  Block* const block = static_cast<Block*>(bytes) - 1;
  s.promises[block->promise].drawn -= block->charge;
  if (block->promise == 0 && promise) s.less_of_its_own(block->charge);
  block->promise = promise ? promise->id_ : 0;
  s.promises[block->promise].drawn += block->charge;
}

std::uint64_t own() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.promises[0].taken();
}

Room::Room(std::uint64_t bytes) : bytes_(bytes) {
  State& s = state();
  std::lock_guard lock(s.lock);
  const std::uint64_t from = std::max(s.room_from, s.promises[0].drawn);
  const std::uint64_t own = s.promises[0].taken(), wanted = std::max(own, from + s.rooms + bytes);
  if (s.limit && !this_thread.unguarded && s.taken() - own + wanted > s.limit)
    refuse(s, bytes, "a Room", "");
  s.room_from = from;
  s.rooms += bytes;
  s.promises[0].bytes = s.room_from + s.rooms;
}

Room::~Room() {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.rooms -= bytes_;
  if (s.rooms == 0) s.room_from = 0;
  s.promises[0].bytes = s.room_from + s.rooms;
}

}  // namespace ebb::memory
