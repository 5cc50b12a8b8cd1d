#include "ebb/base/memory/memory.hpp"

#include <fmt/core.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory_state.hpp"
#include "ebb/base/process.hpp"

namespace ebb::memory {
namespace {

constexpr std::uint64_t kSlack = std::uint64_t{16} << 20;

// Gives kept blocks back, the longest unused classes first, until at most `keep` bytes are kept.
void trim_locked(State& s, std::uint64_t keep) {
  while (s.kept_bytes > keep) {
    int oldest = -1;
    for (int c = 0; c < kClasses; ++c)
      if (s.kept[c] && (oldest < 0 || s.used_at[c] < s.used_at[oldest])) oldest = c;
    const std::size_t size = class_size(oldest);
    while (s.kept[oldest] && s.kept_bytes > keep) {
      Block* block = s.kept[oldest];
      s.kept[oldest] = block->next;
      s.kept_bytes -= block->charge;
      s.held_bytes -= block->charge;
      system_give(block, size);
    }
  }
}

std::string limit_of(const State& s) {
  if (s.limit == 0) return "no limit is set";
  if (s.limit == 1 && s.process_limit)  // the runtime's reserve is more (base/runtime.cpp)
    return fmt::format(
        "the budget of {} is less than what code, libraries and stacks take by themselves",
        readable(s.process_limit));
  return fmt::format("the limit is {} ({} bytes)", readable(s.limit), s.limit);
}

}  // namespace

void refuse(State& s, std::size_t bytes, const char* site, const char* by) {
  std::string holders, by_promise;
  for (const Holding& h : holdings_locked(s, 3))
    holders += fmt::format("{}{} in {}{}{} ({})", holders.empty() ? "" : ", ", readable(h.bytes),
                           name(h.category), h.scope.empty() ? "" : " of ", h.scope,
                           h.site.substr(0, h.site.find(' ')));
  if (holders.empty()) holders = "nothing";
  for (std::size_t p = 1; p < s.promises.size(); ++p)
    if (s.promises[p].bytes > s.promises[p].drawn)
      by_promise +=
          fmt::format("{}{} for {}", by_promise.empty() ? "; set aside: " : ", ",
                      readable(s.promises[p].bytes - s.promises[p].drawn), s.promises[p].who);
  throw OutOfMemory(fmt::format(
      "out of memory: {} asked for {} ({} bytes), {} ({} bytes) are held, {}; largest holders: "
      "{}{}; "
      "smaller batches with an Accumulator, checkpoint(fn) or a higher limit would help; where it "
      "is a "
      "tensor of the program's own beside compiled steps, a memory::Room made before compile",
      site, readable(bytes), bytes, readable(s.held_bytes - s.kept_bytes),
      s.held_bytes - s.kept_bytes, limit_of(s) + by, holders, by_promise));
}

namespace {

void check_fault(State& s, std::size_t bytes, const char* site) {
  ++s.takes;
  if (s.fail_at && (s.takes == s.fail_at || (s.fail_forever && s.takes > s.fail_at))) {
    s.failed = true;
    refuse(s, bytes, site, ", and a fault was injected");
  }
  if (bytes > (std::size_t{1} << 46)) refuse(s, bytes, site, "; no machine has that much");
}

// Whether so much more, for this promise, leaves all others theirs; what is kept for reuse goes back
// where the process would hold too much.
void admit(State& s, std::size_t bytes, std::uint64_t charge, std::uint64_t from_system,
           std::uint8_t promise, const char* site) {
  if (!s.limit || this_thread.unguarded) return;
  const Promised& p = s.promises[promise];
  const std::uint64_t more = std::max(p.bytes, p.drawn + charge) - p.taken();
  const std::uint64_t live = s.held_bytes - s.kept_bytes;
  // What was promised is given, as long as it is there.
  const bool promised = this_thread.borrows || more == 0;
  if ((promised ? live + charge : s.taken() + more) > s.limit) refuse(s, bytes, site, "");
  if (s.held_bytes + from_system > s.limit && from_system)
    trim_locked(s, s.limit > live + from_system ? s.limit - live - from_system : 0);
}

constexpr std::uint64_t kMuch = std::uint64_t{1}
                                << 20;  // a request that is worth a look at the system

// From the system, within the limit; what is kept for reuse is given back before it refuses.
template <class Take>
Block* from_system(State& s, std::size_t bytes, std::uint64_t charge, const char* site,
                   Take&& take) {
  admit(s, bytes, charge, charge, this_thread.promise, site);
  if (s.process_limit && !this_thread.unguarded && charge >= kMuch &&
      process::resident() + charge > s.process_limit) {
    trim_locked(s, 0);
    malloc_trim(0);
    const std::uint64_t now = process::resident();
    if (now + charge > s.process_limit)
      refuse(s, bytes, site,
             fmt::format(", of a budget of {}; the process holds {} beside Ebb's tensors",
                         readable(s.process_limit), readable(now - std::min(now, s.held_bytes)))
                 .c_str());
  }
  void* p = take();
  if (!p) {
    trim_locked(s, 0);
    p = take();
  }
  if (!p) refuse(s, bytes, site, ", and the system refused");
  ++s.system_calls;
  s.held_bytes += charge;
  auto* block = static_cast<Block*>(p);
  return block;
}

void* begin(State& s, Block* block, std::size_t bytes, std::size_t charge, const char* site,
            int size_class, Category category) {
  block->bytes = bytes;
  block->charge = charge;
  block->site = site;
  block->scope = this_thread.scope;
  block->size_class = static_cast<std::uint16_t>(size_class);
  block->category = category;
  block->promise = this_thread.promise;
  s.enter(block);
  return block + 1;
}

// A kept block that has more in memory than it is wanted for: where memory is short, the rest leaves.
void shorten(State& s, Block* block, std::size_t bytes, std::size_t size) {
  const std::size_t wanted = in_pages(bytes + sizeof(Block));
  if (!s.limit || size < kMapped || block->charge <= wanted) return;
  madvise(reinterpret_cast<std::byte*>(block) + wanted, size - wanted, MADV_DONTNEED);
  s.held_bytes -= block->charge - wanted;
  s.kept_bytes -= block->charge - wanted;
  block->charge = wanted;
}

}  // namespace

std::uint64_t charge_of(std::size_t bytes) {
  return charge_in_class(class_of(bytes + sizeof(Block)), bytes);
}

void* take(std::size_t bytes, const char* site, Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  check_fault(s, bytes, site);
  const int exact = class_of(bytes + sizeof(Block));
  int c = exact;
  // A block up to a quarter larger serves as well, rather than asking the system; not where every
  // byte counts.
  const int end = s.limit ? exact + 1 : std::min(exact + 3, kClasses);
  while (c < end && !s.kept[c]) ++c;
  if (c < end) {
    Block* block = s.kept[c];
    shorten(s, block, bytes, class_size(c));
    const std::size_t charge = std::max(block->charge, charge_in_class(c, bytes));
    admit(s, bytes, charge, charge - block->charge, this_thread.promise, site);
    if (s.kept[c] == block) {  // unless it had to go
      s.kept[c] = block->next;
      s.kept_bytes -= block->charge;
      s.held_bytes += charge - block->charge;
      s.used_at[c] = ++s.tick;
      return begin(s, block, bytes, charge, site, c, category);
    }
  }
  c = exact;
  const std::size_t size = class_size(c), charge = charge_in_class(c, bytes);
  Block* block =
      from_system(s, bytes, charge, site, [&] { return system_take(size, bytes + sizeof(Block)); });
  s.used_at[c] = ++s.tick;
  return begin(s, block, bytes, charge, site, c, category);
}

void* take_pages(std::size_t bytes, const char* site, Category category) {
  State& s = state();
  std::lock_guard lock(s.lock);
  check_fault(s, bytes, site);
  const std::size_t size = pages_size(bytes);
  Block* head = from_system(s, bytes, size, site, [&] { return map_pages(bytes); });
  Block* block = reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(head) + kPage) - 1;
  return begin(s, block, bytes, size, site, kPages, category);
}

void give(void* bytes) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  Block* block = static_cast<Block*>(bytes) - 1;
  s.leave(block);
  if (block->size_class == kPages) {
    s.held_bytes -= pages_size(block->bytes);
    unmap_pages(reinterpret_cast<std::byte*>(block + 1) - kPage, block->bytes);
    return;
  }
  const int c = block->size_class;
  block->next = s.kept[c];
  s.kept[c] = block;
  s.used_at[c] = ++s.tick;
  s.kept_bytes += block->charge;
#if defined(__SANITIZE_ADDRESS__)
  trim_locked(s, 0);  // so that a use after free is seen
#endif
  const std::uint64_t most = s.total.peak + s.total.peak / 4 + kSlack;
  if (s.held_bytes > most)
    trim_locked(s, s.kept_bytes - std::min(s.kept_bytes, s.held_bytes - most));
}

void retag(void* bytes, Category category) noexcept {
  State& s = state();
  std::lock_guard lock(s.lock);
  Block* block = static_cast<Block*>(bytes) - 1;
  s.leave(block);
  block->category = category;
  block->scope = this_thread.scope;
  s.enter(block);
}

void set_limit(std::uint64_t bytes) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.limit = bytes;
  if (bytes && s.held_bytes > bytes)
    trim_locked(s, s.kept_bytes - std::min(s.kept_bytes, s.held_bytes - bytes));
}

void set_process_limit(std::uint64_t bytes) {
  State& s = state();
  std::lock_guard lock(s.lock);
  s.process_limit = bytes;
}

std::uint64_t limit() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.limit;
}

std::uint64_t held() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.held_bytes;
}

std::uint64_t system_calls() {
  State& s = state();
  std::lock_guard lock(s.lock);
  return s.system_calls;
}

void trim() {
  State& s = state();
  std::lock_guard lock(s.lock);
  trim_locked(s, 0);
}

Buffer up_to(std::size_t bytes, std::size_t least, const char* site, Category category) {
  for (;; bytes = std::max(least, bytes / 2)) {
    try {
      return {bytes, site, category};
    } catch (const OutOfMemory&) {
      if (bytes <= least) throw;
    }
  }
}

}  // namespace ebb::memory
