#include "ebb/plan/pack/pack.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <utility>

#include "ebb/plan/pack/limits.hpp"
#include "ebb/plan/pack/pack_fit.hpp"
#include "ebb/plan/pack/pack_search.hpp"

namespace ebb::plan {
namespace {

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::uint64_t height(const Rectangles& blocks, const Offsets& offsets) {
  std::uint64_t top = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) top = std::max(top, offsets[i] + blocks[i].bytes);
  return top;
}

// The best packing so far of blocks that depend on each other, and ways to better it.
class Component {
 public:
  Component(Rectangles blocks, int sections, std::uint64_t goal)
      : blocks_(std::move(blocks)), sections_(sections), goal_(goal) {}

  const Offsets& pack(std::uint64_t& effort) {
    if (!consider(skyline(blocks_, sections_)) && !consider(best_fit_in_time(blocks_)) &&
        !consider(best_fit_in_time(mirrored())) && !with_half(effort, &Component::fullest_first) &&
        !with_half(effort, &Component::in_order))
      search(effort);
    return best_;
  }

 private:
  // What is not used comes back. With many blocks, first fit alone would use all the effort.
  bool with_half(std::uint64_t& effort, bool (Component::*way)(std::uint64_t&)) {
    std::uint64_t share = effort / 2;
    effort -= share;
    const bool enough = (this->*way)(share);
    effort += share;
    return enough;
  }

  bool consider(Offsets offsets) {
    const std::uint64_t top = height(blocks_, offsets);
    if (best_.empty() || top < height_) {
      height_ = top;
      best_ = std::move(offsets);
    }
    return height_ <= goal_;
  }
  Rectangles mirrored() const {  // in time: what ended first begins last
    Rectangles result = blocks_;
    for (Rectangle& b : result) b.first = sections_ - std::exchange(b.last, sections_ - b.first);
    return result;
  }

  // The load of the fullest section that each block lives through.
  std::vector<std::uint64_t> fullest() const {
    std::vector<std::vector<std::uint64_t>> most(1, std::vector<std::uint64_t>(sections_ + 1));
    for (const Rectangle& b : blocks_) {  // differences, which may wrap and come back
      most[0][b.first] += b.bytes;
      most[0][b.last] -= b.bytes;
    }
    std::partial_sum(most[0].begin(), most[0].end(), most[0].begin());
    for (int width = 1; 2 * width <= sections_;
         width *= 2) {  // most[w][s]: of 2^w sections from s on
      const std::vector<std::uint64_t>& half = most.back();
      std::vector<std::uint64_t> whole(half.size() - width);
      for (std::size_t s = 0; s < whole.size(); ++s) whole[s] = std::max(half[s], half[s + width]);
      most.push_back(std::move(whole));
    }
    std::vector<std::uint64_t> result;
    for (const Rectangle& b : blocks_) {
      const int log = std::bit_width(static_cast<unsigned>(b.last - b.first)) - 1;
      result.push_back(std::max(most[log][b.first], most[log][b.last - (1 << log)]));
    }
    return result;
  }

  // First fit, and a few rounds in which the blocks that came to lie above the goal go to the
  // front.
  bool in_rounds(std::vector<int>& order, std::uint64_t& effort, const Offsets& given = {},
                 std::size_t fixed = 0) {
    const std::uint64_t looks = blocks_.size() * blocks_.size() / 8;
    for (int round = 0; round < kPack.first_fit_rounds && looks <= effort; ++round) {
      effort -= looks;
      const Offsets offsets = first_fit(blocks_, order, given, fixed);
      if (consider(offsets)) return true;
      std::stable_partition(order.begin() + static_cast<std::ptrdiff_t>(fixed), order.end(),
                            [&](int i) { return offsets[i] + blocks_[i].bytes > goal_; });
    }
    return false;
  }

  // The longest, the largest or the largest area first; where memory is fullest first, or
  // everywhere alike.
  bool in_order(std::uint64_t& effort) {
    const std::vector<std::uint64_t> load = fullest();
    const auto key = [&](int i, int way) {
      const auto length = static_cast<std::uint64_t>(blocks_[i].last - blocks_[i].first);
      const std::uint64_t bytes = blocks_[i].bytes;
      return std::pair(way < 3 ? load[i] : 0, way % 3 == 0   ? length
                                              : way % 3 == 1 ? bytes
                                                             : bytes * length);
    };
    std::vector<int> order(blocks_.size());
    for (int way = 0; way < 6; ++way) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int x, int y) { return key(x, way) > key(y, way); });
      if (in_rounds(order, effort)) return true;
    }
    return false;
  }

  // The search proper is for the blocks that live where memory is nearly full; the others, which
  // have room, are fitted in afterwards.
  struct Core {
    std::vector<int> order;  // the core, then the others, those with the least room first
    Rectangles blocks;
  };
  Core core(std::uint64_t tenths) const {
    const std::vector<std::uint64_t> load = fullest();
    Core c;
    c.order.resize(blocks_.size());
    std::iota(c.order.begin(), c.order.end(), 0);
    std::stable_sort(c.order.begin(), c.order.end(), [&](int x, int y) {
      return std::pair(load[x], blocks_[x].bytes) > std::pair(load[y], blocks_[y].bytes);
    });
    const auto middle = std::find_if(c.order.begin(), c.order.end(),
                                     [&](int i) { return load[i] < goal_ / 10 * tenths; });
    std::sort(c.order.begin(), middle);
    for (auto i = c.order.begin(); i != middle; ++i) c.blocks.push_back(blocks_[*i]);
    return c;
  }
  bool search(Core& core, std::uint64_t capacity, std::uint64_t part, std::uint64_t& effort) {
    std::uint64_t share = effort / part + 1;
    effort -= std::min(effort, share);
    const Offsets found = search_packing(core.blocks, capacity, share);
    effort += share;
    if (found.empty()) return false;
    Offsets offsets(blocks_.size());
    for (std::size_t c = 0; c < found.size(); ++c) offsets[core.order[c]] = found[c];
    return in_rounds(core.order, effort, offsets, found.size());
  }

  // Where what fits into the fullest sections is found, it is found soon: before anything that
  // takes time with all blocks.
  bool fullest_first(std::uint64_t& effort) {
    Core c = core(9);
    if (c.blocks.size() > kPack.searchable_blocks) return false;
    const std::uint64_t part = effort / (kPack.soon_looks * (c.blocks.size() + 1)) + 1;
    return search(c, goal_, part, effort);
  }

  // Where the core does not do, for all.
  void search(std::uint64_t& effort) {
    for (const std::uint64_t tenths : {9, 7, 0}) {
      Core c = core(tenths);
      if (c.blocks.size() > kPack.searchable_blocks) continue;
      search(c, effort);
      if (height_ <= goal_ || c.blocks.size() == blocks_.size()) return;
    }
  }

  // First for the goal itself, then halving what is left between it and the best.
  void search(Core& core, std::uint64_t& effort) {
    std::uint64_t low = goal_, capacity = goal_;
    while (effort > 0 && height_ > low) {
      if (search(core, capacity, capacity == goal_ ? 2 : 4, effort)) return;
      if (height_ > capacity) low = capacity;
      if (height_ - low <= goal_ / kPack.close_divisor) return;
      capacity = low + (height_ - low) / 2;
    }
  }

  Rectangles blocks_;
  int sections_;
  std::uint64_t goal_, height_ = 0;
  Offsets best_;
};

}  // namespace

std::uint64_t load(std::span<const Block> blocks, std::uint64_t alignment) {
  std::vector<std::pair<std::int64_t, std::uint64_t>> changes;
  for (const Block& b : blocks) {
    if (b.first >= b.last) continue;
    changes.emplace_back(b.first, rounded_up(b.bytes, alignment));
    changes.emplace_back(b.last, 0 - rounded_up(b.bytes, alignment));
  }
  std::sort(changes.begin(), changes.end());
  std::uint64_t now = 0, most = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    now += changes[i].second;
    if (i + 1 == changes.size() || changes[i + 1].first != changes[i].first)
      most = std::max(most, now);
  }
  return most;
}

Packing pack(std::span<const Block> blocks, PackOptions options) {
  assert(std::has_single_bit(options.alignment));
  struct Event {
    std::int64_t step;
    bool start;  // ends come first
    int block;
    auto operator<=>(const Event&) const = default;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].first >= blocks[i].last || blocks[i].bytes == 0) continue;
    events.push_back({blocks[i].first, true, static_cast<int>(i)});
    events.push_back({blocks[i].last, false, static_cast<int>(i)});
  }
  std::sort(events.begin(), events.end());

  // Walking through time, an end after a start closes a section: a largest set alive together. When
  // nothing is alive, what came before is a component of its own.
  Packing result{Offsets(blocks.size()), 0};
  const std::uint64_t goal = std::max(options.enough, load(blocks, options.alignment));
  Rectangles component;
  std::vector<int> members, slot(blocks.size());
  int section = 0;
  bool grew = false;
  std::size_t ended = 0;
  for (const Event& event : events) {
    if (event.start) {
      slot[event.block] = static_cast<int>(component.size());
      members.push_back(event.block);
      const Block& b = blocks[event.block];
      assert(std::has_single_bit(b.alignment));
      component.push_back({section, 0, rounded_up(b.bytes, options.alignment),
                           std::max(b.alignment, options.alignment)});
      grew = true;
      continue;
    }
    section += std::exchange(grew, false);
    component[slot[event.block]].last = section;
    if (++ended < component.size()) continue;
    Component whole(std::exchange(component, {}), section, goal);
    const Offsets& offsets = whole.pack(options.effort);
    for (std::size_t m = 0; m < members.size(); ++m) {
      const int i = members[m];
      result.offsets[i] = offsets[m];
      result.bytes =
          std::max(result.bytes, offsets[m] + rounded_up(blocks[i].bytes, options.alignment));
    }
    members.clear();
    section = 0;
    ended = 0;
  }
  return result;
}

}  // namespace ebb::plan
