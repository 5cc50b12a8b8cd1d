#include "ebb/base/budget.hpp"

#include <fmt/core.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "ebb/base/memory.hpp"
#include "ebb/base/process.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // what a sanitizer holds beside the program changes all the time
#else
constexpr bool kSanitized = false;
#endif

// How much of the code is in memory before it has run differs from start to start, with what the
// kernel maps around it; what it comes to when steps have run does not. So that is counted; a program
// that has more before it plans anything has so much code of its own.
constexpr std::uint64_t kCode = 13 * kMiB / 2, kCodeLikely = 47 * kMiB / 8;
constexpr std::uint64_t kCodeAtFirst = 5 * kMiB;
// Stacks of the pool's threads, what the heap keeps between blocks, tables that planning leaves.
constexpr std::uint64_t kWork = kMiB / 2;
constexpr std::uint64_t kHeapStep = kMiB / 2, kStep = kMiB;
constexpr std::uint64_t kLittle = kMiB / 2;  // that the heap may grow by: the code has less, mostly

std::uint64_t up(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }

// Resident bytes that no file backs and the seam has not given out.
std::uint64_t heap() {
  const std::uint64_t now = process::resident(), code = process::mapped(), held = memory::held();
  return now > code + held ? now - code - held : 0;
}

struct State {
  std::recursive_mutex lock;
  std::vector<std::uint64_t> budgets;
  std::uint64_t reserve = 0;  // without plans
  std::uint64_t own_code = 0;
  std::uint64_t plans = 0;

  std::uint64_t budget() const {
    return budgets.empty() ? 0 : *std::min_element(budgets.begin(), budgets.end());
  }
  std::uint64_t all() {
    if (reserve == 0) {
      malloc_trim(0);
      memory::trim();
      const std::uint64_t code = process::mapped();
      own_code = code > kCodeAtFirst ? up(code - kCodeAtFirst, kStep) : 0;
      reserve = kSanitized ? 16 * kMiB : kCode + own_code + up(heap(), kHeapStep) + kWork;
    }
    return reserve + plans;
  }
  // The seam may give out what the budget leaves beside the runtime.
  void apply() {
    const std::uint64_t bytes = budget();
    if (bytes == 0) {
      memory::set_limit(0);
      memory::set_process_limit(0);
      return;
    }
    const std::uint64_t set_aside = all();
    memory::set_limit(bytes > set_aside ? bytes - set_aside : 1);
    if (!kSanitized) memory::set_process_limit(bytes);
  }
};

State& state() {
  static State* s = new State;
  return *s;
}

}  // namespace

Budget::Budget(ByteSize size) : bytes_(size.bytes) {
  if (bytes_ == 0) return;
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.budgets.push_back(bytes_);
  s.apply();
}

Budget::~Budget() {
  if (bytes_ == 0) return;
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.budgets.erase(std::find(s.budgets.begin(), s.budgets.end(), bytes_));
  s.apply();
}

Budget::Budget(Budget&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
Budget& Budget::operator=(Budget&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::uint64_t Budget::now() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  return s.budget();
}

namespace runtime {

std::uint64_t reserve() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  return s.all();
}

std::uint64_t likely() {
  if (kSanitized) return reserve();
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.all();
  return heap() + kCodeLikely + s.own_code;
}

Plans::Plans(std::uint64_t bytes) { set(bytes); }
Plans::~Plans() { set(0); }
void Plans::set(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.plans += bytes - bytes_;
  bytes_ = bytes;
  s.apply();
}

bool settle() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  malloc_trim(0);
  if (kSanitized) return false;
  if (s.budget()) memory::trim();
  const std::uint64_t before = s.all(), now = heap() + kCode + s.own_code;
  if (now <= before + kLittle) return false;
  s.reserve += up(now - before, kStep);
  s.apply();
  return true;
}

void measure_anew() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  if (kSanitized || s.reserve == 0) return;
  malloc_trim(0);
  const std::uint64_t now = kCode + s.own_code + up(heap(), kHeapStep) + kWork;
  if (now + kStep >= s.reserve) return;  // the same, but for a little
  s.reserve = now;
  s.apply();
}

void drop_code() {
  if (kSanitized || Budget::now() == 0) return;
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return;
  char line[512];
  while (std::fgets(line, sizeof line, maps)) {
    unsigned long begin = 0, end = 0, inode = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%lx-%lx %4s %*x %*s %lu", &begin, &end, rights, &inode) != 4) continue;
    const bool code = inode != 0 && rights[0] == 'r' && rights[1] == '-' && rights[2] == 'x' &&
                      rights[3] == 'p';  // never written, so the file has it
    if (code) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  std::fclose(maps);
}

}  // namespace runtime
}  // namespace ebb
