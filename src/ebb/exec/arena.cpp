#include "ebb/exec/arena.hpp"

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"

namespace ebb::exec {

std::byte* Arena::at_least(std::uint64_t bytes) {
  if (bytes <= size_) return data_;
  clear();
  const memory::Drawing draws(from_);
  data_ = static_cast<std::byte*>(memory::take_pages(bytes, "arena", Category::activations));
  size_ = bytes;
  return data_;
}

void Arena::clear() {
  if (data_) memory::give(data_);
  data_ = nullptr;
  size_ = 0;
}

// Idle ones that are larger; whether any was. The lock is held.
bool Arenas::clear_those(std::uint64_t above, const Arena* but) {
  bool any = false;
  for (const auto& arena : arenas_) {
    if (arena.get() == but || !arena->try_acquire()) continue;
    any |= arena->size() > above;
    if (arena->size() > above) arena->clear();
    arena->release();
  }
  return any;
}

Arenas::Lease::Lease(Arenas& arenas, Arena* preferred) : all_(arenas), arena_(nullptr) {
  if (preferred && preferred->try_acquire()) {
    arena_ = preferred;
    return;
  }
  const std::lock_guard lock(all_.lock_);
  Arena* found = nullptr;  // the largest that is free
  for (const auto& arena : all_.arenas_) {
    if ((found && arena->size() <= found->size()) || !arena->try_acquire()) continue;
    if (found) found->release();
    found = arena.get();
  }
  if (!found) {
    all_.arenas_.push_back(std::make_unique<Arena>(all_.from_));
    found = all_.arenas_.back().get();
    found->try_acquire();
    all_.count_ = all_.arenas_.size();
  }
  arena_ = found;
}

// Of several that are free, one is enough: the largest. Whoever comes second first counts its arena and
// then looks whether this one is busy, so that either sees the other.
Arenas::Lease::~Lease() {
  arena_->release();
  if (all_.count_ == 1) return;  // and nobody waits
  const std::lock_guard lock(all_.lock_);
  ++all_.freed_count_;
  const Arena* largest = nullptr;
  for (const auto& arena : all_.arenas_)
    if (!arena->busy() && (!largest || arena->size() > largest->size())) largest = arena.get();
  all_.clear_those(0, largest);
  if (all_.waiting_) all_.freed_.notify_all();
}

bool Arenas::Lease::wait_for_another() {
  std::unique_lock lock(all_.lock_);
  if (all_.clear_those(0, nullptr)) return true;
  // Not for those who wait themselves; what it gives up may be what one of them waits for.
  int running = -1 - all_.waiting_;  // without this one
  for (const auto& arena : all_.arenas_) running += arena->busy();
  if (arena_->size() > 0) {
    arena_->clear();
    ++all_.freed_count_;
    all_.freed_.notify_all();
  }
  if (running <= 0) return false;
  ++all_.waiting_;
  all_.freed_.wait(lock, [&, before = all_.freed_count_] { return all_.freed_count_ != before; });
  --all_.waiting_;
  return true;
}

std::byte* Arenas::Lease::fit(std::uint64_t bytes, std::uint64_t most) {
  if (arena_->size() > std::max(bytes, most)) arena_->clear();
  for (;;) {
    try {
      return arena_->at_least(bytes);
    } catch (const OutOfMemory&) {
      if (!wait_for_another()) throw;
    }
  }
}

void Arenas::clear_idle(std::uint64_t above) {
  const std::lock_guard lock(lock_);
  clear_those(above, nullptr);
}

}  // namespace ebb::exec
