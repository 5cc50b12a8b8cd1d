#include "ebb/base/files/file_faults.hpp"

#include <atomic>
#include <cerrno>
#include <mutex>

#include "ebb/base/error.hpp"

namespace ebb::file_faults {
namespace {

struct Armed {
  std::uint64_t after = 0;  // fails when the count of calls reaches this; 0 is never
  Fault fault = Fault::eio;
  Repeat repeat = Repeat::once;
};

std::atomic<std::uint64_t> counts[kCalls];
std::atomic<bool> any_armed{false};
std::mutex armed_lock;
Armed armed[kCalls];

}  // namespace

Outcome meet(Call call) {
  const auto index = static_cast<int>(call);
  const std::uint64_t n = counts[index].fetch_add(1, std::memory_order_relaxed) + 1;
  if (!any_armed.load(std::memory_order_acquire)) return Outcome::go;
  std::lock_guard lock(armed_lock);
  const Armed& a = armed[index];
  if (a.after == 0 || n < a.after || (n > a.after && a.repeat == Repeat::once)) return Outcome::go;
  if (a.fault == Fault::short_count) return Outcome::shorten;
  errno = a.fault == Fault::enospc ? ENOSPC : a.fault == Fault::unsupported ? EINVAL : EIO;
  return Outcome::failed;
}

void fail(Call call, std::uint64_t nth, Fault fault, Repeat repeat) {
  if (nth == 0) throw Error("file fault: calls are counted from 1");
  if (fault == Fault::short_count && call != Call::read && call != Call::write)
    throw Error("file fault: only reads and writes have short counts");
  std::lock_guard lock(armed_lock);
  armed[static_cast<int>(call)] = {count(call) + nth, fault, repeat};
  any_armed.store(true, std::memory_order_release);
}

std::uint64_t count(Call call) {
  return counts[static_cast<int>(call)].load(std::memory_order_relaxed);
}

void clear() {
  std::lock_guard lock(armed_lock);
  for (Armed& a : armed) a = {};
  any_armed.store(false, std::memory_order_release);
}

}  // namespace ebb::file_faults
