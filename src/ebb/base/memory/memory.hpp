// The one seam for memory: every buffer is taken here and entered in the Ledger.
//
// Freed buffers are kept for reuse, so that a loop in steady state asks the system for nothing;
// what is kept never exceeds a quarter of the peak (plus 16 MiB) beyond it, counts against the
// limit, and is given back before a request is refused.
//
// The seam is also the guard: with a limit, nothing is taken that would go above it, and nothing that
// was promised to one is given to another (promises.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/round.hpp"

namespace ebb::memory {

inline constexpr std::size_t kAlignment = 64;
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

class Buffer;
// So many bytes, or where there is no room for them a half, and so on, but not less than `least`.
Buffer up_to(std::size_t bytes, std::size_t least, const char* site, Category category);

// Owns what it takes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, const char* site, Category category = CategoryScope::current())
      : data_(bytes ? static_cast<std::byte*>(take(bytes, site, category)) : nullptr),
        size_(bytes) {}
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
