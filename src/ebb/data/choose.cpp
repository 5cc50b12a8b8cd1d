// Which rows a data set has: parts, shards, what a filter keeps, what a split draws.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/data/dataset_parts.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kSplitStream = 0x73706c6974;  // apart from all other draws of a seed

}  // namespace

Dataset Dataset::with_rows(data::RowSet rows) const {
  Dataset out = *this;
  out.rows_ = std::move(rows);
  if (tokens_) out.tokens_ = std::make_shared<Tokens>(tokens_->tokens);
  return out;
}

Dataset Dataset::rows(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end < begin || end > size())
    throw Error(fmt::format("rows: [{}, {}) of a data set of {}; expected a part of it", begin, end,
                            size()));
  return with_rows(rows_.rows(begin, end));
}

Dataset Dataset::shard(std::int64_t index, std::int64_t count) const {
  if (count < 1 || index < 0 || index >= count)
    throw Error(fmt::format("shard: {} of {}; they are counted from 0", index, count));
  return with_rows(rows_.every(index, count));
}

Dataset Dataset::repeat(std::int64_t times) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (times < 1 || (size() > 0 && times > kMost / size()))
    throw Error(
        fmt::format("repeat: {} times {} rows; expected 1 or more, and no more rows than {}", times,
                    size(), kMost));
  return with_rows(rows_.repeated(times));
}

Dataset Dataset::filter(const Keep& keep) const {
  constexpr std::int64_t kAtOnce = 256;
  auto kept = std::make_shared<data::Bitmap>(size());
  for (std::int64_t at = 0; at < size(); at += kAtOnce) {
    const Batch some = gather(nullptr, at, std::min(at + kAtOnce, size()));
    for (std::int64_t i = 0; i < some.rows(); ++i) {
      std::vector<Tensor> row;
      for (const Tensor& t : some.values()) row.push_back(t.rows(i, i + 1));
      if (keep(Batch(some.shared_names(), std::move(row)))) kept->set(at + i);
    }
  }
  kept->seal();
  return with_rows(rows_.chosen(std::move(kept)));
}

// Row by row, each held out with as many chances as are still to be drawn out of the rows that are left:
// exactly so many, and every choice of them is as likely.
DatasetSplit Dataset::split(double fraction, std::uint64_t seed) const {
  if (!(fraction >= 0 && fraction <= 1))
    throw Error(fmt::format("split: a fraction of {}; expected 0 to 1", fraction));
  auto drawn = std::make_shared<data::Bitmap>(size());
  auto wanted = static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(size())));
  for (std::int64_t row = 0; row < size() && wanted > 0; ++row) {
    const auto left = static_cast<std::uint64_t>(size() - row);
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t bits = draw64({seed, 0}, kSplitStream, static_cast<std::uint64_t>(row));
    if (static_cast<std::uint64_t>(Wide(bits) * left >> 64) >= wanted) continue;
    drawn->set(row);
    --wanted;
  }
  drawn->seal();
  return {with_rows(rows_.chosen(drawn->inverse())), with_rows(rows_.chosen(drawn))};
}

}  // namespace ebb
