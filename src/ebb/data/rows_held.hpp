// How much of the rows of a program's data may be held in memory, decided where their number is first known.
//
//   data::RowsHeld held{.most = 16 << 20};
//   const data::StoreOptions store{.held = &held};       // of one file, and of others that share it
//   const auto [rows, schema] = data::csv("houses.csv", {.store = store});
//   held.in_memory, held.in_files                        // what was put where
//
// Files that come first are served first, so that the same files are put alike at each start.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace ebb::data {

struct RowsHeld {
  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t most = kAll;                                // bytes of rows that may be in memory
  std::uint64_t in_memory = 0, in_files = 0;                // bytes of rows that could be in either
  std::uint64_t charge_in_memory = 0, charge_in_files = 0;  // what the memory seam counts for them
  // What the ledger's peak would have come to with all of them in files.
  std::uint64_t peak_in_files = 0;
  std::uint64_t peak_seen = 0;  // the ledger's, when it was looked at last

  // Whether rows that would be tensors of these sizes may be in memory.
  bool has_room(std::span<const std::uint64_t> tensors) const;
  // The same, and it is settled: they are put there, or, where they may not or are not wanted there, in a file.
  bool put(bool wanted, std::span<const std::uint64_t> tensors);
  void look_at_peak();  // once more when all was read
};

}  // namespace ebb::data
