#include "ebb/base/files/mapped_file.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "ebb/base/files/file_calls.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kPage = 4096, kBits = 64;

// Every one there is, and whether they may be mapped. Mappings are made and used under a shared lock.
struct All {
  std::shared_mutex lock;
  std::vector<MappedFile*> files;
  std::uint64_t bytes = 0;  // of those that may be mapped
  bool allowed = true;
};

All& all() {
  static All* one = new All;  // outlives every file, statics included
  return *one;
}

// Where a file has its length from this machine alone.
bool is_local(const File& file) {
  struct statfs info;
  if (::fstatfs(file.descriptor(), &info) < 0) return false;
  switch (static_cast<unsigned long>(info.f_type)) {
    case EXT4_SUPER_MAGIC:  // and its elders
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
      return true;
    default:
      return false;
  }
}

std::uint64_t pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage; }

}  // namespace

MappedFile::MappedFile(const File& file) {
  struct stat info;
  if (::sysconf(_SC_PAGESIZE) != kPage || !is_local(file)) return;
  if (::fstat(file.descriptor(), &info) < 0 || !S_ISREG(info.st_mode)) return;
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  const std::unique_lock lock(all().lock);
  if (bytes == 0 || bytes > kMost - all().bytes) return;
  read_ = std::vector<std::atomic<std::uint64_t>>((pages(bytes) + kBits - 1) / kBits);
  all().files.push_back(this);
  all().bytes += bytes;
  bytes_ = bytes;
}

MappedFile::~MappedFile() {
  if (bytes_ == 0) return;
  const std::unique_lock lock(all().lock);
  unmap();
  std::erase(all().files, this);
  all().bytes -= bytes_;
}

void MappedFile::was_read(std::uint64_t offset, std::size_t bytes) {
  if (offset > bytes_ || bytes > bytes_ - offset) return;
  // However little of a page was asked for, it came to the cache as a whole.
  for (std::uint64_t page = offset / kPage; page < pages(offset + bytes); ++page) {
    if (was_read(page)) continue;
    read_[page / kBits].fetch_or(std::uint64_t{1} << page % kBits, std::memory_order_relaxed);
  }
}

bool MappedFile::was_read(std::uint64_t page) const {
  return read_[page / kBits].load(std::memory_order_relaxed) >> page % kBits & 1;
}

// Several threads may be the first: one mapping stays.
const std::byte* MappedFile::map(const File& file) {
  if (bytes_ == 0 || !all().allowed) return nullptr;
  if (const std::byte* there = begin_.load()) return there;
  void* const made = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (made == MAP_FAILED) return nullptr;
  ::madvise(made, bytes_, MADV_RANDOM);  // a page that has just left is read by itself
  std::byte* there = nullptr;
  if (begin_.compare_exchange_strong(there, static_cast<std::byte*>(made)))
    return static_cast<std::byte*>(made);
  ::munmap(made, bytes_);
  return there;
}

void MappedFile::unmap() {
  if (std::byte* const there = begin_.exchange(nullptr)) ::munmap(there, bytes_);
}

MappedFile::Reading::Reading(MappedFile& mapped, const File& file)
    : stays_(all().lock), mapped_(mapped), file_(file), begin_(mapped.map(file)) {}

const std::byte* MappedFile::Reading::find(std::uint64_t offset, std::size_t bytes) {
  if (!begin_ || offset > mapped_.bytes_ || bytes > mapped_.bytes_ - offset) return nullptr;
  for (std::uint64_t page = offset / kPage; page < pages(offset + bytes); ++page)
    if (!mapped_.was_read(page) || !cached(page)) return nullptr;
  switch (file_faults::meet(file_faults::Call::read)) {
    case file_faults::Outcome::failed:
      file_calls::fail("read", file_.path(), errno);
    case file_faults::Outcome::shorten:
      return nullptr;
    case file_faults::Outcome::go:
      break;
  }
  return begin_ + offset;
}

// Of files that it may not write to the kernel says that all of them is there.
bool MappedFile::Reading::cached(std::uint64_t page) {
  if (page / kWindow != window_) {
    window_ = page / kWindow;
    const std::uint64_t first = window_ * kWindow * kPage;
    const std::uint64_t bytes = std::min(kWindow * kPage, mapped_.bytes_ - first);
    void* const from = const_cast<std::byte*>(begin_) + first;
    if (::mincore(from, bytes, in_cache_) < 0) std::fill_n(in_cache_, pages(bytes), 0);
  }
  return in_cache_[page % kWindow] & 1;
}

void MappedFile::allow(bool mapping) {
  const None none;
  all().allowed = mapping;
}

MappedFile::None::None() : alone_(all().lock) {
  for (MappedFile* const file : all().files) file->unmap();
}

std::uint64_t MappedFile::expected_bytes() {
  const std::shared_lock lock(all().lock);
  return all().allowed ? all().bytes : 0;
}

}  // namespace ebb
