// The memory of steps: what every compiled function computes in, one after the other in the same bytes.
//
// Functions that run at the same time, on several threads, get arenas of their own where there is
// room; where the budget has none, they wait for each other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ebb/base/memory/promises.hpp"

namespace ebb::exec {

class Arena {
 public:
  explicit Arena(const memory::Promise& from) : from_(from) {}
  ~Arena() { clear(); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* at_least(std::uint64_t bytes);
  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  void clear();

  // Whoever has it may use it, or clear it. False where another one has it.
  bool try_acquire() { return !busy_.exchange(true); }
  void release() { busy_ = false; }
  bool busy() const { return busy_; }

 private:
  std::atomic<bool> busy_ = false;
  const memory::Promise& from_;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

class Arenas {
 public:
  explicit Arenas(const memory::Promise& from) : from_(from) {}

  // An arena for as long as a step runs.
  class Lease {
   public:
    // The one that was used last, if it is free.
    Lease(Arenas& arenas, Arena* preferred);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // At least `bytes`; given back and taken anew where it has more than `most`.
    std::byte* fit(std::uint64_t bytes, std::uint64_t most);
    // More memory: what idle arenas hold, or, giving up its own, what another step leaves when it ends.
    // False where there is neither.
    bool wait_for_another();
    Arena& arena() { return *arena_; }

   private:
    Arenas& all_;
    Arena* arena_;
  };

  const memory::Promise& promise() const { return from_; }
  void clear_idle(std::uint64_t above = 0);  // those that nobody uses, and that are larger

 private:
  bool clear_those(std::uint64_t above, const Arena* but);

  const memory::Promise& from_;
  std::mutex lock_;
  std::condition_variable freed_;
  int waiting_ = 0;
  std::uint64_t freed_count_ = 0;  // times that one was given back
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::atomic<std::size_t> count_ = 0;  // of them: where there is one, nobody can wait
};

}  // namespace ebb::exec
