// How the content of a spill file is moved: runs of whole granules as they lie, all else through a buffer,
// every byte checked.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/exec/spill/spill_content.hpp"
#include "ebb/kernels/checksum.hpp"

namespace ebb::exec {

// Runs of whole granules of one generation are moved as they lie; all else granule by granule
// through the buffer.
void SpillContent::move(const SpillRange& range, std::uint64_t begin, std::uint64_t end,
                        int thread) {
  std::byte* const buffer = bounce_[static_cast<std::size_t>(thread)];
  const Slot& s = slots_[range.slot];
  const auto start = reinterpret_cast<std::uintptr_t>(range.memory) - range.offset;
  const bool as_it_lies = !file_.direct() || start % kPage == 0;
  const auto straight = [&](std::uint64_t g) {
    const std::uint64_t from = g * kGranule, to = std::min(from + kGranule, end);
    if (!as_it_lies || from < begin || (to - from) % kPage) return false;
    if (range.writes)  // all of it, or all that the slot is to hold
      return to == from + kGranule || range.replaces || to == s.bytes;
    const Granule& granule = s.generation[newest(s, g)][g];
    return granule.bytes == to - from && granule.status != Status::first;
  };
  const auto generation = [&](std::uint64_t g) {
    return range.writes ? target(s, g) : newest(s, g);
  };
  const std::uint64_t last = granules(end);
  for (std::uint64_t g = begin / kGranule; g < last;) {
    std::uint64_t run = g;
    while (run < last && straight(run) && generation(run) == generation(g)) ++run;
    const std::uint64_t from = std::max(begin, g * kGranule);
    const std::uint64_t to = std::min(end, std::max(run, g + 1) * kGranule);
    if (run > g) {
      range.writes ? write_run(range, from, to) : read_run(range, from, to);
    } else {
      range.writes ? write_part(range, g, from, to, buffer) : read_part(range, g, from, to, buffer);
    }
    g = std::max(run, g + 1);
  }
}

void SpillContent::write_run(const SpillRange& range, std::uint64_t first, std::uint64_t last) {
  const Slot& s = slots_[range.slot];
  const std::uint64_t begin = first / kGranule, end = granules(last);
  const int generation = target(s, begin);
  for (std::uint64_t g = begin; g < end; ++g) {
    const std::uint64_t from = g * kGranule, bytes = std::min(kGranule, last - from);
    const std::byte* const content = range.memory + (from - range.offset);
    s.generation[generation][g] = {sum(range.slot, generation, g, content, bytes),
                                   static_cast<std::uint32_t>(bytes), Status::damaged};
    if (s.turns) s.turns[g].pending = 1;
  }
  put(place(s, generation, begin), {range.memory + (first - range.offset), last - first});
  for (std::uint64_t g = begin; g < end; ++g) s.generation[generation][g].status = Status::whole;
}

void SpillContent::read_run(const SpillRange& range, std::uint64_t first, std::uint64_t last) {
  const Slot& s = slots_[range.slot];
  const std::uint64_t begin = first / kGranule, end = granules(last);
  for (std::uint64_t g = begin; g < end; ++g)
    readable(range.slot, g, std::min(kGranule, last - g * kGranule));
  std::byte* const to = range.memory + (first - range.offset);
  get(range.slot, place(s, newest(s, begin), begin), {to, last - first});
  for (std::uint64_t g = begin; g < end; ++g) check(range.slot, g, to + (g - begin) * kGranule);
}

// Bytes [from, to) of the slot, within one granule. What the granule holds besides is kept, unless
// the slot is to hold nothing else.
void SpillContent::write_part(const SpillRange& range, std::uint64_t g, std::uint64_t from,
                              std::uint64_t to, std::byte* buffer) {
  const Slot& s = slots_[range.slot];
  const std::uint64_t start = g * kGranule, low = from - start, high = to - start;
  std::uint64_t bytes = high;
  const Granule& old = s.generation[newest(s, g)][g];
  if (!range.replaces && (low > 0 || old.bytes > high)) {
    if (low > 0 || holds(old)) {
      readable(range.slot, g, low);
      fetch(range.slot, g, buffer);
    }
    bytes = std::max<std::uint64_t>(high, holds(old) ? old.bytes : 0);
  }
  std::memcpy(buffer + low, range.memory + (from - range.offset), high - low);
  const std::uint64_t padded = up(bytes, kPage);
  std::memset(buffer + bytes, 0, padded - bytes);
  const int generation = target(s, g);
  Granule& now = s.generation[generation][g];
  now = {sum(range.slot, generation, g, buffer, bytes), static_cast<std::uint32_t>(bytes),
         Status::damaged};
  if (s.turns) s.turns[g].pending = 1;
  put(place(s, generation, g), {buffer, padded});
  now.status = Status::whole;
}

void SpillContent::read_part(const SpillRange& range, std::uint64_t g, std::uint64_t from,
                             std::uint64_t to, std::byte* buffer) {
  const std::uint64_t start = g * kGranule;
  const Granule& granule = readable(range.slot, g, to - start);
  if (granule.status == Status::first && from == start) {
    const Slot& s = slots_[range.slot];
    return s.first->fill({range.memory + (from - range.offset), to - from}, start / s.size);
  }
  fetch(range.slot, g, buffer);
  std::memcpy(range.memory + (from - range.offset), buffer + (from - start), to - from);
}

// All that the granule holds, checked.
void SpillContent::fetch(int slot, std::uint64_t g, std::byte* to) {
  const Slot& s = slots_[slot];
  const int generation = newest(s, g);
  if (const Granule& granule = s.generation[generation][g]; granule.status == Status::first)
    return s.first->fill({to, granule.bytes}, g * kGranule / s.size);
  get(slot, place(s, generation, g), {to, up(s.generation[generation][g].bytes, kPage)});
  check(slot, g, to);
}

void SpillContent::put(std::uint64_t at, std::span<const std::byte> from) {
  try {
    file_.write_at(at, from);
    if (!file_.direct()) file_.write_back(at, from.size());
  } catch (const FileError& e) {
    throw FileError(fmt::format("spill: {} bytes at offset {} of the spill file: {}", from.size(),
                                at, e.what()));
  }
}

void SpillContent::get(int slot, std::uint64_t at, std::span<std::byte> to) {
  try {
    file_.read_at(at, to);
    if (!file_.direct()) file_.drop_cached(at, to.size());
  } catch (const FileError& e) {
    if (const std::uint64_t size = file_.size(); size < at + to.size())
      throw FileError(fmt::format(
          "spill: the spill file in \"{}\" is cut short: slot {} needs {} bytes at offset {}, and "
          "the file ends at {}; something else has changed it, go on from the last checkpoint",
          directory_, slot, to.size(), at, size));
    throw FileError(fmt::format("spill: slot {}, {} bytes at offset {} of the spill file: {}", slot,
                                to.size(), at, e.what()));
  }
}

void SpillContent::check(int slot, std::uint64_t g, const std::byte* content) const {
  const Slot& s = slots_[slot];
  const int generation = newest(s, g);
  const Granule& granule = s.generation[generation][g];
  const std::uint64_t found = sum(slot, generation, g, content, granule.bytes);
  if (found == granule.checksum) return;
  throw FileError(fmt::format(
      "spill: slot {} has changed on the disk: {} bytes at offset {} of the spill file in \"{}\" "
      "were written with checksum {:016x} and read with {:016x}; check the disk and go on from the "
      "last checkpoint",
      slot, granule.bytes, place(s, generation, g), directory_, granule.checksum, found));
}

// The granule, if its first `to` bytes were written whole.
const SpillContent::Granule& SpillContent::readable(int slot, std::uint64_t g,
                                                    std::uint64_t to) const {
  const Slot& s = slots_[slot];
  const Granule& granule = s.generation[newest(s, g)][g];
  if (granule.status == Status::damaged)
    throw FileError(fmt::format(
        "spill: slot {} cannot be read from its byte {}: its last write failed; write it again",
        slot, g * kGranule));
  if (granule.bytes < to)
    throw FileError(fmt::format(
        "spill: slot {} holds {} bytes from its byte {}, and {} are wanted; write them first", slot,
        granule.bytes, g * kGranule, to));
  return granule;
}

std::uint64_t SpillContent::sum(int slot, int generation, std::uint64_t g, const std::byte* content,
                                std::uint64_t bytes) const {
  return kernels::checksum(content, bytes, place(slots_[slot], generation, g) + 1);
}

}  // namespace ebb::exec
