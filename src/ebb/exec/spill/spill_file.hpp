// The spill file: bytes that leave the process and come back, checked. Transfers run in the background, in
// the order in which they were asked for where they meet.
//
//   SpillFile file({.directory = "/scratch"}, slots);
//   SpillFile::Ticket out = file.write(slot, saved);   // begins now
//   …                                                  // compute; `saved` stays as it is
//   file.wait(out);                                    // from here on its memory may be used again
//
// A slot is a fixed place in the file. A read gives the bytes that were last written there, or an error;
// never anything else (spill_content.hpp).
//
// A slot with two generations keeps what was committed while it is written: writes go beside it, reads give
// what was written last, commit() makes that the content, rollback() forgets it.
//
// The file has no name and mode 0600: it is gone when the process is. Transfers go past the page cache, or
// are written back and dropped piece by piece, so that no memory outside the Ledger is used. Nothing is
// allocated after construction, but for the text of an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ebb/tensor/variable.hpp"

namespace ebb::exec {

struct SpillSlot {
  std::uint64_t bytes = 0;
  bool two_generations = false;
  // What it holds until it is written, made when it is read: null is nothing. Its elements are of `size`
  // bytes.
  std::shared_ptr<const InitialValue> first = {};
  std::uint64_t size = 4;
};

// Where a spill file lies: the directory asked for, or by default TMPDIR, /var/tmp, /tmp.
std::string spill_directory(const std::string& asked);

struct SpillOptions {
  std::string directory;      // "": TMPDIR, else /var/tmp, else /tmp
  std::uint64_t bytes = 0;    // to reserve; 0: what the slots need. Less than that is refused
  int tickets = 64;           // transfers under way at once; one more waits for the oldest
  int threads = 2;            // 1 or 2: with two, one computes checksums while the other transfers
  bool direct = true;         // past the page cache, where the file system can
  bool allow_memory = false;  // a directory on tmpfs, whose files are memory
};

struct SpillStats {
  std::uint64_t bytes_written = 0, bytes_read = 0;
  double busy_seconds = 0;    // something was being transferred
  double waited_seconds = 0;  // the caller had to wait for it
};

// To be called from one thread.
class SpillFile {
 public:
  struct Ticket {
    std::uint64_t number = 0;  // 0: nothing to wait for
  };

  // Makes the file and reserves its room, so that a disk without enough is found here.
  SpillFile(const SpillOptions& options, std::span<const SpillSlot> slots);
  ~SpillFile();  // waits for the piece being moved and drops what has not begun
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Room in the file and in memory (from the memory seam) for such a SpillFile.
  static std::uint64_t file_bytes(std::span<const SpillSlot> slots);
  static std::uint64_t memory_bytes(const SpillOptions& options, std::span<const SpillSlot> slots);

  // In the order of the calls, as far as one can tell: transfers run side by side only where they
  // share neither slot nor memory. The memory stays valid, and untouched, until wait. Memory at
  // multiples of 4096 is transferred as it lies; other memory through a buffer, more slowly.
  Ticket write(int slot, std::span<const std::byte> from);  // the slot then holds this, no more
  Ticket read(int slot, std::span<std::byte> to);           // the slot's first bytes
  void wait(Ticket ticket);  // throws that transfer's FileError, once

  // Some bytes of a slot, at any offset; the rest of it stays as it is.
  Ticket write(int slot, std::uint64_t offset, std::span<const std::byte> from);
  Ticket read(int slot, std::uint64_t offset, std::span<std::byte> to);
  void write_now(int slot, std::uint64_t offset, std::span<const std::byte> from);
  void read_now(int slot, std::uint64_t offset, std::span<std::byte> to);

  // Both first wait for all that is under way. commit() switches all that was written; where a
  // write to such a slot has failed since, or one whose ticket nobody waited for, it throws and
  // switches nothing. rollback() also forgets failures that nobody was told of.
  void commit();
  void rollback();

  SpillStats stats() const;
  const std::string& directory() const;
  bool direct() const;  // past the page cache
  int descriptor() const;
  // In the file, of the slot's first byte as read gives it.
  std::uint64_t offset_of(int slot) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ebb::exec
