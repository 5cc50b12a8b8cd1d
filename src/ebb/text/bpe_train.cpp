// Training of a byte-pair vocabulary: words and their counts in, merges out.
//
// All words lie one after the other in one array of positions, a byte each, with a stop before every one of
// them. A token covers one or more positions, and is noted at its first. Each token that has another after
// it in its word is the left half of one pair, and stands in the list of that pair's places, which is linked
// through the positions: a merge visits its places, and moves them and their neighbours to other lists. So
// the memory is fixed before the first merge, but for the table of pairs, and the work of all merges
// together is a few steps for each byte of the words.
//
// The pair that occurs most often is found by a heap. Only a merge that makes a token brings new pairs, all
// of them of that token; counts of others only fall. So an entry of the heap is never too small, and one
// that is found too large is put back with the count that it has now.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "ebb/base/error.hpp"
#include "ebb/text/array.hpp"
#include "ebb/text/bpe.hpp"
#include "ebb/text/pair_table.hpp"
#include "ebb/text/pieces.hpp"
#include "ebb/text/word_counts.hpp"

namespace ebb::text {
namespace {

constexpr std::size_t kBytesEach = 48;  // of a position and its share of everything else
constexpr std::int64_t kLeastCount = 2;
constexpr const char* kSite = "train_bpe";

struct Candidate {
  std::int64_t count;
  Merge pair;
  // Of a heap: the largest is the one to merge.
  bool operator<(const Candidate& other) const {
    if (count != other.count) return count < other.count;
    if (pair.left != other.pair.left) return pair.left > other.pair.left;
    return pair.right > other.pair.right;
  }
};

class Trainer {
 public:
  explicit Trainer(const WordCounts& words);
  bool next(Merge& merge);  // the pair to merge; false: none occurs twice
  void merge(Merge pair, std::int32_t made);
  void offer_new_pairs();

 private:
  using Place = PairTable::Place;
  static constexpr std::int32_t kStop = -1;

  std::int32_t& token(Place p) { return tokens_[static_cast<std::size_t>(p)]; }
  std::uint8_t& length(Place p) { return lengths_[static_cast<std::size_t>(p)]; }
  Place after(Place p) { return p + length(p); }
  Place before(Place p) { return p - length(p - 1); }
  bool has_after(Place p) { return token(after(p)) != kStop; }
  bool has_before(Place p) { return length(p - 1) != 0; }
  std::int64_t weight(Place p) {
    return counts_[static_cast<std::size_t>(words_[static_cast<std::size_t>(p)])];
  }
  void add(Place p);
  void remove(Place p);
  void merge_at(Place p, std::int32_t made);

  // By position. A length stands at a token's first and last position, and is 0 at a stop.
  Array<std::int32_t> tokens_, words_;
  Array<std::uint8_t> lengths_;
  Array<PairTable::Link> links_;  // in the lists of places
  Array<std::int64_t> counts_;    // of words
  PairTable pairs_;
  Array<Candidate> heap_;
  Array<Merge> new_pairs_;
};

Trainer::Trainer(const WordCounts& words)
    : tokens_(kSite),
      words_(kSite),
      lengths_(kSite),
      links_(kSite),
      counts_(kSite),
      pairs_(kSite),
      heap_(kSite),
      new_pairs_(kSite) {
  const std::size_t positions = words.bytes() + words.words() + 1;
  tokens_.reserve(positions);
  words_.reserve(positions);
  lengths_.reserve(positions);
  counts_.reserve(words.words());
  const auto put = [&](std::int32_t token, std::size_t word) {
    tokens_.push_back(token);
    words_.push_back(static_cast<std::int32_t>(word));
    lengths_.push_back(token == kStop ? 0 : 1);
  };
  for (std::size_t w = 0; w < words.words(); ++w) {
    put(kStop, w);
    for (const char c : words.word(w)) put(static_cast<unsigned char>(c), w);
    counts_.push_back(static_cast<std::int64_t>(words.count(w)));
  }
  put(kStop, 0);
  links_ = Array<PairTable::Link>(kSite, positions, {});
  for (Place p = 0; p + 1 < static_cast<Place>(positions); ++p)
    if (token(p) != kStop && has_after(p)) add(p);
  offer_new_pairs();
}

void Trainer::add(Place p) {
  const Merge pair{token(p), token(after(p))};
  if (pairs_.add(pair, p, weight(p), links_.data())) new_pairs_.push_back(pair);
}

void Trainer::remove(Place p) {
  pairs_.remove({token(p), token(after(p))}, p, weight(p), links_.data());
}

void Trainer::offer_new_pairs() {
  for (const Merge& pair : new_pairs_) {
    const std::int64_t count = pairs_.count(pair);
    if (count < kLeastCount) continue;
    heap_.push_back({count, pair});
    std::push_heap(heap_.begin(), heap_.end());
  }
  new_pairs_.clear();
}

bool Trainer::next(Merge& merge) {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate& top = heap_.back();
    const std::int64_t count = pairs_.count(top.pair);
    if (count == top.count) {
      merge = top.pair;
      heap_.pop_back();
      return true;
    }
    if (count < kLeastCount) {
      heap_.pop_back();
    } else {
      top.count = count;
      std::push_heap(heap_.begin(), heap_.end());
    }
  }
  return false;
}

// Of one token many times over, "aaaa", the leftmost two come first, as they do in encoding.
void Trainer::merge(Merge pair, std::int32_t made) {
  for (Place p = pairs_.first(pair); p != PairTable::kNowhere; p = pairs_.first(pair)) {
    if (pair.left == pair.right)
      while (has_before(p) && token(before(p)) == pair.left) p = before(p);
    merge_at(p, made);
  }
}

void Trainer::merge_at(Place p, std::int32_t made) {
  const Place right = after(p), end = after(right);
  const bool left_side = has_before(p), right_side = token(end) != kStop;
  if (left_side) remove(before(p));
  if (right_side) remove(right);
  remove(p);
  const auto both = static_cast<std::uint8_t>(length(p) + length(right));
  token(p) = made;
  length(p) = length(end - 1) = both;
  if (left_side) add(before(p));
  if (right_side) add(p);
}

std::size_t room(const BpeOptions& options) {
  if (options.vocabulary < Bpe::kBytes || options.vocabulary > Bpe::kMost)
    throw Error(fmt::format("train_bpe: a vocabulary of {}, expected {} (the bytes) to {} tokens",
                            options.vocabulary, Bpe::kBytes, Bpe::kMost));
  constexpr std::uint64_t kMostPositions = 1 << 30;  // they are numbered in 32 bits
  return std::min(kMostPositions, options.memory.bytes / kBytesEach);
}

Bpe trained(WordCounts words, const BpeOptions& options) {
  Trainer trainer(words);
  words = WordCounts(0);  // given back
  Array<Merge> merges(kSite);
  Merge pair{};
  for (std::int32_t made = Bpe::kBytes; made < options.vocabulary && trainer.next(pair); ++made) {
    trainer.merge(pair, made);
    trainer.offer_new_pairs();
    merges.push_back(pair);
  }
  return Bpe(std::span<const Merge>(merges.data(), merges.size()));
}

}  // namespace

Bpe train_bpe(std::string_view text, const BpeOptions& options) {
  WordCounts words(room(options));
  words.add(text, false);
  return trained(std::move(words), options);
}

Bpe train_bpe_file(const std::string& path, const BpeOptions& options) {
  WordCounts words(room(options));
  read_pieces(path, [&](std::string_view text, bool goes_on) { return words.add(text, goes_on); });
  return trained(std::move(words), options);
}

}  // namespace ebb::text
