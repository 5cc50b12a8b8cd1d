// The pairs of tokens that occur side by side while a vocabulary is trained: how often, and where.
//
// The places of a pair are a list through an array of links, one for each position of the words, in which a
// position stands at most once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ebb/text/array.hpp"
#include "ebb/text/bpe.hpp"

namespace ebb::text {

class PairTable {
 public:
  using Place = std::int32_t;
  static constexpr Place kNowhere = -1;
  struct Link {
    Place before = kNowhere, after = kNowhere;
  };

  explicit PairTable(const char* site) : entries_(site, kFirst, {}), site_(site) {}

  // Counts a place `weight` times; true: the pair had none before.
  bool add(Merge pair, Place place, std::int64_t weight, Link* links) {
    if (3 * (used_ + 1) > 2 * entries_.size()) grow();
    Entry& e = entries_[find(pair)];
    if (e.pair.left < 0) {
      e.pair = pair;
      ++used_;
    }
    const bool first = e.count == 0;
    e.count += weight;
    links[place] = {kNowhere, e.first};
    if (e.first != kNowhere) links[e.first].before = place;
    e.first = place;
    return first;
  }

  void remove(Merge pair, Place place, std::int64_t weight, Link* links) {
    Entry& e = entries_[find(pair)];
    e.count -= weight;
    const Link link = links[place];
    (link.before == kNowhere ? e.first : links[link.before].after) = link.after;
    if (link.after != kNowhere) links[link.after].before = link.before;
  }

  std::int64_t count(Merge pair) const { return entries_[find(pair)].count; }
  Place first(Merge pair) const { return entries_[find(pair)].first; }

 private:
  struct Entry {
    Merge pair{-1, -1};  // none
    std::int64_t count = 0;
    Place first = kNowhere;
  };
  static constexpr std::size_t kFirst = 1 << 12;

  std::size_t find(Merge pair) const {  // where it is, or would be
    const std::uint64_t key =
        static_cast<std::uint64_t>(pair.left) << 32 | static_cast<std::uint64_t>(pair.right);
    const std::size_t mask = entries_.size() - 1;
    std::size_t at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (entries_[at].pair.left >= 0 && !(entries_[at].pair == pair)) at = (at + 1) & mask;
    return at;
  }

  // Those that occur no more are left out.
  void grow() {
    std::size_t alive = 0;
    for (const Entry& e : entries_) alive += e.count > 0;
    std::size_t size = kFirst;
    while (size < 3 * alive) size *= 2;
    Array<Entry> old(site_, size, {});
    std::swap(old, entries_);
    used_ = alive;
    for (const Entry& e : old)
      if (e.count > 0) entries_[find(e.pair)] = e;
  }

  Array<Entry> entries_;  // a power of two, at most two thirds of them used
  const char* site_;
  std::size_t used_ = 0;
};

}  // namespace ebb::text
