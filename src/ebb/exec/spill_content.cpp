#include "ebb/exec/spill_content.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "ebb/base/error.hpp"
#include "ebb/kernels/checksum.hpp"

namespace ebb::exec {
namespace {

constexpr std::uint64_t kPage = File::kDirectAlignment;

constexpr std::uint64_t up(std::uint64_t n, std::uint64_t unit) {
  return n / unit * unit + (n % unit ? unit : 0);
}
std::uint64_t granules(std::uint64_t bytes) {
  return up(bytes, SpillContent::kGranule) / SpillContent::kGranule;
}

template <class F>
auto named(F f) {
  try {
    return f();
  } catch (const FileError& e) {
    throw FileError(fmt::format("spill: {}", e.what()));
  }
}

}  // namespace

std::string spill_directory(const std::string& asked) {
  return asked.empty() ? temporary_folder() : asked;
}

bool SpillRange::meets(const SpillRange& o) const {
  if (memory < o.memory + o.bytes && o.memory < memory + bytes) return true;
  if (slot != o.slot) return false;
  constexpr std::uint64_t kUnit = SpillContent::kGranule;
  return replaces || o.replaces ||
         (offset / kUnit < granules(o.offset + o.bytes) &&
          o.offset / kUnit < granules(offset + bytes));
}

SpillContent::Layout SpillContent::layout_of(std::span<const SpillSlot> slots) {
  Layout all;
  std::uint64_t most = 0;
  for (const SpillSlot& s : slots) {
    const std::uint64_t times = s.two_generations ? 2 : 1;
    if (s.bytes > (std::uint64_t{1} << 56))
      throw Error(fmt::format("spill: a slot of {} bytes is more than any disk holds", s.bytes));
    all.file += times * up(s.bytes, kPage);
    all.granules += times * granules(s.bytes);
    all.turns += s.two_generations ? granules(s.bytes) : 0;
    most = std::max(most, s.bytes);
  }
  all.bounce = std::min(kGranule, up(most, kPage));
  all.tables =
      slots.size() * sizeof(Slot) + all.granules * sizeof(Granule) + all.turns * sizeof(Turn);
  return all;
}

std::uint64_t SpillContent::file_bytes(std::span<const SpillSlot> slots) {
  return layout_of(slots).file;
}

std::uint64_t SpillContent::memory_bytes(const SpillOptions& options,
                                         std::span<const SpillSlot> slots) {
  const Layout layout = layout_of(slots);
  return layout.tables + layout.bounce * static_cast<std::uint64_t>(options.threads) + kPage;
}

SpillContent::SpillContent(const SpillOptions& options, std::span<const SpillSlot> given)
    : directory_(spill_directory(options.directory)), slot_count_(static_cast<int>(given.size())) {
  if (options.threads < 1 || options.threads > kMostThreads)
    throw Error(fmt::format("spill: {} threads; expected 1 or 2", options.threads));
  const Layout layout = layout_of(given);
  if (options.bytes && options.bytes < layout.file)
    throw Error(
        fmt::format("spill: the slots need {} bytes, and {} are to be reserved; reserve more",
                    layout.file, options.bytes));

  file_ = named([&] { return File::temporary(directory_, options.direct); });
  if (file_.in_memory() && !options.allow_memory)
    throw FileError(
        fmt::format("spill: \"{}\" is on a file system in memory (tmpfs), so that spilling there "
                    "frees nothing; "
                    "choose a directory on a disk: TMPDIR, or the option",
                    directory_));
  named([&] { file_.reserve(std::max(options.bytes, layout.file)); });

  tables_ = memory::Buffer(layout.tables, "spill tables", Category::workspace);
  bounces_ = memory::Buffer(layout.bounce * static_cast<std::uint64_t>(options.threads) + kPage,
                            "spill buffer", Category::workspace);
  auto* aligned =
      reinterpret_cast<std::byte*>(up(reinterpret_cast<std::uintptr_t>(bounces_.data()), kPage));
  for (int t = 0; t < options.threads; ++t)
    bounce_[static_cast<std::size_t>(t)] = aligned + static_cast<std::uint64_t>(t) * layout.bounce;
  lay_out(given, layout);
  if (layout.file) named([&] { probe_direct(); });
}

void SpillContent::lay_out(std::span<const SpillSlot> given, const Layout& layout) {
  // In the order of their alignment.
  std::byte* at = tables_.data();
  const auto take = [&]<class T>(T*& array, std::uint64_t count) {
    array = reinterpret_cast<T*>(at);
    for (std::uint64_t i = 0; i < count; ++i) new (array + i) T();
    at += count * sizeof(T);
  };
  Granule* free_granules = nullptr;
  Turn* free_turns = nullptr;
  take(slots_, given.size());
  take(free_granules, layout.granules);
  take(free_turns, layout.turns);
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::uint64_t bytes = given[i].bytes, count = granules(bytes), area = up(bytes, kPage);
    const bool two = given[i].two_generations;
    Granule* const second = two ? free_granules + count : free_granules;
    const InitialValue* const first = given[i].first.get();
    slots_[i] = {bytes, offset, area, count, {free_granules, second}, two ? free_turns : nullptr,
                 first, given[i].size};
    if (first) firsts_.push_back(given[i].first);
    for (std::uint64_t g = 0; first && g < count; ++g)
      free_granules[g] = {0, static_cast<std::uint32_t>(std::min(kGranule, bytes - g * kGranule)),
                          Status::first};
    free_granules += two ? 2 * count : count;
    free_turns += two ? count : 0;
    offset += two ? 2 * area : area;
  }
}

// Some file systems take the flag and refuse the transfer.
void SpillContent::probe_direct() {
  const std::span<std::byte> page(bounce_[0], kPage);
  if (file_.direct()) {
    try {
      std::memset(page.data(), 0, page.size());
      file_.write_at(0, page);
      file_.read_at(0, page);
      return;
    } catch (const FileError&) {
    }
  }
  file_.set_direct(false);
}

void SpillContent::check_range(int slot, std::uint64_t offset, std::uint64_t bytes) const {
  if (slot < 0 || slot >= slot_count_)
    throw Error(
        fmt::format("spill: there is no slot {}; slots are 0 to {}", slot, slot_count_ - 1));
  const Slot& s = slots_[slot];
  if (offset > s.bytes || bytes > s.bytes - offset)
    throw Error(fmt::format("spill: slot {} has {} bytes; {} bytes at {} do not lie in it", slot,
                            s.bytes, bytes, offset));
}

// Until it is done, what it writes is damaged: a write that fails leaves no mixture of old and new
// behind. Parts are marked when their granule is written, since they need its old content.
void SpillContent::begin_write(const SpillRange& range) {
  const Slot& s = slots_[range.slot];
  for (std::uint64_t g = 0; range.replaces && g < s.granules; ++g) {
    const bool behind = g >= granules(range.bytes);
    s.generation[target(s, g)][g] = {0, 0, behind ? Status::none : Status::damaged};
    if (s.turns) s.turns[g].pending = 1;
  }
}

// Called with the lock held, when no piece of it is being moved.
void SpillContent::mark_failed(const SpillRange& range) {
  const Slot& s = slots_[range.slot];
  for (std::uint64_t g = range.offset / kGranule; g < granules(range.offset + range.bytes); ++g) {
    s.generation[target(s, g)][g].status = Status::damaged;
    if (s.turns) s.turns[g].pending = 1;
  }
}

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

template <class F>
void SpillContent::each_pending(F f) const {
  for (int i = 0; i < slot_count_; ++i) {
    const Slot& s = slots_[i];
    for (std::uint64_t g = 0; s.turns && g < s.granules; ++g)
      if (s.turns[g].pending) f(i, s, g);
  }
}

void SpillContent::commit() {
  each_pending([&](int slot, const Slot& s, std::uint64_t g) {
    if (s.generation[target(s, g)][g].status == Status::damaged)
      throw FileError(fmt::format(
          "spill: cannot commit: slot {} was not written whole at its byte {}; what was committed "
          "before is as it was, roll back",
          slot, g * kGranule));
  });
  each_pending([](int, const Slot& s, std::uint64_t g) {
    s.turns[g] = {static_cast<std::uint8_t>(1 - s.turns[g].committed), 0};
  });
}

void SpillContent::rollback() {
  each_pending([](int, const Slot& s, std::uint64_t g) { s.turns[g].pending = 0; });
}

std::uint64_t SpillContent::offset_of(int slot) const {
  check_range(slot, 0, 0);
  const Slot& s = slots_[slot];
  return s.granules ? place(s, newest(s, 0), 0) : s.offset;
}

}  // namespace ebb::exec
