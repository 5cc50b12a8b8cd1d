#include "ebb/base/files/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_calls.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/files/file_record.hpp"
#include "ebb/base/files/folder.hpp"

namespace ebb {
namespace {

using file_calls::fail;
using file_calls::met;
using file_calls::restarted;
using file_faults::Call;
using file_faults::meet;
using file_faults::Outcome;

// Moves at most `bytes`; a fault may shorten that, to a multiple of `unit`.
template <class F>
ssize_t moved(Call call, std::size_t bytes, F f, std::size_t unit = 1) {
  const Outcome outcome = meet(call);
  if (outcome == Outcome::failed) return -1;
  if (outcome == Outcome::shorten) bytes = std::max(unit, bytes / 2 / unit * unit);
  return restarted([&] { return f(bytes); });
}

off_t checked_offset(const char* operation, const std::string& path, std::uint64_t offset,
                     std::uint64_t bytes = 0) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (offset > kMax || bytes > kMax - offset)
    fail(operation, path, EFBIG, fmt::format(" at offset {}", offset));
  return static_cast<off_t>(offset);
}

// step(done, left) moves some of what is left and returns how many, as read and write do.
template <class Step>
void read_fully(const std::string& path, std::size_t bytes, Step step) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = step(done, bytes - done);
    if (n < 0) fail("read", path, errno, fmt::format(" after {} of {} bytes", done, bytes));
    if (n == 0)
      throw FileError(
          fmt::format("cannot read \"{}\": it ends after {} of {} bytes wanted; the "
                      "file is cut short, get a whole copy of it",
                      path, done, bytes));
    done += static_cast<std::size_t>(n);
  }
}

template <class Step>
void write_fully(const std::string& path, std::size_t bytes, Step step) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = step(done, bytes - done);
    if (n <= 0)
      fail("write", path, n < 0 ? errno : EIO, fmt::format(" after {} of {} bytes", done, bytes));
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace

File File::open(const std::string& path, OpenOptions options) {
  int flags = O_CLOEXEC;
  flags |= options.access == Access::read    ? O_RDONLY
           : options.access == Access::write ? O_WRONLY
                                             : O_RDWR;
  if (options.create) flags |= O_CREAT;
  if (options.create && options.exclusive) flags |= O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  const char* operation = options.create ? "create" : "open";
  if (path.find('\0') != std::string::npos) fail(operation, path.c_str(), ENOENT);

  const bool there = file_record::on() && file_exists(path);
  const int descriptor = met(Call::open, [&] {
    return ::open(path.c_str(), flags, static_cast<mode_t>(options.permissions));
  });
  if (descriptor < 0) fail(operation, path, errno);
  File file(descriptor, path);
  file_record::opened(descriptor, path, !there, options.truncate);
  struct stat info;
  if (::fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) fail(operation, path, EISDIR);
  return file;
}

File File::create(const std::string& path) {
  return open(path, {.access = Access::write, .create = true, .truncate = true});
}

File File::temporary(const std::string& folder, bool direct) {
  constexpr mode_t kPrivate = 0600;
  static std::atomic<unsigned> serial{0};
  if (folder.find('\0') != std::string::npos) fail("make a file in", folder.c_str(), ENOENT);
  const auto opened = [&](int flags) {
    flags |= O_CLOEXEC | O_RDWR;
    const int nameless = met(
        Call::open, [&] { return ::open(folder.c_str(), flags | O_TMPFILE | O_EXCL, kPrivate); });
    if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return nameless;
    const std::string name =
        fmt::format("{}/.ebb-{}-{}.tmp", folder, ::getpid(), serial.fetch_add(1));
    const int named =
        met(Call::open, [&] { return ::open(name.c_str(), flags | O_CREAT | O_EXCL, kPrivate); });
    if (named >= 0) ::unlink(name.c_str());
    return named;
  };
  int descriptor = opened(direct ? O_DIRECT : 0);
  if (descriptor < 0 && direct && errno == EINVAL) {
    direct = false;
    descriptor = opened(0);
  }
  if (descriptor < 0) fail("make a file in", folder, errno);
  File file(descriptor, folder);
  file.direct_ = direct;
  return file;
}

File::File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(other.direct_),
      path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(direct_, other.direct_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (!is_open()) return;
  file_record::closed(descriptor_);
  ::close(descriptor_);
}

std::size_t File::read_some(std::span<std::byte> to) {
  const ssize_t n = moved(Call::read, to.size(),
                          [&](std::size_t bytes) { return ::read(descriptor_, to.data(), bytes); });
  if (n < 0) fail("read", path_, errno);
  return static_cast<std::size_t>(n);
}

void File::read(std::span<std::byte> to) {
  read_fully(path_, to.size(), [&](std::size_t done, std::size_t left) {
    return moved(Call::read, left,
                 [&](std::size_t bytes) { return ::read(descriptor_, to.data() + done, bytes); });
  });
}

void File::read_at(std::uint64_t offset, std::span<std::byte> to) {
  const off_t start = checked_offset("read", path_, offset, to.size());
  read_fully(path_, to.size(), [&](std::size_t done, std::size_t left) {
    return moved(
        Call::read, left,
        [&](std::size_t bytes) {
          return ::pread(descriptor_, to.data() + done, bytes, start + static_cast<off_t>(done));
        },
        direct_ ? kDirectAlignment : 1);
  });
}

bool File::read_cached_at(std::uint64_t offset, std::span<std::byte> to) {
  if (direct_) return false;
  const off_t start = checked_offset("read", path_, offset, to.size());
  iovec into{to.data(), to.size()};
  const ssize_t n =
      met(Call::read, [&] { return ::preadv2(descriptor_, &into, 1, start, RWF_NOWAIT); });
  if (n < 0 && errno != EAGAIN && errno != EOPNOTSUPP) fail("read", path_, errno);
  return n == static_cast<ssize_t>(to.size());
}

void File::write(std::span<const std::byte> from) {
  write_fully(path_, from.size(), [&](std::size_t done, std::size_t left) {
    const ssize_t n = moved(Call::write, left, [&](std::size_t bytes) {
      return ::write(descriptor_, from.data() + done, bytes);
    });
    if (n > 0 && file_record::on())
      file_record::wrote(descriptor_, position() - static_cast<std::uint64_t>(n),
                         from.subspan(done, static_cast<std::size_t>(n)));
    return n;
  });
}

void File::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void File::write_at(std::uint64_t offset, std::span<const std::byte> from) {
  const off_t start = checked_offset("write", path_, offset, from.size());
  write_fully(path_, from.size(), [&](std::size_t done, std::size_t left) {
    const ssize_t n = moved(
        Call::write, left,
        [&](std::size_t bytes) {
          return ::pwrite(descriptor_, from.data() + done, bytes, start + static_cast<off_t>(done));
        },
        direct_ ? kDirectAlignment : 1);
    if (n > 0)
      file_record::wrote(descriptor_, offset + done,
                         from.subspan(done, static_cast<std::size_t>(n)));
    return n;
  });
}

void File::seek(std::uint64_t offset) {
  const off_t start = checked_offset("seek in", path_, offset);
  if (::lseek(descriptor_, start, SEEK_SET) < 0) fail("seek in", path_, errno);
}

std::uint64_t File::position() const {
  const off_t at = ::lseek(descriptor_, 0, SEEK_CUR);
  if (at < 0) fail("find the position in", path_, errno);
  return static_cast<std::uint64_t>(at);
}

std::uint64_t File::size() const {
  struct stat info;
  if (::fstat(descriptor_, &info) < 0) fail("find the size of", path_, errno);
  if (!S_ISREG(info.st_mode))
    throw FileError(
        fmt::format("cannot find the size of \"{}\": it is not a regular file; name a "
                    "file on a disk",
                    path_));
  return static_cast<std::uint64_t>(info.st_size);
}

void File::truncate(std::uint64_t size) {
  const off_t end = checked_offset("resize", path_, size);
  if (met(Call::truncate, [&] { return ::ftruncate(descriptor_, end); }) < 0)
    fail("resize", path_, errno, fmt::format(" to {} bytes", size));
  file_record::resized(descriptor_, size);
}

void File::sync() {
  if (met(Call::sync, [&] { return ::fsync(descriptor_); }) < 0) fail("sync", path_, errno);
  file_record::synced(descriptor_);
}

void File::reserve(std::uint64_t bytes) {
  const off_t end = checked_offset("reserve room in", path_, bytes);
  if (bytes == 0) return;
  const auto room = [&] {
    struct statfs info;
    if (::fstatfs(descriptor_, &info) < 0) return std::uint64_t{0};
    return static_cast<std::uint64_t>(info.f_bavail) * static_cast<std::uint64_t>(info.f_bsize);
  };
  // Asked first: a file system may hand out all it has before it finds that it is not enough.
  const std::uint64_t before = room();
  int result = met(Call::reserve, [&] {
    if (before >= bytes) return ::fallocate(descriptor_, 0, 0, end);
    errno = ENOSPC;
    return -1;
  });
  if (result < 0 && errno == EOPNOTSUPP) result = ::ftruncate(descriptor_, end);
  if (result < 0)
    fail("reserve room in", path_, errno,
         fmt::format(": {} bytes are needed, {} are free there", bytes, before));
  if (file_record::on()) file_record::resized(descriptor_, size());
}

void File::start_write_back(std::uint64_t offset, std::uint64_t bytes) {
  const off_t start = checked_offset("write back", path_, offset, bytes);
  // A beginning: what fails is met where it is waited for.
  ::sync_file_range(descriptor_, start, static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

void File::write_back(std::uint64_t offset, std::uint64_t bytes) {
  const off_t start = checked_offset("write back", path_, offset, bytes);
  const int result = met(Call::sync, [&] {
    constexpr unsigned kAll =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    const int ranged = ::sync_file_range(descriptor_, start, static_cast<off_t>(bytes), kAll);
    return ranged < 0 && (errno == ENOSYS || errno == EINVAL) ? ::fdatasync(descriptor_) : ranged;
  });
  if (result < 0) fail("write back", path_, errno, fmt::format(" at offset {}", offset));
  drop_cached(offset, bytes);
}

void File::drop_cached(std::uint64_t offset, std::uint64_t bytes) {
  const off_t start = checked_offset("drop", path_, offset, bytes);
  // Advice: where it is not taken, the kernel reclaims clean pages by itself.
  ::posix_fadvise(descriptor_, start, static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

void File::set_direct(bool direct) {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) < 0)
    fail(direct ? "use direct transfers on" : "leave direct transfers on", path_, errno);
  direct_ = direct;
  // Buffered reads in large pieces need no reading ahead, which would fill the cache unasked.
  if (!direct) ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
}

bool File::try_lock() {
  if (restarted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0) return true;
  if (errno != EWOULDBLOCK) fail("lock", path_, errno);
  return false;
}

bool File::in_memory() const {
  struct statfs info;
  if (::fstatfs(descriptor_, &info) < 0) return false;
  const auto kind = static_cast<unsigned long>(info.f_type);
  return kind == TMPFS_MAGIC || kind == RAMFS_MAGIC || kind == HUGETLBFS_MAGIC;
}

void File::close() {
  if (!is_open()) return;
  const int descriptor = std::exchange(descriptor_, -1);
  const bool refused = meet(Call::close) == Outcome::failed;
  const int injected = errno;
  file_record::closed(descriptor);
  // Linux frees the descriptor whatever close returns, so an interrupted call is not repeated.
  const int result = ::close(descriptor);
  if (refused) fail("close", path_, injected);
  if (result < 0 && errno != EINTR) fail("close", path_, errno);
}

AtomicFile::AtomicFile(const std::string& path) : target_(path) {
  if (path.find('\0') != std::string::npos) fail("write", path.c_str(), ENOENT);
  mode_t permissions = 0;
  bool replaces = false;
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    char* resolved = ::realpath(path.c_str(), nullptr);
    if (!resolved) fail("follow the link", path, errno);
    target_ = resolved;
    std::free(resolved);
  }
  if (::stat(target_.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) fail("write", path, EISDIR);
    if (!S_ISREG(info.st_mode))
      throw FileError(
          fmt::format("cannot write \"{}\": it is not a regular file and cannot be "
                      "replaced; choose another name",
                      path));
    permissions = info.st_mode & 07777;
    replaces = true;
  }

  static std::atomic<unsigned> serial{0};
  int descriptor = -1;
  for (int attempt = 0; descriptor < 0; ++attempt) {
    temporary_ = fmt::format("{}.{}-{}.tmp", target_, ::getpid(), serial.fetch_add(1));
    descriptor = met(Call::open, [&] {
      return ::open(temporary_.c_str(), O_CLOEXEC | O_WRONLY | O_CREAT | O_EXCL, 0666);
    });
    // The name can be taken only by what a killed process with our number left.
    if (descriptor < 0 && (errno != EEXIST || attempt == 100))
      fail("create a file beside", path, errno);
  }
  file_ = File(descriptor, path);
  file_record::opened(descriptor, temporary_, true, false);
  if (replaces && ::fchmod(descriptor, permissions) < 0) {
    const int error = errno;
    remove_file(temporary_);
    fail("keep the permissions of", path, error);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) remove_file(temporary_);
}

void AtomicFile::commit() {
  file_.sync();
  file_.close();
  move_path(temporary_, target_, "put in place");
  temporary_.clear();
  // The new name itself must reach the disk.
  sync_folder(file_calls::folder_of(target_), target_);
}

void write_file(const std::string& path, std::span<const std::byte> content) {
  AtomicFile out(path);
  out.file().write(content);
  out.commit();
}

void write_file(const std::string& path, std::string_view content) {
  write_file(path, std::as_bytes(std::span(content)));
}

std::string temporary_folder() {
  if (const char* set = std::getenv("TMPDIR"); set && *set) return set;
  return file_exists("/var/tmp") ? "/var/tmp" : "/tmp";
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string read_file(const std::string& path, ByteSize limit) {
  File file = File::open(path);
  std::string content;
  char part[16384];
  while (const std::size_t n = file.read_some(std::as_writable_bytes(std::span(part)))) {
    if (n > limit.bytes - content.size())
      throw FileError(
          fmt::format("cannot read \"{}\" whole: it is larger than {}; name a smaller "
                      "file",
                      path, to_string(limit)));
    content.append(part, n);
  }
  return content;
}

}  // namespace ebb
