#include "ebb/text/bpe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/text/array.hpp"
#include "ebb/text/words.hpp"

namespace ebb::text {
namespace {

static_assert(Bpe::kLongestPiece == kLongestWord);
constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();

// left, right and what they make, 20 bits each: an entry of the hash table of pairs. No pair: all ones.
constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
constexpr std::uint64_t kIdMask = (1 << 20) - 1;
std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 20 | static_cast<std::uint64_t>(right);
}
std::size_t hash_of(std::uint64_t key) {
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 32);
}

// The words that were met lately and their tokens: most of a text is a few words.
class WordCache {
 public:
  static constexpr std::size_t kLongest = 15, kMostTokens = 6;
  struct Slot {
    std::uint64_t key[2];  // the word's bytes, zeros behind them, and last its length
    std::uint32_t count;   // of tokens; 0: none is kept here
    std::int32_t tokens[kMostTokens];
  };

  // The slot of a word of up to kLongest bytes: its own where there is a count.
  Slot& find(std::string_view word) {
    char bytes[kLongest + 1] = {};
    std::memcpy(bytes, word.data(), word.size());
    bytes[kLongest] = static_cast<char>(word.size());
    std::uint64_t key[2];
    std::memcpy(key, bytes, sizeof key);
    Slot& slot = slots_[hash_of(key[0] ^ std::rotl(key[1], 23)) % kSlots];
    if (slot.key[0] != key[0] || slot.key[1] != key[1]) slot = {{key[0], key[1]}, 0, {}};
    return slot;
  }

 private:
  static constexpr std::size_t kSlots = 1024;
  Slot slots_[kSlots] = {};
};

}  // namespace

struct Bpe::Tables {
  Array<Merge> merges{"bpe"};
  Array<char> bytes{"bpe"};          // pieces, one after the other
  Array<std::uint32_t> ends{"bpe"};  // of the piece of each token in them
  Array<std::uint64_t> pairs{"bpe"};

  std::string_view piece(std::int32_t id) const {
    const auto i = static_cast<std::size_t>(id);
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return {bytes.data() + begin, ends[i] - begin};
  }

  std::uint64_t& slot(std::uint64_t key) const {
    std::size_t at = hash_of(key) & (pairs.size() - 1);
    while (pairs[at] != kEmpty && pairs[at] >> 20 != key) at = (at + 1) & (pairs.size() - 1);
    return pairs[at];
  }

  // What two tokens make, which is also when: the smaller, the sooner.
  std::int32_t merged(std::int32_t left, std::int32_t right) const {
    const std::uint64_t found = slot(pair_key(left, right));
    return found == kEmpty ? kNone : static_cast<std::int32_t>(found & kIdMask);
  }

  std::size_t encode_word(std::string_view word, std::int32_t* to) const;
};

Bpe::Bpe(std::span<const Merge> merges) {
  if (merges.size() > static_cast<std::size_t>(kMost - kBytes))
    throw Error(
        fmt::format("vocabulary: {} merges, expected at most {}", merges.size(), kMost - kBytes));
  auto t = std::make_shared<Tables>();
  t->merges.append(merges);
  t->pairs = Array<std::uint64_t>("bpe", std::bit_ceil(2 * merges.size() + 2), kEmpty);
  for (int c = 0; c < kBytes; ++c) {
    t->bytes.push_back(static_cast<char>(c));
    t->ends.push_back(static_cast<std::uint32_t>(t->bytes.size()));
  }
  for (const auto [left, right] : merges) {
    const auto id = static_cast<std::int32_t>(t->ends.size());
    if (left < 0 || right < 0 || left >= id || right >= id)
      throw Error(
          fmt::format("vocabulary: token {} is made of {} and {}, expected two tokens before it",
                      id, left, right));
    const std::size_t length = t->piece(left).size() + t->piece(right).size();
    if (length > kLongestPiece)
      throw Error(fmt::format("vocabulary: token {} has {} bytes, expected at most {}", id, length,
                              kLongestPiece));
    std::uint64_t& slot = t->slot(pair_key(left, right));
    if (slot != kEmpty)
      throw Error(fmt::format("vocabulary: tokens {} and {} are made of the same two, {} and {}",
                              slot & kIdMask, id, left, right));
    slot = pair_key(left, right) << 20 | static_cast<std::uint64_t>(id);
    for (const std::int32_t part : {left, right}) {
      char piece[kLongestPiece];
      const std::string_view from = t->piece(part);
      const std::size_t n = from.copy(piece, kLongestPiece);
      t->bytes.append(std::span<const char>(piece, n));
    }
    t->ends.push_back(static_cast<std::uint32_t>(t->bytes.size()));
  }
  tables_ = std::move(t);
}

std::int32_t Bpe::size() const { return static_cast<std::int32_t>(tables_->ends.size()); }
std::string_view Bpe::piece(std::int32_t id) const { return tables_->piece(id); }
std::size_t Bpe::settled(std::string_view text) const { return settled_words(text); }
std::span<const Merge> Bpe::merges() const {
  return {tables_->merges.data(), tables_->merges.size()};
}

std::size_t Bpe::encode_into(std::string_view text, std::int32_t* to) const {
  constexpr std::size_t kWorthACache = 4096;
  std::size_t count = 0;
  if (text.size() < kWorthACache) {
    each_word(text,
              [&](std::string_view word) { count += tables_->encode_word(word, to + count); });
    return count;
  }
  WordCache cache;
  each_word(text, [&](std::string_view word) {
    if (word.size() > WordCache::kLongest) {
      count += tables_->encode_word(word, to + count);
      return;
    }
    WordCache::Slot& slot = cache.find(word);
    if (slot.count > 0) {
      std::copy_n(slot.tokens, slot.count, to + count);
      count += slot.count;
      return;
    }
    const std::size_t n = tables_->encode_word(word, to + count);
    if (n <= WordCache::kMostTokens) {
      slot.count = static_cast<std::uint32_t>(n);
      std::copy_n(to + count, n, slot.tokens);
    }
    count += n;
  });
  return count;
}

// Words are short: looking for the next merge through all of them is as quick as a heap.
std::size_t Bpe::Tables::encode_word(std::string_view word, std::int32_t* to) const {
  std::int32_t next[kLongestWord];  // what token i and the one after it make
  std::size_t n = word.size();
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<unsigned char>(word[i]);
  for (std::size_t i = 0; i + 1 < n; ++i) next[i] = merged(to[i], to[i + 1]);
  while (n > 1) {
    std::size_t first = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (next[i] < next[first]) first = i;
    if (next[first] == kNone) break;
    to[first] = next[first];
    --n;
    for (std::size_t i = first + 1; i < n; ++i) {
      to[i] = to[i + 1];
      if (i + 1 < n) next[i] = next[i + 1];
    }
    if (first > 0) next[first - 1] = merged(to[first - 1], to[first]);
    if (first + 1 < n) next[first] = merged(to[first], to[first + 1]);
  }
  return n;
}

}  // namespace ebb::text
