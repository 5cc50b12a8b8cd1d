// A file that is read again and again in small pieces, as memory: what was read before, and is still in the page
// cache, then costs no call to the system. A call for each row of a shuffled batch took 3% of a training step.
//
// What is mapped counts as memory of the process. So there is none of it while the process has a budget (allow),
// and without one at most kMost for all files together: a file that does not fit is read as ever. There is no
// giving back page by page, since a page that comes back costs more than a read.
//
// Reading a page of a mapping that the file no longer has, or that a disk cannot give, ends the process (SIGBUS)
// where a read returns an error. So a page's first read is never by the mapping, a page that has left the page
// cache is read as ever, and files that other machines may cut (NFS, FUSE, …) are not mapped at all. A file that
// is cut in the microseconds between the look at it and the copy remains.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "ebb/base/files/file.hpp"

namespace ebb {

class MappedFile {
 public:
  static constexpr std::uint64_t kMost = 64 << 20;

  explicit MappedFile(const File& file);  // mapped when it is first of use
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  void was_read(std::uint64_t offset, std::size_t bytes);  // by a read, without an error

  // What one thread reads at a stretch, some milliseconds at most. Whoever makes one looks first whether the file
  // is still as long as it was.
  class Reading {
   public:
    Reading(MappedFile& mapped, const File& file);
    // These bytes, for as long as it lives. Null: they want to be read. A read as far as faults go.
    const std::byte* find(std::uint64_t offset, std::size_t bytes);

   private:
    static constexpr std::uint64_t kWindow = 1024;  // pages that are asked for at once
    bool cached(std::uint64_t page);

    std::shared_lock<std::shared_mutex> stays_;
    MappedFile& mapped_;
    const File& file_;
    const std::byte* const begin_;
    std::uint64_t window_ = ~std::uint64_t{0};
    unsigned char in_cache_[kWindow];
  };

  static void allow(bool mapping);  // by the budget: none, or there is one
  // While one lives, nothing is mapped: for those who measure what else the process holds.
  class None {
   public:
    None();

   private:
    std::unique_lock<std::shared_mutex> alone_;
  };
  // What the files that are open now come to, all of them mapped; 0 where that is not allowed.
  static std::uint64_t expected_bytes();

 private:
  bool was_read(std::uint64_t page) const;
  const std::byte* map(const File& file);  // null: not now
  void unmap();

  std::uint64_t bytes_ = 0;  // of the file; 0: not to be mapped
  std::atomic<std::byte*> begin_{nullptr};
  std::vector<std::atomic<std::uint64_t>> read_;  // a bit for each page
};

}  // namespace ebb
