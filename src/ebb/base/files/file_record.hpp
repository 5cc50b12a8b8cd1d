// What is written at the file seam, in order, for tests that ask what a power cut would leave of it.
//
//   file_record::Recording recording;
//   save(…);
//   for (const file_record::Operation& o : recording.operations()) …
//
// Files without a name and those that were open before are not in it. Bytes that were only written back, not
// synced, are no more than written: a disk may forget them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ebb::file_record {

enum class Kind {
  create,       // path: a file that was not there
  write,        // path, at, bytes
  resize,       // path, at: its size from now on
  sync,         // path: all of the file so far
  make_folder,  // path
  move,         // path → to
  exchange,     // path ↔ to
  remove,       // path: a file, or an empty folder
  sync_folder,  // path: all names in it so far
};

struct Operation {
  Kind kind;
  std::string path;
  std::string to = {};
  std::uint64_t at = 0;
  std::vector<std::byte> bytes = {};
};

// Records what all threads do while it lives; one at a time.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  std::vector<Operation> operations() const;  // so far
};

// For the sources of the seam, after each call that went well.
inline std::atomic<bool>& flag() {
  static std::atomic<bool> recording{false};
  return recording;
}
inline bool on() { return flag().load(std::memory_order_relaxed); }

void opened(int descriptor, const std::string& path, bool created, bool emptied);
void closed(int descriptor) noexcept;
void wrote(int descriptor, std::uint64_t at, std::span<const std::byte> bytes);
void resized(int descriptor, std::uint64_t size);
void synced(int descriptor);
void made_folder(const std::string& path);
void moved(const std::string& from, const std::string& to);
void exchanged(const std::string& a, const std::string& b);
void removed(const std::string& path);
void synced_folder(const std::string& path);

}  // namespace ebb::file_record
