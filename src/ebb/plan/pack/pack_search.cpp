#include "ebb/plan/pack/pack_search.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "ebb/plan/pack/limits.hpp"

namespace ebb::plan {
namespace {

using Word = std::uint64_t;
using Set = std::vector<Word>;  // of rectangles, one bit each

constexpr Word kNever = std::numeric_limits<Word>::max();

enum class Outcome { solved, failed, stopped };

class Search {
 public:
  Search(std::span<const Rectangle> rectangles, Word capacity, Word& work)
      : blocks_(rectangles),
        capacity_(capacity),
        work_(work),
        words_((rectangles.size() + 63) / 64) {
    const std::size_t n = blocks_.size();
    for (const Rectangle& b : blocks_) sections_ = std::max(sections_, b.last);
    in_section_.resize(sections_);
    for (std::size_t i = 0; i < n; ++i)
      for (int s = blocks_[i].first; s < blocks_[i].last; ++s)
        in_section_[s].push_back(static_cast<int>(i));
    overlapping_.resize(n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (i != j && blocks_[i].first < blocks_[j].last && blocks_[j].first < blocks_[i].last)
          overlapping_[i].push_back(static_cast<int>(j));
    seen_.resize(sections_);
    conflict_.resize(words_);
    offsets_.resize(n);
    stack_.resize(n);
  }

  // One run from an empty strip. `rank` orders rectangles of equal weight.
  Outcome run(const std::vector<int>& rank, std::vector<Word>& weight, Word placements) {
    rank_ = &rank;
    weight_ = &weight;
    placements_left_ = placements;
    trail_.clear();
    const std::size_t n = blocks_.size();
    placed_.assign(n, 0);
    lowest_.assign(n, 0);
    why_.assign(n * words_, 0);
    to_place_.assign(sections_, 0);
    free_from_.assign(sections_, 0);
    spanning_.assign(sections_ + 1, 0);
    for (const Rectangle& b : blocks_) {
      for (int s = b.first; s < b.last; ++s) to_place_[s] += b.bytes;
      for (int s = b.first + 1; s < b.last; ++s) ++spanning_[s];
    }
    for (const Word sum : to_place_)
      if (sum > capacity_) return Outcome::failed;
    return solve(0, sections_);
  }

  const std::vector<Word>& offsets() const { return offsets_; }

 private:
  void set(Word& variable, Word value) {
    trail_.emplace_back(&variable, variable);
    variable = value;
  }
  void undo(std::size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) *trail_.back().first = trail_.back().second;
  }
  bool look(Word count) {  // false when the work is used up
    work_ -= std::min(work_, count);
    return work_ > 0;
  }
  Word* why(int block) { return &why_[block * words_]; }
  void blame(int block) { (*weight_)[block] += kPack.failure_weight; }

  void raise(int block, Word lowest, const Set& because) {
    set(lowest_[block], lowest);
    for (std::size_t w = 0; w < words_; ++w)
      if (why(block)[w] != because[w]) set(why(block)[w], because[w]);
    touch(block);
  }
  void touch(int block) {  // its sections are to be looked at again
    for (int s = blocks_[block].first; s < blocks_[block].last; ++s)
      if (seen_[s] != stamp_) {
        seen_[s] = stamp_;
        touched_.push_back(s);
      }
  }

  // What is still to be placed in a section, in the order of the lowest places it can take. The
  // section's members are kept nearly so, what is placed before it: inserting is quick then.
  void order_stack(std::vector<int>& members) {
    std::size_t placed = 0, count = 0;
    for (const int k : members) {
      if (placed_[k]) {
        members[placed++] = k;
        continue;
      }
      const std::pair here(lowest_[k], k);
      std::size_t to = count++;
      for (; to > 0 && stack_[to - 1] > here; --to) stack_[to] = stack_[to - 1];
      stack_[to] = here;
    }
    for (std::size_t q = 0; q < count; ++q) members[placed + q] = stack_[q].second;
    stacked_ = count;
  }

  // The lowest and the highest of the places that what is still to be placed there can take.
  std::pair<Word, Word> places(const std::vector<int>& members) const {
    Word least = kNever, most = 0;
    for (const int k : members) {
      const Word open = placed_[k] - 1;  // all bits, or none where it is placed
      least = std::min(least, lowest_[k] | ~open);
      most = std::max(most, lowest_[k] & open);
    }
    return {least, most};
  }

  // Stacked in the order of the lowest places it can take: no packing of what is still to be placed
  // in a section ends lower. On failure, conflict_ is what those places rest on.
  bool section_fits(int section) {
    std::vector<int>& members = in_section_[section];
    look(members.size());
    const auto [from, highest] = places(members);
    if (free_from_[section] != from) set(free_from_[section], from);
    if (highest + to_place_[section] <= capacity_) return true;  // in any order
    order_stack(members);
    Word top = 0;
    std::size_t base = 0;  // the stack is without a gap from here on
    for (std::size_t q = 0; q < stacked_; ++q) {
      if (stack_[q].first >= top) {
        top = stack_[q].first;
        base = q;
      }
      top += blocks_[stack_[q].second].bytes;
      if (top <= capacity_) continue;
      std::fill(conflict_.begin(), conflict_.end(), 0);
      for (std::size_t p = base; p <= q; ++p)
        for (std::size_t w = 0; w < words_; ++w) conflict_[w] |= why(stack_[p].second)[w];
      for (std::size_t p = 0; p < stacked_; ++p) blame(stack_[p].second);
      return false;
    }
    return true;
  }
  bool touched_fit() {
    return std::all_of(touched_.begin(), touched_.end(), [&](int s) { return section_fits(s); });
  }

  bool place(int block) {
    const Rectangle& b = blocks_[block];
    const Word top = lowest_[block] + b.bytes;
    --placements_left_;
    ++stamp_;
    touched_.clear();
    set(placed_[block], 1);
    offsets_[block] = lowest_[block];
    for (int s = b.first; s < b.last; ++s) set(to_place_[s], to_place_[s] - b.bytes);
    for (int s = b.first + 1; s < b.last; ++s) set(spanning_[s], spanning_[s] - 1);
    touch(block);
    because_.assign(why(block), why(block) + words_);
    because_[block / 64] |= Word{1} << (block % 64);
    look(overlapping_[block].size());
    for (const int k : overlapping_[block]) {
      if (placed_[k] || lowest_[k] >= top) continue;
      const Word lowest = blocks_[k].at_or_above(top);
      if (lowest + blocks_[k].bytes > capacity_) {
        conflict_ = because_;
        blame(k);
        return false;
      }
      raise(k, lowest, because_);
    }
    return touched_fit();
  }

  // None of `candidates` lies where it could: each then rests on something still to be placed.
  bool lift(const std::vector<int>& candidates, const Set& because) {
    std::vector<Word> lifted;
    for (const int k : candidates) {
      Word lowest = kNever;
      look(overlapping_[k].size());
      for (const int j : overlapping_[k])
        if (!placed_[j]) lowest = std::min(lowest, lowest_[j] + blocks_[j].bytes);
      if (lowest != kNever) lowest = blocks_[k].at_or_above(lowest);
      if (lowest == kNever || lowest + blocks_[k].bytes > capacity_) {
        conflict_.assign(why(k), why(k) + words_);
        blame(k);
        return false;
      }
      lifted.push_back(lowest);
    }
    ++stamp_;
    touched_.clear();
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      Set reasons(why(candidates[c]), why(candidates[c]) + words_);
      for (std::size_t w = 0; w < words_; ++w) reasons[w] |= because[w];
      raise(candidates[c], lifted[c], reasons);
    }
    return touched_fit();
  }

  bool same_shape(int a, int b) const {
    return blocks_[a].first == blocks_[b].first && blocks_[a].last == blocks_[b].last &&
           blocks_[a].bytes == blocks_[b].bytes;
  }

  // The rectangles that can lie where the lowest free space of the part begins, the one with the
  // least to spare first among equals. Empty: nothing is left to place.
  std::vector<int> candidates(int begin, int end) const {
    int section = -1;
    Word spare = 0;
    for (int s = begin; s < end; ++s) {
      if (to_place_[s] == 0) continue;
      const Word here = capacity_ - free_from_[s] - to_place_[s];
      if (section >= 0 && free_from_[s] > free_from_[section]) continue;
      if (section >= 0 && free_from_[s] == free_from_[section] && here >= spare) continue;
      section = s;
      spare = here;
    }
    std::vector<int> result;
    if (section < 0) return result;
    for (const int k : in_section_[section])
      if (!placed_[k] && lowest_[k] == free_from_[section]) result.push_back(k);
    std::sort(result.begin(), result.end(), [&](int x, int y) {
      const Word wx = (*weight_)[x], wy = (*weight_)[y];
      return wx != wy ? wx > wy : (*rank_)[x] < (*rank_)[y];
    });
    return result;
  }

  // Sections begin … end, which no rectangle to be placed leaves. On failure, conflict_ is the set
  // of placements the failure rests on.
  Outcome solve_part(int begin, int end) {
    const std::size_t mark = trail_.size();
    Set reasons(words_);
    for (;;) {
      const std::vector<int> tries = candidates(begin, end);
      if (tries.empty()) return Outcome::solved;
      for (std::size_t q = 0; q < tries.size(); ++q) {
        const int i = tries[q];
        if (std::any_of(tries.begin(), tries.begin() + q, [&](int j) { return same_shape(i, j); }))
          continue;
        if (placements_left_ == 0 || !look(end - begin)) return Outcome::stopped;
        const std::size_t before = trail_.size();
        if (place(i)) {
          const Outcome outcome = solve(begin, end);
          if (outcome != Outcome::failed) return outcome;
        }
        undo(before);
        Word& word = conflict_[i / 64];
        const Word bit = Word{1} << (i % 64);
        if (!(word & bit)) {
          undo(mark);
          return Outcome::failed;
        }
        word &= ~bit;
        for (std::size_t w = 0; w < words_; ++w) reasons[w] |= conflict_[w];
      }
      if (!lift(tries, reasons)) {
        undo(mark);
        for (std::size_t w = 0; w < words_; ++w) conflict_[w] |= reasons[w];
        return Outcome::failed;
      }
    }
  }

  // Parts on their own, the one with the least to spare first.
  Outcome solve(int begin, int end) {
    struct Part {
      Word spare;
      int begin, end;
    };
    std::vector<Part> parts;
    for (int s = begin; s < end;) {
      Part part{kNever, s, s};
      do {
        if (to_place_[part.end])
          part.spare = std::min(part.spare, capacity_ - free_from_[part.end] - to_place_[part.end]);
        ++part.end;
      } while (part.end < end && spanning_[part.end] > 0);
      if (part.spare != kNever) parts.push_back(part);
      s = part.end;
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.spare < b.spare; });
    for (const Part& part : parts)
      if (const Outcome outcome = solve_part(part.begin, part.end); outcome != Outcome::solved)
        return outcome;
    return Outcome::solved;
  }

  std::span<const Rectangle> blocks_;
  Word capacity_;
  Word& work_;
  std::size_t words_;
  int sections_ = 0;
  std::vector<std::vector<int>> in_section_, overlapping_;

  const std::vector<int>* rank_ = nullptr;
  std::vector<Word>* weight_ = nullptr;
  Word placements_left_ = 0;

  std::vector<Word> offsets_;
  std::vector<std::pair<Word*, Word>> trail_;  // what was changed, and the value before
  std::vector<Word> placed_;                   // of each rectangle: 1 or 0
  std::vector<Word> lowest_;                   // the lowest place it can take
  std::vector<Word> why_;                      // the placements that rests on: a Set each
  std::vector<Word> to_place_;                 // of each section: bytes not placed yet
  std::vector<Word> free_from_;                // the lowest place something can take
  std::vector<Word> spanning_;                 // rectangles to be placed over the cut before it

  Set conflict_, because_;
  std::vector<std::pair<Word, int>> stack_;  // of the section looked at: the first `stacked_`
  std::size_t stacked_ = 0;
  std::vector<int> touched_;
  std::vector<Word> seen_;
  Word stamp_ = 0;
};

// Three orders to begin with: longest, largest, and largest area first.
std::array<std::vector<int>, 3> ranks(std::span<const Rectangle> blocks) {
  std::array<std::vector<int>, 3> result;
  for (int order = 0; order < 3; ++order) {
    const auto key = [&](int i) {
      const Word width = static_cast<Word>(blocks[i].last - blocks[i].first),
                 bytes = blocks[i].bytes;
      return order == 0   ? std::pair(width, bytes)
             : order == 1 ? std::pair(bytes, width)
                          : std::pair(width * bytes, bytes);
    };
    std::vector<int> sorted(blocks.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](int x, int y) { return key(x) > key(y); });
    result[order].resize(blocks.size());
    for (std::size_t p = 0; p < sorted.size(); ++p) result[order][sorted[p]] = static_cast<int>(p);
  }
  return result;
}

}  // namespace

std::vector<std::uint64_t> search_packing(std::span<const Rectangle> rectangles,
                                          std::uint64_t capacity, std::uint64_t& work) {
  Search search(rectangles, capacity, work);
  const auto orders = ranks(rectangles);
  std::array<std::vector<Word>, 3> weights;
  for (auto& weight : weights) weight.assign(rectangles.size(), 0);
  std::array<bool, 3> over{};  // an order that has tried all it would
  const Word n = rectangles.size();
  for (Word length = 5 * n; work > 0; length += n / 2 + 1) {  // placements in a run
    for (std::size_t order = 0; order < orders.size(); ++order) {
      if (over[order]) continue;
      for (Word& weight : weights[order]) weight -= weight / 10;
      const Outcome outcome = search.run(orders[order], weights[order], length);
      if (outcome == Outcome::solved) return search.offsets();
      over[order] = outcome == Outcome::failed;
    }
    if (over[0] && over[1] && over[2]) break;
  }
  return {};
}

}  // namespace ebb::plan
