// The one seam for files. Every open, read, write and sync of Ebb goes through here (folders: folder.hpp), so that errors
// read alike (a FileError: operation, path, cause, what to do) and tests can make any of them fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ebb/base/bytes.hpp"

namespace ebb {

enum class Access { read, write, read_write };

struct OpenOptions {
  Access access = Access::read;
  bool create = false;     // make the file if there is none
  bool exclusive = false;  // with create: refuse a file that is already there
  bool truncate = false;   // start empty
  unsigned permissions = 0666;
};

// An open file; closed when it goes out of scope. Counts are all or nothing: short reads and writes
// and interrupted calls are continued here, and an early end of the file is an error.
class File {
 public:
  File() = default;
  static File open(const std::string& path, OpenOptions options = {});
  static File create(const std::string& path);  // write, made or emptied
  // Read and write, 0600, without a name: gone when it is closed or the process ends, however it
  // ends. (Where the file system has no files without a name, one is made and removed at once.)
  // `direct` goes past the page cache where the file system can; direct() says whether it does.
  static File temporary(const std::string& folder, bool direct = false);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  void read(std::span<std::byte> to);
  std::size_t read_some(std::span<std::byte> to);  // as many as there are; 0 at the end
  void write(std::span<const std::byte> from);
  void write(std::string_view text);
  void read_at(std::uint64_t offset, std::span<std::byte> to);  // these leave the position alone
  // From the page cache; false where not all of it is there and a disk would be waited for.
  bool read_cached_at(std::uint64_t offset, std::span<std::byte> to);
  void write_at(std::uint64_t offset, std::span<const std::byte> from);

  void seek(std::uint64_t offset);
  std::uint64_t position() const;
  std::uint64_t size() const;  // of a regular file
  void truncate(std::uint64_t size);
  void sync();   // returns when the content is on the disk
  void close();  // reports what the destructor would have to swallow

  // Takes the room for a file of this size now, so that a full disk is met here and not later.
  void reserve(std::uint64_t bytes);
  // Begins to write these bytes back, and does not wait.
  void start_write_back(std::uint64_t offset, std::uint64_t bytes);
  // Writes these bytes back and drops them from the page cache, which else is memory of the
  // process's group. Whole pages only.
  void write_back(std::uint64_t offset, std::uint64_t bytes);
  void drop_cached(std::uint64_t offset, std::uint64_t bytes);  // as above; read, not written

  // Direct transfers: memory, offset and size are multiples of this.
  static constexpr std::size_t kDirectAlignment = 4096;
  bool direct() const { return direct_; }
  void set_direct(bool direct);
  // For as long as it is open nobody else, here or in another process, is given the lock on it. False:
  // somebody has it.
  bool try_lock();
  bool in_memory() const;  // on a file system whose files are memory (tmpfs)

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

 private:
  friend class AtomicFile;
  File(int descriptor, std::string path);

  int descriptor_ = -1;
  bool direct_ = false;
  std::string path_;
};

// Writes a new version of a file beside the old one; commit() puts it in place in one step. Until
// then, and whatever fails, the old file is as it was; without commit() nothing is left behind.
// A symbolic link is followed. Permissions of the old file are kept.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  File& file() { return file_; }  // its errors name the target
  void commit();                  // synced, closed, renamed, and the folder synced

 private:
  std::string target_, temporary_;
  File file_;
};

void write_file(const std::string& path, std::span<const std::byte> content);  // atomic, as above
void write_file(const std::string& path, std::string_view content);

std::string temporary_folder();  // TMPDIR, else /var/tmp, else /tmp

bool file_exists(const std::string& path);
void make_directories(const std::string& path);  // and those above it, where there are none

// For settings and other small text; a larger file is refused, since a string is outside the
// Ledger. Large content is read by File into memory that the Ledger knows.
std::string read_file(const std::string& path, ByteSize limit = 1_MiB);

}  // namespace ebb
