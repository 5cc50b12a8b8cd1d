// How often each word of a text occurs, in bounded memory: all that a byte-pair vocabulary learns from.
//
// Where a text has more words than there is room for, the rarest so far are forgotten: those met once,
// and if that is not enough those met fewer than 3, 5, 9 … times. What is left is a function of the
// text and the room alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ebb/text/array.hpp"

namespace ebb::text {

class WordCounts {
 public:
  // Room is counted in bytes of words and one more for each.
  explicit WordCounts(std::size_t room);

  // Counts the words of a text, and gives how many bytes of it were used: all, or where it goes on those
  // of words that are over. The rest comes again with what follows.
  std::size_t add(std::string_view text, bool goes_on);

  std::size_t words() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_.size(); }
  std::string_view word(std::size_t i) const {
    return {bytes_.data() + entries_[i].begin, entries_[i].length};
  }
  std::uint64_t count(std::size_t i) const { return entries_[i].count; }
  std::uint64_t forgotten() const { return forgotten_; }  // occurrences

 private:
  struct Entry {
    std::uint64_t count;
    std::uint32_t begin, hash;
    std::uint32_t length;
  };
  void count_one(std::string_view word);
  void forget_rare();
  void fill_slots(std::size_t size);

  std::size_t room_;
  std::uint64_t forgotten_ = 0;
  Array<char> bytes_{"word_counts"};
  Array<Entry> entries_{"word_counts"};  // in the order in which they were met
  Array<std::uint32_t> slots_{
      "word_counts"};  // a hash table of them: 0, or 1 + which; a power of two
};

}  // namespace ebb::text
