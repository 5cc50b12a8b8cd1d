#include "ebb/data/epoch_order.hpp"

#include <cmath>
#include <numeric>
#include <utility>

namespace ebb::data {
namespace {

constexpr std::uint64_t kShuffleStream = 0x73687566666c65;  // apart from all other draws of a seed
constexpr std::uint64_t kPermutationStream = 0x7065726d757465;

// A number below `bound`, from 64 random bits.
std::uint64_t below(std::uint64_t bound, std::uint64_t bits) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide(bits) * bound >> 64);
}

}  // namespace

Permutation::Permutation(std::int64_t count, const Key& key)
    : count_(static_cast<std::uint64_t>(count)) {
  rows_ = static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  columns_ = count_ ? (count_ + rows_ - 1) / rows_ : 0;
  for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = draw64(key, kPermutationStream, i);
}

// A Feistel network on (row, column): by turns each is moved on, around its axis, by what the other and a key
// give. That can be undone step by step, so it is a permutation of the table. The few places behind the last
// number are followed until they lead to one that is there.
std::uint32_t Permutation::operator[](std::int64_t i) const {
  auto place = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t row = place / columns_, column = place % columns_;
    for (std::size_t k = 0; k < keys_.size(); k += 2) {
      row += below(rows_, mix(keys_[k] + column));
      row -= row >= rows_ ? rows_ : 0;
      column += below(columns_, mix(keys_[k + 1] + row));
      column -= column >= columns_ ? columns_ : 0;
    }
    place = row * columns_ + column;
  } while (place >= count_);
  return static_cast<std::uint32_t>(place);
}

void EpochOrder::start(std::int64_t epoch) {
  if (epoch_ == epoch) return;
  const Key key{seed_, static_cast<std::uint64_t>(epoch)};
  if (listed())
    shuffle(key);
  else
    permutation_ = Permutation(rows_, key);
  epoch_ = epoch;
}

// Fisher and Yates, each choice a draw keyed by seed and epoch: nothing carries over.
void EpochOrder::shuffle(const Key& key) {
  const auto rows = static_cast<std::size_t>(rows_);
  if (!list_.data())
    list_ = memory::Buffer(rows * sizeof(std::uint32_t), "shuffle", Category::data);
  auto* const order = reinterpret_cast<std::uint32_t*>(list_.data());
  std::iota(order, order + rows, 0u);
  for (std::size_t i = rows; i > 1; --i)
    std::swap(order[i - 1], order[below(i, draw64(key, kShuffleStream, i))]);
}

}  // namespace ebb::data
