// What the memory seam knows: the blocks that are live and those that are kept for reuse, what is promised
// to whom, and the Ledger's sums. One lock is over all of it. Private to base/: memory.cpp takes and gives,
// promises.cpp sets aside, ledger.cpp counts, memory_faults.cpp lets takes fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory_blocks.hpp"
#include "ebb/base/memory/promises.hpp"

namespace ebb::memory {

// What is said of a thread by the scopes that are open on it.
struct ThisThread {
  Scope::Id scope = 0;
  Category category = Category::activations;
  std::uint8_t promise = 0;  // what it takes is drawn from this one
  bool unguarded = false, borrows = false;
};
inline constinit thread_local ThisThread this_thread;

struct Promised {
  const char* who = nullptr;  // null: free
  std::uint64_t bytes = 0, drawn = 0;
  std::uint64_t taken() const { return std::max(bytes, drawn); }
};

struct ScopeEntry {
  std::string path, opened;
  Usage usage;
};

struct State {
  std::mutex lock;
  Block live{};  // sentinel of the list of live blocks
  std::array<Block*, kClasses> kept{};
  std::array<std::uint64_t, kClasses> used_at{};  // tick of the last use of a class
  std::uint64_t tick = 0;
  std::uint64_t kept_bytes = 0, held_bytes = 0, limit = 0, system_calls = 0;
  std::uint64_t process_limit = 0;
  Lender lender;

  std::array<Promised, 64> promises{};     // the first: what the program holds of its own
  std::uint64_t room_from = 0, rooms = 0;  // what it held when it asked for room, and how much

  Usage total;
  std::array<Usage, kCategories> categories{};
  std::array<std::uint64_t, kCategories> at_peak{};
  std::vector<ScopeEntry> scopes{ScopeEntry{}};
  std::map<std::pair<Scope::Id, std::string>, Scope::Id, std::less<>> children;

  std::uint64_t takes = 0, fail_at = 0;
  bool fail_forever = false, failed = false;

  State() {
    live.previous = live.next = &live;
    promises[0].who = "the program's own tensors";
  }

  std::uint64_t taken() const {
    std::uint64_t sum = 0;
    for (const Promised& p : promises) sum += p.taken();
    return sum;
  }
  void enter(Block* block);  // it is live from here on
  void leave(Block* block);
  // What the program held when it asked for room, and holds no longer, is set aside no longer.
  void less_of_its_own(std::uint64_t charge);
};

// Throws OutOfMemory: who asked (`site`), who holds what, and `by`, what stands in the way.
[[noreturn]] void refuse(State& s, std::size_t bytes, const char* site, const char* by);

inline State& state() {
  static State* s = new State;  // outlives every tensor, statics included
  return *s;
}

// With the lock held.
std::vector<Holding> holdings_locked(const State& s, std::size_t most);
std::string readable(std::uint64_t bytes);  // "1.5 MiB"

inline void State::enter(Block* block) {
  block->previous = live.previous;
  block->next = &live;
  block->previous->next = block;
  live.previous = block;
  promises[block->promise].drawn += block->charge;
  Usage& scope = scopes[block->scope].usage;
  scope.live += block->bytes;
  scope.peak = std::max(scope.peak, scope.live);
  Usage& category = categories[static_cast<int>(block->category)];
  category.live += block->bytes;
  category.peak = std::max(category.peak, category.live);
  total.live += block->bytes;
  if (total.live > total.peak) {
    total.peak = total.live;
    for (int c = 0; c < kCategories; ++c) at_peak[c] = categories[c].live;
  }
}

inline void State::less_of_its_own(std::uint64_t charge) {
  if (rooms == 0 || promises[0].drawn >= room_from) return;
  room_from -= std::min(room_from - promises[0].drawn, charge);
  promises[0].bytes = room_from + rooms;
}

inline void State::leave(Block* block) {
  block->previous->next = block->next;
  block->next->previous = block->previous;
  promises[block->promise].drawn -= block->charge;
  if (block->promise == 0) less_of_its_own(block->charge);
  scopes[block->scope].usage.live -= block->bytes;
  categories[static_cast<int>(block->category)].live -= block->bytes;
  total.live -= block->bytes;
}

}  // namespace ebb::memory
