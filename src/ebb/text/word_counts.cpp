#include "ebb/text/word_counts.hpp"

#include <cstring>

#include "ebb/base/rng.hpp"
#include "ebb/text/words.hpp"

namespace ebb::text {
namespace {

constexpr std::size_t kFirstSlots = 1 << 12;

// Of up to 64 bytes, eight at a time.
std::uint32_t hash_of(std::string_view word) {
  std::uint64_t h = word.size();
  const char* at = word.data();
  std::size_t left = word.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t part;
    std::memcpy(&part, at, 8);
    h = (h ^ part) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  std::uint64_t part = 0;
  std::memcpy(&part, at, left);
  return static_cast<std::uint32_t>(mix(h ^ part));
}

}  // namespace

WordCounts::WordCounts(std::size_t room) : room_(room) { fill_slots(kFirstSlots); }

std::size_t WordCounts::add(std::string_view text, bool goes_on) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = word_end(text, at);
    if (goes_on && end == text.size()) break;
    count_one(text.substr(at, end - at));
    at = end;
  }
  return at;
}

void WordCounts::count_one(std::string_view word) {
  const std::uint32_t hash = hash_of(word);
  std::size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    Entry& e = entries_[slots_[slot] - 1];
    if (e.hash == hash && e.length == word.size() &&
        std::memcmp(bytes_.data() + e.begin, word.data(), word.size()) == 0) {
      ++e.count;
      return;
    }
  }
  entries_.push_back({1, static_cast<std::uint32_t>(bytes_.size()), hash,
                      static_cast<std::uint32_t>(word.size())});
  bytes_.append(word);
  slots_[slot] = static_cast<std::uint32_t>(entries_.size());
  if (bytes_.size() + entries_.size() > room_) return forget_rare();
  if (2 * entries_.size() > slots_.size()) fill_slots(2 * slots_.size());
}

// Until half the room is free, so that it is seldom done.
void WordCounts::forget_rare() {
  for (std::uint64_t least = 2; bytes_.size() + entries_.size() > room_ / 2;
       least = 2 * least - 1) {
    std::size_t kept = 0, bytes = 0;
    for (const Entry& old : entries_) {
      if (old.count < least) {
        forgotten_ += old.count;
        continue;
      }
      Entry e = old;
      std::memmove(bytes_.data() + bytes, bytes_.data() + e.begin, e.length);
      e.begin = static_cast<std::uint32_t>(bytes);
      bytes += e.length;
      entries_[kept++] = e;
    }
    entries_.resize_down(kept);
    bytes_.resize_down(bytes);
  }
  fill_slots(slots_.size());
}

void WordCounts::fill_slots(std::size_t size) {
  slots_ = Array<std::uint32_t>("word_counts", size, 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t slot = entries_[i].hash & (size - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (size - 1);
    slots_[slot] = static_cast<std::uint32_t>(i + 1);
  }
}

}  // namespace ebb::text
