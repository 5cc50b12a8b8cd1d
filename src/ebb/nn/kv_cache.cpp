#include "ebb/nn/kv_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/kernels/attention.hpp"

namespace ebb::nn {
namespace {

constexpr auto kTile = static_cast<std::int64_t>(kernels::kAttentionKeys);

std::byte* row(Tensor& t, std::int64_t index) {
  return t.bytes() + static_cast<std::size_t>(index * t.dim(1)) * size_of(t.dtype());
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& o) : options_(o), rows_(o.context) {
  if (o.layers < 0 || o.width < 1 || o.context < 1 || o.window < 0 || o.at_once < 1)
    throw Error(
        fmt::format("KvCache: {} layers of width {}, a context of {}, a window of {} and {} at "
                    "once; expected at least 1 of each",
                    o.layers, o.width, o.context, o.window, o.at_once));
  // Rows of a window, up to a tile of older ones, and a tile or more to go on with: what is kept moves
  // to the front once in so many positions.
  if (o.window > 0) rows_ = std::min(o.context, o.window + kTile + std::max(kTile, o.at_once));
  for (int i = 0; i < o.layers; ++i)
    for (auto* of : {&keys_, &values_})
      of->push_back(
          Tensor::uninitialized({{rows_, o.width}, o.dtype}, "kv_cache", Category::workspace));
}

std::uint64_t KvCache::bytes() const {
  std::uint64_t all = 0;
  for (const Tensor& t : keys_) all += 2 * t.spec().bytes();
  return all;
}

void KvCache::begin(std::int64_t positions) {
  if (length_ + positions > options_.context)
    throw Error(
        fmt::format("KvCache: {} positions were read and {} more are to come, which is beyond "
                    "the context of {}; make it with a larger one, or read less",
                    length_, positions, options_.context));
  if (positions > options_.at_once)
    throw Error(
        fmt::format("KvCache: {} positions in one pass, it was made for {}; read them in parts",
                    positions, options_.at_once));
  if (length_ - first_ + positions > rows_) drop_old();
  adding_ = positions;
}

// The position that comes next sees `window` positions, itself among them.
void KvCache::drop_old() {
  const std::int64_t oldest = std::max<std::int64_t>(0, length_ - (options_.window - 1));
  const std::int64_t from = oldest / kTile * kTile, dropped = from - first_;
  for (auto* of : {&keys_, &values_})
    for (Tensor& t : *of)
      std::memmove(row(t, 0), row(t, dropped),
                   static_cast<std::size_t>(row(t, length_ - first_) - row(t, dropped)));
  first_ = from;
}

KvCache::Seen KvCache::add(int layer, const Tensor& keys, const Tensor& values) {
  const Spec expected{{1, adding_, options_.width}, options_.dtype};
  if (keys.spec() != expected || values.spec() != expected)
    throw Error(fmt::format("KvCache: keys {} and values {}, expected {}", to_string(keys.spec()),
                            to_string(values.spec()), to_string(expected)));
  keys.check_known();
  const auto at = static_cast<std::size_t>(layer);
  const std::int64_t old = length_ - first_, all = old + adding_;
  const auto put = [&](Tensor& to, const Tensor& from) {
    std::memcpy(row(to, old), from.raw(), from.spec().bytes());
    return to.rows(0, all).viewed({1, all, options_.width});
  };
  return {put(keys_[at], keys), put(values_[at], values), old};
}

void KvCache::end() { length_ += std::exchange(adding_, 0); }

}  // namespace ebb::nn
