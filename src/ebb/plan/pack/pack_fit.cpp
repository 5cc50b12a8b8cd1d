#include "ebb/plan/pack/pack_fit.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "ebb/plan/pack/limits.hpp"

namespace ebb::plan {
namespace {

class Skyline {
 public:
  Skyline(const Rectangles& blocks, int sections)
      : blocks_(blocks),
        sections_(sections),
        starting_(sections),
        end_(sections),
        begin_(sections + 1),
        floor_(sections) {
    while (leaves_ < sections_) leaves_ *= 2;
    soonest_.assign(2 * leaves_, std::numeric_limits<int>::max());
    for (std::size_t i = 0; i < blocks.size(); ++i)
      starting_[blocks[i].first].push_back(static_cast<int>(i));
    for (int s = 0; s < sections_; ++s) {
      std::sort(starting_[s].begin(), starting_[s].end(), [&](int x, int y) {
        return std::tuple(blocks[x].last, blocks[x].bytes, y) <
               std::tuple(blocks[y].last, blocks[y].bytes, x);
      });
      update(s);
    }
  }

  Offsets run() {
    Offsets offsets(blocks_.size());
    cut(0, sections_, 0);
    while (!lowest_.empty()) {
      const auto [floor, begin] = lowest_.top();
      lowest_.pop();
      if (end_[begin] == 0 || floor_[begin] != floor) continue;  // it has changed since
      const int end = end_[begin];
      const int block = longest(begin, end);
      if (block >= 0) {
        const Rectangle& b = blocks_[block];
        offsets[block] = b.at_or_above(floor);
        end_[begin] = 0;
        if (begin < b.first) cut(begin, b.first, floor);
        if (b.last < end) cut(b.last, end, floor);
        join(b.first, b.last, offsets[block] + b.bytes);
      } else if (begin > 0 || end < sections_) {
        const std::uint64_t wall =
            std::min(begin > 0 ? floor_[begin_[begin]] : std::numeric_limits<std::uint64_t>::max(),
                     end < sections_ ? floor_[end] : std::numeric_limits<std::uint64_t>::max());
        end_[begin] = 0;
        join(begin, end, wall);
      }
    }
    return offsets;
  }

 private:
  void cut(int begin, int end, std::uint64_t floor) {
    end_[begin] = end;
    begin_[end] = begin;
    floor_[begin] = floor;
    lowest_.emplace(floor, begin);
  }
  void join(int begin, int end, std::uint64_t floor) {  // with neighbours of the same height
    if (end < sections_ && floor_[end] == floor) end = std::exchange(end_[end], 0);
    if (begin > 0 && floor_[begin_[begin]] == floor) begin = begin_[begin];
    cut(begin, end, floor);
  }

  void update(int section) {  // soonest_: a tree of the earliest end of what starts in a range
    int node = leaves_ + section;
    soonest_[node] = starting_[section].empty() ? std::numeric_limits<int>::max()
                                                : blocks_[starting_[section].front()].last;
    for (node /= 2; node > 0; node /= 2)
      soonest_[node] = std::min(soonest_[2 * node], soonest_[2 * node + 1]);
  }
  // The first section from `from` on where something starts that ends by `end`; or the number of
  // leaves.
  int next_start(int from, int end) const {
    int node = leaves_ + from;
    while (soonest_[node] > end) {
      while (node & 1) node /= 2;  // up from a right child (from the root: to 0)
      if (node == 0) return leaves_;
      ++node;
    }
    while (node < leaves_) node = soonest_[2 * node] <= end ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }
  // Removes and returns the longest block within begin … end, or -1. Looks at a bounded number.
  int longest(int begin, int end) {
    int best_section = -1, best_length = 0;
    std::ptrdiff_t best_at = 0;
    for (int s = begin, looks = 0; s < end && end - s > best_length && looks < kPack.fit_looks;
         ++s, ++looks) {
      s = next_start(s, end);
      if (s >= end) break;
      const auto after = std::upper_bound(starting_[s].begin(), starting_[s].end(), end,
                                          [&](int e, int i) { return e < blocks_[i].last; });
      const int length = blocks_[*(after - 1)].last - s;
      if (length <= best_length) continue;
      best_section = s;
      best_length = length;
      best_at = after - 1 - starting_[s].begin();
    }
    if (best_section < 0) return -1;
    const int block = starting_[best_section][best_at];
    starting_[best_section].erase(starting_[best_section].begin() + best_at);
    update(best_section);
    return block;
  }

  using Stretch = std::pair<std::uint64_t, int>;
  const Rectangles& blocks_;
  int sections_, leaves_ = 1;
  std::vector<std::vector<int>> starting_;  // in a section, by end
  std::vector<int> soonest_;
  std::vector<int> end_,
      begin_;  // of the stretch that begins or ends there; end 0: none begins there
  std::vector<std::uint64_t> floor_;
  std::priority_queue<Stretch, std::vector<Stretch>, std::greater<>> lowest_;
};

}  // namespace

Offsets skyline(const Rectangles& blocks, int sections) { return Skyline(blocks, sections).run(); }

Offsets best_fit_in_time(const Rectangles& blocks) {
  std::vector<int> starts(blocks.size()), ends;
  std::iota(starts.begin(), starts.end(), 0);
  ends = starts;
  std::stable_sort(starts.begin(), starts.end(), [&](int x, int y) {
    return std::tuple(blocks[x].first, blocks[y].last, blocks[y].bytes) <
           std::tuple(blocks[y].first, blocks[x].last, blocks[x].bytes);
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](int x, int y) { return blocks[x].last < blocks[y].last; });
  Offsets offsets(blocks.size());
  std::map<std::uint64_t, std::uint64_t> gaps;  // begin → bytes; above them, all is free
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size;  // the same: bytes, begin
  std::uint64_t top = 0;
  const auto drop = [&](std::map<std::uint64_t, std::uint64_t>::iterator gap) {
    by_size.erase({gap->second, gap->first});
    return gaps.erase(gap);
  };
  const auto add = [&](std::uint64_t begin, std::uint64_t bytes) {
    gaps.emplace(begin, bytes);
    by_size.emplace(bytes, begin);
  };
  auto ending = ends.begin();
  for (const int i : starts) {
    for (; ending != ends.end() && blocks[*ending].last <= blocks[i].first; ++ending) {
      std::uint64_t begin = offsets[*ending], end = begin + blocks[*ending].bytes;
      auto next = gaps.lower_bound(begin);
      if (next != gaps.end() && next->first == end) {
        end += next->second;
        next = drop(next);
      }
      if (next != gaps.begin() && std::prev(next)->first + std::prev(next)->second == begin) {
        begin = std::prev(next)->first;
        drop(std::prev(next));
      }
      if (end == top) {
        top = begin;
      } else {
        add(begin, end - begin);
      }
    }
    const auto found = std::find_if(
        by_size.lower_bound({blocks[i].bytes, 0}), by_size.end(), [&](const auto& gap) {
          return blocks[i].at_or_above(gap.second) + blocks[i].bytes <= gap.second + gap.first;
        });
    std::uint64_t begin = top, end = 0;  // of the gap
    if (found != by_size.end()) {
      begin = found->second, end = begin + found->first;
      drop(gaps.find(begin));
    }
    const std::uint64_t low = blocks[i].at_or_above(begin), high = low + blocks[i].bytes;
    offsets[i] = low;
    if (low > begin) add(begin, low - begin);
    if (high < end) add(high, end - high);
    top = std::max(top, high);
  }
  return offsets;
}

Offsets first_fit(const Rectangles& blocks, const std::vector<int>& order, Offsets offsets,
                  std::size_t fixed) {
  struct Placed {
    std::uint64_t begin, end;
    std::int32_t first, last;
  };
  std::vector<Placed> placed;  // by begin
  placed.reserve(blocks.size());
  offsets.resize(blocks.size());
  for (std::size_t o = 0; o < order.size(); ++o) {
    const Rectangle& b = blocks[order[o]];
    std::uint64_t at = 0;
    if (o < fixed) {
      at = offsets[order[o]];
    } else {
      for (const Placed& p : placed) {  // without a branch on what no one can foresee
        const bool meets = (p.last > b.first) & (b.last > p.first);
        if (meets & (p.begin >= at + b.bytes)) break;
        const std::uint64_t above = std::max(at, b.at_or_above(p.end));
        at = meets ? above : at;
      }
    }
    offsets[order[o]] = at;
    const auto after =
        std::upper_bound(placed.begin(), placed.end(), at,
                         [](std::uint64_t a, const Placed& p) { return a < p.begin; });
    placed.insert(after, {at, at + b.bytes, b.first, b.last});
  }
  return offsets;
}

}  // namespace ebb::plan
