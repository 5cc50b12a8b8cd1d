#include "ebb/base/memory/memory_blocks.hpp"

#include <malloc.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>

namespace ebb::memory {
namespace {

constinit std::atomic<std::uint64_t> on_heap = 0;

constexpr std::size_t kHuge = std::size_t{2} << 20;  // from here on blocks begin at a huge page

void* map(std::size_t size) {
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Whole huge pages are used as such: a kernel that walks through gigabytes meets fewer faults and
// misses in the TLB. What is left over at the end stays in small pages, so that nothing is resident
// that was not asked for.
void* map_huge(std::size_t size, std::size_t used) {
  auto* p = static_cast<std::byte*>(map(size + kHuge));
  if (!p) return nullptr;
  const std::size_t before = (kHuge - reinterpret_cast<std::uintptr_t>(p) % kHuge) % kHuge;
  if (before) munmap(p, before);
  munmap(p + before + size, kHuge - before);
  madvise(p + before, used / kHuge * kHuge, MADV_HUGEPAGE);
  return p + before;
}

}  // namespace

// Page-aligned bytes after a page for the Block; whole huge pages among them are used as such.
void* map_pages(std::size_t bytes) {
  const std::size_t size = pages_size(bytes);
  if (size < kHuge) return map(size);
  auto* p = static_cast<std::byte*>(map(size + kHuge));
  if (!p) return nullptr;
  const std::size_t before =
      (kHuge - (reinterpret_cast<std::uintptr_t>(p) + kPage) % kHuge) % kHuge;
  if (before) munmap(p, before);
  if (before < kHuge) munmap(p + before + size, kHuge - before);
  madvise(p + before + kPage, (size - kPage) / kHuge * kHuge, MADV_HUGEPAGE);
  return p + before;
}

void unmap_pages(void* head, std::size_t bytes) { munmap(head, pages_size(bytes)); }

std::uint64_t bytes_on_heap() { return on_heap.load(std::memory_order_relaxed); }

void* system_take(std::size_t size, std::size_t used) {
  if (size < kMapped) {
    void* const block = std::aligned_alloc(kAlignment, size);
    if (block) on_heap.fetch_add(malloc_usable_size(block), std::memory_order_relaxed);
    return block;
  }
  return size < kHuge ? map(size) : map_huge(size, used);
}

void system_give(void* block, std::size_t size) {
  if (size < kMapped) {
    on_heap.fetch_sub(malloc_usable_size(block), std::memory_order_relaxed);
    std::free(block);
  } else {
    munmap(block, size);
  }
}

}  // namespace ebb::memory
