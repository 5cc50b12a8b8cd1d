#include "ebb/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/data/dataset_parts.hpp"
#include "ebb/data/epoch_order.hpp"

namespace ebb {

namespace {

using data::Source;

// The thread that works ahead: its stack, and a heap of its own.
constexpr std::uint64_t kThread = 192 << 10;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t next) { return mix(hash ^ mix(next)); }

}  // namespace

Dataset Dataset::of(std::vector<std::pair<std::string, Source>> columns) {
  if (columns.empty()) throw Error("dataset: no columns were given; name at least one");
  Dataset out;
  Names names;
  for (auto& [name, source] : columns) {
    if (!source) throw Error(fmt::format("dataset: column \"{}\" holds no tensor", name));
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error(fmt::format("dataset: column \"{}\" is given twice", name));
    if (source.spec().rank() == 0)
      throw Error(
          fmt::format("dataset: column \"{}\" is a scalar; its first axis must count rows", name));
    const std::int64_t rows = source.spec().shape[0];
    if (!names.empty() && rows != out.size())
      throw Error(
          fmt::format("dataset: column \"{}\" is {}, with {} rows, and column \"{}\" has {}; "
                      "all columns need the same first axis",
                      name, to_string(source.spec()), rows, names[0], out.size()));
    if (rows > std::numeric_limits<std::uint32_t>::max())
      throw Error(
          fmt::format("dataset: {} rows are more than the 4294967295 that can be dealt out", rows));
    out.rows_ = data::RowSet(rows);
    names.push_back(name);
    out.columns_.push_back(std::move(source));
  }
  out.names_ = std::make_shared<Names>(std::move(names));
  out.name_columns();
  return out;
}

// Masks and lengths of lists stand behind the columns.
void Dataset::name_columns() {
  Names names = *names_;
  const auto add = [&](const std::string& name) {
    if (name.empty()) return;
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error(fmt::format("pad: there is a column \"{}\" already; give another name", name));
    names.push_back(name);
  };
  for (const Source& c : columns_) {
    if (!c.lists()) continue;
    add(c.padding().mask);
    add(c.padding().lengths);
  }
  batch_names_ =
      names.size() == names_->size() ? names_ : std::make_shared<Names>(std::move(names));
}

Dataset::Dataset() = default;
Dataset::Dataset(const Dataset&) = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(const Dataset&) = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;
Dataset::~Dataset() = default;

Dataset Dataset::shuffle(std::uint64_t seed) const {
  Dataset out = *this;
  out.seed_ = seed;
  return out;
}

Dataset Dataset::batch(std::int64_t rows, BatchOptions options) const {
  if (rows < 1) throw Error(fmt::format("batch: {} rows; a batch needs at least one", rows));
  Dataset out = *this;
  out.batch_rows_ = rows;
  out.tokens_ = nullptr;
  out.drop_last_ = options.drop_last;
  return out;
}

Dataset Dataset::batch_tokens(std::int64_t tokens, BatchOptions options) const {
  if (tokens < 1) throw Error(fmt::format("batch_tokens: {}; a batch needs at least one", tokens));
  if (std::none_of(columns_.begin(), columns_.end(), [](const Source& c) { return c.lists(); }))
    throw Error("batch_tokens: no column holds lists of different lengths; take .batch(n)");
  Dataset out = *this;
  out.tokens_ = std::make_shared<Tokens>(tokens);
  out.batch_rows_ = tokens;
  out.drop_last_ = options.drop_last;
  return out;
}

Dataset Dataset::prefetch(int batches) const {
  if (batches < 0) throw Error(fmt::format("prefetch: {} batches; expected 0 or more", batches));
  Dataset out = *this;
  out.ahead_ = batches;
  return out;
}

Dataset Dataset::part(std::int64_t index, std::int64_t count) const {
  if (count < 1 || index < 0 || index >= count)
    throw Error(fmt::format("part: {} of {}; parts are counted from 0", index, count));
  if (!part_.whole())
    throw Error(fmt::format("part: this is part {} of {} already; take it of the whole",
                            part_.index, part_.count));
  Dataset out = *this;
  out.part_ = {index, count};
  return out;
}

Dataset Dataset::only(const Names& columns) const {
  if (map_ || tokens_)
    throw Error("only: columns are chosen before .map and .batch_tokens, which depend on them");
  std::vector<std::pair<std::string, Source>> chosen;
  for (const std::string& name : columns)
    chosen.emplace_back(name, columns_[index_of(*names_, name)]);
  const Dataset of_them = of(std::move(chosen));
  Dataset out = *this;
  out.columns_ = of_them.columns_;
  out.names_ = of_them.names_;
  out.batch_names_ = of_them.batch_names_;
  return out;
}

Dataset Dataset::scale(std::string_view column, float factor) const {
  Dataset out = *this;
  Source& c = out.columns_[index_of(*names_, column)];
  if (c.spec().dtype != DType::u8 && c.factor() == 0)
    throw Error(fmt::format("scale: column \"{}\" is {}; only u8 can be scaled", column,
                            to_string(c.spec())));
  if (factor == 0 || !std::isfinite(factor))
    throw Error(fmt::format("scale: the factor is {}; expected a number other than 0", factor));
  c = c.scaled(factor);
  return out;
}

Dataset Dataset::pad(std::string_view column, data::PadOptions options) const {
  Dataset out = *this;
  Source& c = out.columns_[index_of(*names_, column)];
  if (!c.lists())
    throw Error(fmt::format("pad: column \"{}\" is {}, rows of one length; only lists are padded",
                            column, to_string(c.spec())));
  const auto& buckets = options.buckets;
  for (std::size_t i = 0; i < buckets.size(); ++i)
    if (buckets[i] < 1 || (i > 0 && buckets[i] <= buckets[i - 1]) || buckets.size() > 250)
      throw Error(
          fmt::format("pad: buckets {}; expected at most 250 lengths from 1 on, each above the one "
                      "before",
                      fmt::join(buckets, ", ")));
  if (!buckets.empty() && c.longest() > buckets.back() && !options.cut)
    throw Error(
        fmt::format("pad: column \"{}\" has a list of {}, longer than the last bucket, {}; add a "
                    "larger one, or say .cut = true",
                    column, c.longest(), buckets.back()));
  (void)Tensor::scalar(options.value, c.spec().dtype);  // throws where it is none of that type
  c = c.padded(std::move(options));
  out.name_columns();
  if (out.tokens_) out.tokens_ = std::make_shared<Tokens>(out.tokens_->tokens);
  return out;
}

Dataset Dataset::map(Map function, MapOptions options) const {
  if (!function) throw Error("map: there is no function");
  Dataset out = *this;
  out.map_ = std::make_shared<Mapping>(Mapping{std::move(function), options.memory.bytes, map_});
  return out;
}

std::int64_t Dataset::size() const { return rows_.size(); }

std::int64_t Dataset::batches() const {
  if (batch_rows_ == 0)
    throw Error("dataset: the rows of a batch were never given; call .batch(n) first");
  if (tokens_) return Gather(*this).token_batches().batches(drop_last_);
  const std::int64_t full = size() / batch_rows_;
  return full + (!drop_last_ && size() % batch_rows_ != 0);
}

void Dataset::check_any(const char* what) const {
  if (batches() > 0) return;
  if (size() == 0)
    throw Error(
        fmt::format("{}: the dataset has no rows, so there is nothing to learn from; check "
                    "where it comes from",
                    what));
  throw Error(
      fmt::format("{}: the dataset has {} rows, fewer than a batch of {}, and .drop_last leaves "
                  "them out; take smaller batches",
                  what, size(), batch_rows_));
}

BatchSpec Dataset::spec() const {
  (void)batches();
  if (size() == 0) check_any("spec");
  const std::uint64_t dealing = walking_bytes() + (ahead_ ? kThread : 0);
  std::int64_t rows = drop_last_ ? batch_rows_ : std::min(batch_rows_, size()),
               length = Gather(*this).longest_list();
  if (tokens_) {
    rows = Gather(*this).token_batches().buckets().back().batch_rows;
    length = Gather(*this).token_batches().buckets().back().length;
  }
  std::int64_t last = drop_last_ || tokens_ ? 0 : size() % batch_rows_;
  const std::int64_t whole = rows, whole_last = last < rows ? last : 0;
  rows = part_.rows(rows);
  last = part_.rows(last);
  BatchSpec spec = Gather(*this).unmapped(rows, length);
  if (map_) {  // what comes of a batch is known by making one
    const std::int64_t some = std::clamp<std::int64_t>(rows, 1, size());
    const Batch one = Gather(*this).made(nullptr, 0, some, length);
    std::vector<Spec> specs;
    for (const Tensor& t : one.values()) specs.push_back(t.spec().with_axis(0, rows));
    spec = BatchSpec(one.shared_names(), std::move(specs));
  }
  spec = spec.dealt_with(dealing).with_last(last < rows ? last : 0);
  return part_.whole() ? spec : spec.as_part(whole, whole_last);
}

Batch Dataset::all() const { return gather(nullptr, 0, size()); }

data::Position Dataset::start() const {
  std::uint64_t columns = rows_.fingerprint();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    for (const char c : (*names_)[i]) columns = mixed(columns, static_cast<unsigned char>(c));
    columns = mixed(columns, std::bit_cast<std::uint32_t>(columns_[i].factor()));
    const Spec row = columns_[i].spec(1);
    columns = mixed(columns, static_cast<std::uint64_t>(row.dtype));
    for (const std::int64_t size : row.shape)
      columns = mixed(columns, static_cast<std::uint64_t>(size));
    if (columns_[i].lists())
      for (const std::int64_t bucket : columns_[i].padding().buckets)
        columns = mixed(columns, static_cast<std::uint64_t>(bucket));
  }
  if (tokens_) columns = mixed(columns, static_cast<std::uint64_t>(tokens_->tokens));
  return {0, 0, size(), batch_rows_, drop_last_, seed_, columns};
}

std::int64_t Dataset::row_at(const data::Position& at, std::int64_t i) const {
  const std::int64_t place = at.batch * batch_rows_ + i;
  if (!seed_) return rows_.at(place);
  data::EpochOrder order(size(), *seed_);
  order.start(at.epoch);
  return rows_.at(order[place]);
}

BatchRange::BatchRange(Dataset data, std::int64_t end_epoch, const data::Position& from)
    : data_(std::move(data)), end_epoch_(end_epoch), from_(from) {}
BatchRange::Iterator::Iterator(std::unique_ptr<BatchWalk> walk)
    : walk_(std::move(walk)), batch_(walk_->next()) {}
BatchRange::Iterator BatchRange::begin() const {
  return Iterator(std::make_unique<BatchWalk>(data_, end_epoch_, from_));
}

BatchRange Dataset::epochs(std::int64_t count, const data::Position& from) const {
  if (count < 0) throw Error(fmt::format("epochs: {}; expected 0 or more", count));
  if (count > 0) check_any("epochs");
  check_fits(from, start(), batches());
  return {*this, count, from};
}

BatchRange Dataset::epoch(std::int64_t number) const {
  if (number < 0) throw Error(fmt::format("epoch: {}; they are counted from 0", number));
  check_any("epoch");
  return {*this, number + 1, {.epoch = number}};
}

BatchWalk Dataset::walk(std::int64_t epochs, const data::Position& from) const {
  if (epochs < 0) throw Error(fmt::format("walk: {} epochs; expected 0 or more", epochs));
  if (epochs > 0) check_any("walk");
  return {*this, epochs, from};
}

}  // namespace ebb
