#include "ebb/data/row_set.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "ebb/base/rng.hpp"

namespace ebb::data {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::int64_t next) {
  return mix(hash ^ mix(static_cast<std::uint64_t>(next)));
}

}  // namespace

Bitmap::Bitmap(std::int64_t bits)
    : bits_(bits),
      words_(static_cast<std::size_t>(word_count()) * sizeof(std::uint64_t), "row set",
             Category::data) {
  if (words_.size()) std::memset(words_.data(), 0, words_.size());
}

void Bitmap::seal() {
  const auto blocks = static_cast<std::size_t>((word_count() + kWords - 1) / kWords);
  samples_ = memory::Buffer(blocks * sizeof(std::uint32_t), "row set", Category::data);
  count_ = 0;
  fingerprint_ = static_cast<std::uint64_t>(bits_);
  for (std::int64_t w = 0; w < word_count(); ++w) {
    if (w % kWords == 0) samples()[w / kWords] = static_cast<std::uint32_t>(count_);
    count_ += std::popcount(words()[w]);
    fingerprint_ = mix(fingerprint_ ^ words()[w]);
  }
}

std::int64_t Bitmap::nth(std::int64_t n) const {
  const std::uint32_t* const begin = samples();
  const std::uint32_t* const end = begin + samples_.size() / sizeof(std::uint32_t);
  const std::uint32_t* const block = std::upper_bound(begin, end, n) - 1;
  std::int64_t left = n - *block, w = (block - begin) * kWords;
  for (;; ++w) {
    const int here = std::popcount(words()[w]);
    if (left < here) break;
    left -= here;
  }
  std::uint64_t word = words()[w];
  for (; left > 0; --left) word &= word - 1;
  return w * 64 + std::countr_zero(word);
}

std::shared_ptr<const Bitmap> Bitmap::inverse() const {
  auto out = std::make_shared<Bitmap>(bits_);
  for (std::int64_t w = 0; w < word_count(); ++w) out->words()[w] = ~words()[w];
  if (bits_ % 64) out->words()[word_count() - 1] &= (std::uint64_t{1} << bits_ % 64) - 1;
  out->seal();
  return out;
}

bool RowSet::contiguous() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& s) { return !s.those && s.step == 1 && s.period == 0; });
}

RowSet RowSet::with(Step step, std::int64_t size) const {
  RowSet out = *this;
  out.size_ = size;
  if (!out.steps_.empty() && !step.those && step.period == 0) {
    Step& last = out.steps_.back();
    if (!last.those && last.period == 0) {  // one line through another
      last.first += step.first * last.step;
      last.step *= step.step;
      return out;
    }
  }
  out.steps_.push_back(std::move(step));
  return out;
}

RowSet RowSet::rows(std::int64_t begin, std::int64_t end) const {
  return with({begin, 1, 0, {}}, end - begin);
}

RowSet RowSet::every(std::int64_t from, std::int64_t step) const {
  return with({from, step, 0, {}}, from < size_ ? (size_ - from - 1) / step + 1 : 0);
}

RowSet RowSet::repeated(std::int64_t times) const {
  if (size_ == 0 || times == 1) return times == 0 ? rows(0, 0) : *this;
  return with({0, 1, size_, {}}, size_ * times);
}

RowSet RowSet::chosen(std::shared_ptr<const Bitmap> those) const {
  const std::int64_t count = those->count();
  return with({0, 1, 0, std::move(those)}, count);
}

std::uint64_t RowSet::fingerprint() const {
  if (contiguous()) return mixed(0, first());
  std::uint64_t hash = mixed(0, 0);
  for (const Step& s : steps_) {
    hash = mixed(mixed(mixed(hash, s.first), s.step), s.period);
    if (s.those) hash = mixed(hash, static_cast<std::int64_t>(s.those->fingerprint()));
  }
  return hash;
}

}  // namespace ebb::data
