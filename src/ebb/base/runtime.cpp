#include "ebb/base/runtime.hpp"

#include <link.h>
#include <malloc.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_blocks.hpp"
#include "ebb/base/process.hpp"

namespace ebb::runtime {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kPageSize = 4096;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // what a sanitizer holds beside the program changes all the time
#else
constexpr bool kSanitized = false;
#endif

// How much of the code is in memory before it has run differs from start to start, with what the
// kernel maps around it; what it comes to when steps have run does not. So that is counted, with what
// each op brings (exec/functions.cpp); a program that has more than Ebb's when it begins has so much of
// its own: code, and what else files back.
constexpr std::uint64_t kCode = 3 * kMiB,
                        kCodeLess = 3 * kMiB / 2;  // at most; what it is mostly less
constexpr std::uint64_t kFilesAtFirst = 6 * kMiB, kFilesAtRest = 2 * kMiB;
// The heap is counted by what is in use, which is the same at every start; with it goes what is
// resident of the program's data, and of stacks.
constexpr std::uint64_t kData = 3 * kMiB / 8, kHeapStep = kMiB / 4;
constexpr std::uint64_t kHeapAtFirst = kMiB;  // at least: small programs are far from its next step
// What the heap keeps between blocks, tables that planning leaves, a stack; of a thread of the pool, its stack
// and its part of the heap.
constexpr std::uint64_t kWork = kMiB / 2, kThread = kMiB / 16;
constexpr std::uint64_t kStep = kMiB;
// Holes that planning leaves in the heap differ from time to time; the next plan fills them.
constexpr std::uint64_t kHoles = 5 * kMiB / 2;

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
  const std::uint64_t all = in.uordblks + in.hblkhd, of_tensors = memory::bytes_on_heap();
  return all - std::min(all, of_tensors) + kData;
}

std::uint64_t heap_to_count() {
  const std::uint64_t used = std::max(kHeapAtFirst, up(heap_in_use(), kHeapStep)), now = heap();
  return now > used + kStep ? up(now, kStep) : used;  // a heap that is mostly holes
}

// f(begin, bytes, is code) for all code and constants of the program and its libraries: what the loader maps
// from files and nobody can write to, so that no page of it differs from its file.
template <class F>
void each_read_only(F f) {
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* visit) {
        if (object->dlpi_addr == getauxval(AT_SYSINFO_EHDR)) return 0;  // the kernel's own
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W)) continue;
          const std::uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
          const std::uintptr_t from = begin / kPageSize * kPageSize;
          const std::uintptr_t to = up(begin + segment.p_memsz, kPageSize);
          if (from < to)
            (*static_cast<F*>(visit))(reinterpret_cast<void*>(from), to - from,
                                      (segment.p_flags & PF_X) != 0);
        }
        return 0;
      },
      &f);
}

// A kernel brings in more of a file than the page that is read: the 64 KiB around it, and since Linux 6.18 all
// of the folio that holds it, which may be megabytes, as the file happened to be written. It does not go
// beyond a mapping; so code is cut into mappings of this size, and what is in memory depends on what runs
// alone (docs/decisions/0032-code-in-small-mappings.md). Every other piece is marked as not to be dumped,
// which means nothing for code and keeps it a mapping of its own.
constexpr std::uintptr_t kPiece = 16 << 10;

void cut() {
  if (kSanitized) return;
  each_read_only([](void* begin, std::size_t bytes, bool) {
    const auto from = reinterpret_cast<std::uintptr_t>(begin), to = from + bytes;
    for (std::uintptr_t at = from; at < to;) {
      const std::uintptr_t next = std::min((at / kPiece + 1) * kPiece, to);
      if (at / kPiece % 2) madvise(reinterpret_cast<void*>(at), next - at, MADV_DONTDUMP);
      at = next;
    }
  });
}

// Before anything of the program's has run: what it begins with counts as much as any later peak.
__attribute__((constructor(101))) void cut_at_start() { cut(); }

void drop() {
  if (kSanitized) return;
  each_read_only(
      [](void* begin, std::size_t bytes, bool) { madvise(begin, bytes, MADV_DONTNEED); });
}

// What of it comes to be in memory, without the ops': more than half of a small program.
std::uint64_t code_to_count() {
  std::uint64_t all = 0;
  each_read_only([&](void*, std::size_t bytes, bool is_code) { all += is_code ? bytes : 0; });
  return std::min(kCode, up(all / 20 * 11, kMiB / 16));
}

struct State {
  std::mutex lock;
  std::uint64_t budget = 0;     // 0: none
  std::uint64_t measured = 0;   // at first, without shares and the code of ops
  std::uint64_t grown = 0;      // found beside that since then
  std::uint64_t own_code = 0;   // with what Ebb's comes to, but for the ops'
  std::uint64_t own_files = 0;  // of that, the program's own: code, and files that it maps
  std::uint64_t shares = 0, code_of_ops = 0, threads = 0;
  int undecided = 0;

  std::uint64_t reserve() {
    if (measured == 0) {
      malloc_trim(0);
      memory::trim();
      const std::uint64_t all_files = process::mapped();
      cut();  // also what was loaded since the start
      drop();
      own_files = all_files > kFilesAtFirst ? up(all_files - kFilesAtFirst, kStep) : 0;
      own_code = code_to_count() + own_files;
      measured = kSanitized ? 16 * kMiB : own_code + heap_to_count() + kWork;
    }
    return measured + grown + shares + code_of_ops + threads * kThread;
  }
  // What is held beside the seam, whatever was set aside.
  std::uint64_t held_now() const {
    const std::uint64_t resident = heap() > kHoles ? heap() - kHoles : 0;
    // Files that the program has mapped since it was first measured, and read: code is not in memory now.
    const std::uint64_t files = process::mapped(), known = std::max(own_files, kFilesAtRest);
    return own_code + (files > known ? files - known : 0) + code_of_ops +
           std::max(heap_in_use(), resident);
  }
  // What has to be added for it, and a little for what comes and goes.
  std::uint64_t growth(std::uint64_t now) {
    const std::uint64_t first = reserve() - grown;
    return now > first ? up(now - first + kHeapStep, kHeapStep) + kHeapStep : 0;
  }
  // The seam may give out what the budget leaves beside the runtime.
  void apply() {
    const std::uint64_t set_aside = budget ? reserve() : 0;
    const std::uint64_t limit = budget == 0 ? 0 : budget > set_aside ? budget - set_aside : 1;
    if (undecided) {
      const std::uint64_t now = memory::limit();
      if (now == 0 || (limit != 0 && limit < now)) return;
    }
    memory::set_limit(limit);
    memory::set_process_limit(kSanitized ? 0 : budget);
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

void set_threads(int count) {
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.threads = static_cast<std::uint64_t>(count);
  s.apply();
}

Share::Share(std::uint64_t bytes) { set(bytes); }
Share::~Share() { set(0); }
void Share::set(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.shares += bytes - bytes_;
  bytes_ = bytes;
  s.apply();
}

Undecided::Undecided() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  ++s.undecided;
}
Undecided::~Undecided() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  if (--s.undecided == 0) s.apply();
}

bool remeasure() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  malloc_trim(0);
  if (kSanitized) return false;
  if (s.budget) memory::trim();
  const std::uint64_t before = s.reserve();
  drop();
  const std::uint64_t now = s.held_now();
  if (now <= before) return false;
  s.grown = s.growth(now);
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
  s.reserve();
  drop();
  const std::uint64_t more = s.growth(s.held_now());
  if (more >= s.grown) return;
  s.grown = more;
  s.apply();
}

std::uint64_t beside_ebb() {
  State& s = state();
  const std::lock_guard lock(s.lock);
  return s.grown;
}

void drop_code() { drop(); }

void set_budget(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.lock);
  s.budget = bytes;
  s.apply();
}

}  // namespace ebb::runtime
