// Faults at the file seam, for tests. The nth call from now (1 is the next one) of that kind fails,
// once or from then on; it fails before it reaches the system, so nothing is changed by it. A short
// count does half of what was asked, at least one byte, and is no error: the rest must follow.
#pragma once

#include <cstdint>

namespace ebb::file_faults {

enum class Call { open, read, write, sync, truncate, rename, close, reserve, make_folder, remove };
inline constexpr int kCalls = 10;
enum class Fault { enospc, eio, short_count, unsupported };  // short_count: reads and writes only
enum class Repeat { once, from_then_on };

void fail(Call call, std::uint64_t nth, Fault fault, Repeat repeat = Repeat::once);
inline void fail_read(std::uint64_t nth, Fault fault, Repeat repeat = Repeat::once) {
  fail(Call::read, nth, fault, repeat);
}
inline void fail_write(std::uint64_t nth, Fault fault, Repeat repeat = Repeat::once) {
  fail(Call::write, nth, fault, repeat);
}
inline void fail_sync(std::uint64_t nth, Fault fault, Repeat repeat = Repeat::once) {
  fail(Call::sync, nth, fault, repeat);
}
std::uint64_t count(Call call);  // calls to the system so far, failed ones included
void clear();

struct Guard {  // clears at the end of a scope, however it is left
  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { clear(); }
};

// For file.cpp: counts a call and says what becomes of it. On failure errno is set, as the system
// would have.
enum class Outcome { go, shorten, failed };
Outcome meet(Call call);

}  // namespace ebb::file_faults
