#include "ebb/exec/arena.hpp"

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/memory.hpp"

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

Arenas::Place& Arenas::place_of(const Arena* arena) {
  return *std::find_if(places_.begin(), places_.end(),
                       [&](const Place& p) { return p.arena.get() == arena; });
}

Arenas::Lease::Lease(Arenas& arenas, const Arena* preferred) : all_(arenas), arena_(nullptr) {
  const std::lock_guard lock(all_.lock_);
  Place* found = nullptr;
  for (Place& p : all_.places_) {
    if (p.busy) continue;
    if (p.arena.get() == preferred || !found ||
        (found->arena.get() != preferred && p.arena->size() > found->arena->size()))
      found = &p;
  }
  if (!found) {
    all_.places_.push_back({std::make_unique<Arena>(all_.from_)});
    found = &all_.places_.back();
  }
  found->busy = true;
  arena_ = found->arena.get();
}

// Of several that are free, one is enough: the largest.
Arenas::Lease::~Lease() {
  const std::lock_guard lock(all_.lock_);
  all_.place_of(arena_).busy = false;
  if (all_.places_.size() == 1) return;  // and nobody waits
  ++all_.freed_count_;
  Arena* largest = nullptr;
  for (const Place& p : all_.places_)
    if (!p.busy && (!largest || p.arena->size() > largest->size())) largest = p.arena.get();
  for (Place& p : all_.places_)
    if (!p.busy && p.arena.get() != largest) p.arena->clear();
  if (all_.waiting_) all_.freed_.notify_all();
}

bool Arenas::Lease::wait_for_another() {
  std::unique_lock lock(all_.lock_);
  bool given_back = false;
  for (Place& p : all_.places_)
    if (!p.busy && p.arena->size() > 0) p.arena->clear(), given_back = true;
  if (given_back) return true;
  // Not for those who wait themselves; what it gives up may be what one of them waits for.
  int running = -1 - all_.waiting_;  // without this one
  for (const Place& p : all_.places_) running += p.busy;
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
  for (Place& p : places_)
    if (!p.busy && p.arena->size() > above) p.arena->clear();
}

}  // namespace ebb::exec
