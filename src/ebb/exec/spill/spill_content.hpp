// What the slots of a spill file hold, and how it is moved and checked; SpillFile adds the queue and the
// threads. Private to exec/.
//
// A slot is cut into granules of 256 KiB, each with a checksum that depends on its place, so that bytes that
// were changed, exchanged or never written are found. Of a slot with two generations each granule has two
// places: one that is committed, and one that a write goes to.
//
// Calls for different granules may run side by side; the caller keeps apart what meets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/exec/spill/spill_file.hpp"

namespace ebb::exec {

// Some bytes of a slot, and the memory they are moved from or to.
struct SpillRange {
  int slot = 0;
  bool writes = false;
  bool replaces = false;        // the slot is then to hold this and no more
  std::byte* memory = nullptr;  // only read, where it writes
  std::uint64_t offset = 0, bytes = 0;

  bool meets(const SpillRange& other) const;  // shares memory, or granules of the file
};

class SpillContent {
 public:
  static constexpr std::uint64_t kGranule = 256 << 10;  // bytes under one checksum
  static constexpr std::uint64_t kPage = File::kDirectAlignment;
  static constexpr std::uint64_t up(std::uint64_t bytes, std::uint64_t unit) {
    return bytes / unit * unit + (bytes % unit ? unit : 0);
  }
  static constexpr std::uint64_t granules(std::uint64_t bytes) {
    return up(bytes, kGranule) / kGranule;
  }
  static constexpr int kMostThreads = 2;

  SpillContent(const SpillOptions& options, std::span<const SpillSlot> slots);

  static std::uint64_t file_bytes(std::span<const SpillSlot> slots);
  static std::uint64_t memory_bytes(const SpillOptions& options, std::span<const SpillSlot> slots);

  void check_range(int slot, std::uint64_t offset, std::uint64_t bytes) const;  // lies in the slot

  // A write is begun, moved in pieces [begin, end) of the slot that end at granules, and, where one
  // of them failed, marked: a write that fails leaves no mixture of old and new to be read.
  void begin_write(const SpillRange& range);
  void move(const SpillRange& range, std::uint64_t begin, std::uint64_t end, int thread);
  void mark_failed(const SpillRange& range);

  void commit();
  void rollback();

  const std::string& directory() const { return directory_; }
  const File& file() const { return file_; }
  std::uint64_t offset_of(int slot) const;

 private:
  // First: never written, it holds what the slot begins with.
  enum class Status : std::uint32_t { none, whole, damaged, first };

  // What one generation of a granule holds.
  struct Granule {
    std::uint64_t checksum;
    std::uint32_t bytes;
    Status status;
  };

  // Which generation of a granule is committed, and whether the other one holds a newer content.
  struct Turn {
    std::uint8_t committed, pending;
  };

  struct Slot {
    std::uint64_t bytes, offset, area, granules;  // area: of a generation, in the file
    Granule* generation[2];                       // the same one twice where there is only one
    Turn* turns;                                  // none where there is only one
    const InitialValue* first;                    // held by firsts_
    std::uint64_t size;                           // of its elements
  };

  struct Layout {
    std::uint64_t file = 0, tables = 0, granules = 0, turns = 0, bounce = 0;
  };
  static Layout layout_of(std::span<const SpillSlot> slots);
  void lay_out(std::span<const SpillSlot> given, const Layout& layout);
  void probe_direct();

  void write_run(const SpillRange& range, std::uint64_t first, std::uint64_t last);
  void read_run(const SpillRange& range, std::uint64_t first, std::uint64_t last);
  void write_part(const SpillRange& range, std::uint64_t g, std::uint64_t from, std::uint64_t to,
                  std::byte* buffer);
  void read_part(const SpillRange& range, std::uint64_t g, std::uint64_t from, std::uint64_t to,
                 std::byte* buffer);
  void fetch(int slot, std::uint64_t g, std::byte* to);
  void put(std::uint64_t at, std::span<const std::byte> from);
  void get(int slot, std::uint64_t at, std::span<std::byte> to);
  void check(int slot, std::uint64_t g, const std::byte* content) const;
  static bool holds(const Granule& granule) {
    return granule.status == Status::whole || granule.status == Status::first;
  }
  const Granule& readable(int slot, std::uint64_t g, std::uint64_t to) const;
  std::uint64_t sum(int slot, int generation, std::uint64_t g, const std::byte* content,
                    std::uint64_t bytes) const;

  // The generation a read of the granule finds, and the one a write goes to.
  int newest(const Slot& s, std::uint64_t g) const {
    return s.turns ? s.turns[g].committed ^ s.turns[g].pending : 0;
  }
  int target(const Slot& s, std::uint64_t g) const {
    return s.turns ? 1 - s.turns[g].committed : 0;
  }
  std::uint64_t place(const Slot& s, int generation, std::uint64_t g) const {
    return s.offset + (generation ? s.area : 0) + g * kGranule;
  }
  template <class F>
  void each_pending(F f) const;

  std::string directory_;
  File file_;
  int slot_count_;
  std::vector<std::shared_ptr<const InitialValue>> firsts_;
  memory::Buffer tables_, bounces_;
  Slot* slots_ = nullptr;
  std::array<std::byte*, kMostThreads> bounce_{};  // of a granule, one a thread
};

}  // namespace ebb::exec
