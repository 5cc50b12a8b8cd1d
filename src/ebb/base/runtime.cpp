#include "ebb/base/runtime.hpp"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "ebb/base/memory.hpp"
#include "ebb/base/process.hpp"

namespace ebb::runtime {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // what a sanitizer holds beside the program changes all the time
#else
constexpr bool kSanitized = false;
#endif

// How much of the code is in memory before it has run differs from start to start, with what the
// kernel maps around it; what it comes to when steps have run does not. So that is counted, with what
// each op brings (exec/functions.cpp); a program that has more than Ebb's when it begins has so much of
// its own: code, and what else files back.
constexpr std::uint64_t kCode = 43 * kMiB / 8,
                        kCodeLess = 3 * kMiB / 8;  // at most; what it is mostly less
constexpr std::uint64_t kCodeAtFirst = 9 * kMiB / 2, kFilesAtFirst = 3 * kMiB;
// The heap is counted by what is in use, which is the same at every start; with it goes what is
// resident of the program's data, and of stacks.
constexpr std::uint64_t kData = 3 * kMiB / 8, kHeapStep = kMiB / 4;
// Stacks of the pool's threads, what the heap keeps between blocks, tables that planning leaves.
constexpr std::uint64_t kWork = 3 * kMiB / 4;
constexpr std::uint64_t kStep = kMiB;
// Holes that planning leaves in the heap differ from time to time; the next plan fills them.
constexpr std::uint64_t kHoles = 3 * kMiB / 2;

std::uint64_t up(std::uint64_t bytes, std::uint64_t step) {
  return (bytes + step - 1) / step * step;
}

// Resident bytes that no file backs and the seam has not given out.
std::uint64_t heap() {
  const std::uint64_t now = process::resident(), code = process::mapped(), held = memory::held();
  return now > code + held ? now - code - held : 0;
}

std::uint64_t heap_in_use() {
  const struct mallinfo2 in = mallinfo2();
  return in.uordblks + in.hblkhd + kData;
}

std::uint64_t heap_to_count() {
  const std::uint64_t used = up(heap_in_use(), kHeapStep), now = heap();
  return now > used + kStep ? up(now, kStep) : used;  // a heap that is mostly holes
}

// f(begin, bytes) for all code that files back; no page of it differs from its file.
template <class F>
void each_code(F&& f) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return;
  char line[512];
  while (std::fgets(line, sizeof line, maps)) {
    unsigned long begin = 0, end = 0, inode = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%lx-%lx %4s %*x %*s %lu", &begin, &end, rights, &inode) != 4) continue;
    if (inode != 0 && std::strcmp(rights, "r-xp") == 0)
      f(reinterpret_cast<void*>(begin), end - begin);
  }
  std::fclose(maps);
}

void drop() {
  if (kSanitized) return;
  each_code([](void* begin, std::size_t bytes) { madvise(begin, bytes, MADV_DONTNEED); });
}

// What of it comes to be in memory, without the ops': more than half of a small program.
std::uint64_t code_to_count() {
  std::uint64_t all = 0;
  each_code([&](void*, std::size_t bytes) { all += bytes; });
  return std::min(kCode, up(all / 20 * 11, kMiB / 16));
}

struct State {
  std::mutex lock;
  std::uint64_t budget = 0;    // 0: none
  std::uint64_t measured = 0;  // at first, without plans and the code of ops
  std::uint64_t grown = 0;     // found beside that since then
  std::uint64_t own_code = 0;  // with what Ebb's comes to, but for the ops'
  std::uint64_t plans = 0, code_of_ops = 0;

  std::uint64_t reserve() {
    if (measured == 0) {
      malloc_trim(0);
      memory::trim();
      const std::uint64_t all_files = process::mapped();
      drop();
      const std::uint64_t files = std::min(all_files, process::mapped()), code = all_files - files;
      own_code = code_to_count() + (code > kCodeAtFirst ? up(code - kCodeAtFirst, kStep) : 0) +
                 (files > kFilesAtFirst ? up(files - kFilesAtFirst, kStep) : 0);
      measured = kSanitized ? 16 * kMiB : own_code + heap_to_count() + kWork;
    }
    return measured + grown + plans + code_of_ops;
  }
  // What is held beside the seam, whatever was set aside.
  std::uint64_t held_now() const {
    const std::uint64_t resident = heap() > kHoles ? heap() - kHoles : 0;
    return own_code + code_of_ops + std::max(heap_in_use(), resident);
  }
  // The seam may give out what the budget leaves beside the runtime.
  void apply() {
    if (budget == 0) {
      memory::set_limit(0);
      memory::set_process_limit(0);
      return;
    }
    const std::uint64_t set_aside = reserve();
    memory::set_limit(budget > set_aside ? budget - set_aside : 1);
    if (!kSanitized) memory::set_process_limit(budget);
  }
};

State& state() {
  static State* s = new State;
  return *s;
}

}  // namespace

std::uint64_t reserve() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  return s.reserve();
}

std::uint64_t likely() {
  if (kSanitized) return reserve();
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.reserve();
  // Holes that planning has left in the heap are filled, by and by.
  return std::min(heap(), heap_in_use() + kMiB / 2) + s.own_code + s.code_of_ops -
         std::min(s.own_code, kCodeLess);
}

void set_code_of_ops(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.code_of_ops = bytes;
  s.apply();
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
  if (s.budget) memory::trim();
  const std::uint64_t before = s.reserve(), now = s.held_now();
  if (now <= before) return false;
  s.grown += up(now - before, kStep);
  s.apply();
  return true;
}

void measure_anew() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  if (kSanitized || s.measured == 0) return;
  malloc_trim(0);
  const std::uint64_t now = s.own_code + heap_to_count() + kWork;
  if (now + kStep >= s.measured + s.grown) return;  // the same, but for a little
  s.measured = now;
  s.grown = 0;
  s.apply();
}

void measure_less() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  if (kSanitized || s.grown == 0) return;
  malloc_trim(0);
  const std::uint64_t now = s.held_now(), first = s.reserve() - s.grown;
  const std::uint64_t more = now > first ? up(now - first, kStep) : 0;
  if (more + kStep >= s.grown) return;  // the same, but for a little
  s.grown = more;
  s.apply();
}

std::uint64_t beside_ebb() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  return s.grown;
}

void drop_code() {
  State& s = state();
  {
    const std::lock_guard lock(s.lock);
    if (s.budget == 0) return;
  }
  drop();
}

void set_budget(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.budget = bytes;
  s.apply();
}

}  // namespace ebb::runtime
