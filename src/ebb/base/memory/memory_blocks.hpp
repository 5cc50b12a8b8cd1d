// What the memory seam gives out: a block, which is a header and the bytes after it. Blocks come in size
// classes, so that one that was given back serves the next request of about its size; large ones are
// mappings of their own. Private to base/memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"

namespace ebb::memory {

// Stands before every buffer. Live blocks form a list, which is how the Ledger knows what is alive.
struct alignas(kAlignment) Block {
  Block* previous;
  Block* next;
  std::size_t bytes;   // as asked for
  std::size_t charge;  // of the process: what it may have in memory
  const char* site;
  Scope::Id scope;
  std::uint16_t size_class;
  Category category;
  std::uint8_t promise;  // it is drawn from; 0: the program's own
};
static_assert(sizeof(Block) == 64);

inline constexpr int kClasses = 16 + 8 * 38;
inline constexpr std::uint16_t kPages = 0xffff;  // the class of blocks that are whole pages
inline constexpr std::size_t kPage = 4096;       // one more, before them, holds the Block
// From here on blocks are mappings of their own: what is given back leaves the process.
inline constexpr std::size_t kMapped = std::size_t{128} << 10;

// Sizes of whole blocks: multiples of 64 up to 1024, then eight to each doubling.
inline int class_of(std::size_t size) {
  if (size <= 1024) return static_cast<int>((size + 63) / 64) - 1;
  const int log = std::bit_width(size - 1) - 1;  // 2^log < size <= 2^(log+1)
  const int eighth = static_cast<int>((size - 1) >> (log - 3)) & 7;
  return 16 + (log - 10) * 8 + eighth;
}

inline std::size_t class_size(int c) {
  if (c < 16) return static_cast<std::size_t>(c + 1) * 64;
  const int log = 10 + (c - 16) / 8, eighth = (c - 16) % 8;
  return (std::size_t{1} << log) + (static_cast<std::size_t>(eighth + 1) << (log - 3));
}

inline std::size_t in_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

inline constexpr std::size_t kHeapBeside =
    128;  // what the heap adds to a block: its own head, alignment

// What a block of this class adds to the process where `bytes` of it are used.
inline std::size_t charge_in_class(int c, std::size_t bytes) {
  const std::size_t size = class_size(c);
  return size < kMapped ? size + kHeapBeside : std::min(size, in_pages(bytes + sizeof(Block)));
}

// A block of `size` bytes in all, of which `used` will be touched; null where the system has none.
void* system_take(std::size_t size, std::size_t used);
void system_give(void* block, std::size_t size);
std::uint64_t
bytes_on_heap();  // of those that are no mappings of their own: the heap counts them, too

// A page for the Block, then whole pages; null where the system has none.
inline std::size_t pages_size(std::size_t bytes) { return kPage + in_pages(bytes); }
void* map_pages(std::size_t bytes);
void unmap_pages(void* head, std::size_t bytes);

}  // namespace ebb::memory
