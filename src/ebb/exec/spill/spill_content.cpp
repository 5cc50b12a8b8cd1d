#include "ebb/exec/spill/spill_content.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "ebb/base/error.hpp"

namespace ebb::exec {
namespace {

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
         (offset / kUnit < SpillContent::granules(o.offset + o.bytes) &&
          o.offset / kUnit < SpillContent::granules(offset + bytes));
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
    slots_[i] = {
        bytes, offset,       area, count, {free_granules, second}, two ? free_turns : nullptr,
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
