#include "ebb/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ebb/base/error.hpp"

namespace ebb {

Spec Dataset::Column::row_spec(std::int64_t rows) const {
  std::vector<std::int64_t> dims(values.shape().begin(), values.shape().end());
  dims[0] = rows;
  return {Shape(dims), factor == 0 ? values.dtype() : DType::f32};
}

Dataset Dataset::of(std::vector<std::pair<std::string, Tensor>> columns) {
  if (columns.empty()) throw Error("dataset: no columns were given; name at least one");
  Dataset out;
  Names names;
  for (auto& [name, values] : columns) {
    if (!values) throw Error(fmt::format("dataset: column \"{}\" holds no tensor", name));
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error(fmt::format("dataset: column \"{}\" is given twice", name));
    if (values.rank() == 0)
      throw Error(
          fmt::format("dataset: column \"{}\" is a scalar; its first axis must count rows", name));
    if (!names.empty() && values.dim(0) != out.size())
      throw Error(
          fmt::format("dataset: column \"{}\" is {}, with {} rows, and column \"{}\" has {}; "
                      "all columns need the same first axis",
                      name, to_string(values.spec()), values.dim(0), names[0], out.size()));
    if (values.dim(0) > std::numeric_limits<std::uint32_t>::max())
      throw Error(fmt::format("dataset: {} rows are more than the 4294967295 that can be dealt out",
                              values.dim(0)));
    names.push_back(name);
    out.columns_.push_back({std::move(values)});
  }
  out.names_ = std::make_shared<Names>(std::move(names));
  return out;
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
  out.drop_last_ = options.drop_last;
  return out;
}

Dataset Dataset::prefetch(int batches) const {
  if (batches < 0) throw Error(fmt::format("prefetch: {} batches; expected 0 or more", batches));
  Dataset out = *this;
  out.ahead_ = batches;
  return out;
}

Dataset Dataset::scale(std::string_view column, float factor) const {
  Dataset out = *this;
  Column& c = out.columns_[index_of(*names_, column)];
  if (c.values.dtype() != DType::u8)
    throw Error(fmt::format("scale: column \"{}\" is {}; only u8 can be scaled", column,
                            to_string(c.values.spec())));
  if (factor == 0 || !std::isfinite(factor))
    throw Error(fmt::format("scale: the factor is {}; expected a number other than 0", factor));
  c.factor = factor;
  return out;
}

Dataset Dataset::rows(std::int64_t begin, std::int64_t end) const {
  Dataset out = *this;
  for (Column& c : out.columns_) c.values = c.values.rows(begin, end);
  return out;
}

std::int64_t Dataset::size() const { return columns_[0].values.dim(0); }

std::int64_t Dataset::batches() const {
  if (batch_rows_ == 0)
    throw Error("dataset: the rows of a batch were never given; call .batch(n) first");
  const std::int64_t full = size() / batch_rows_;
  return full + (!drop_last_ && size() % batch_rows_ != 0);
}

void Dataset::check_any(const char* what) const {
  if (batches() > 0) return;
  if (size() == 0)
    throw Error(fmt::format("{}: the dataset has no rows, so there is nothing to learn from; check "
                            "where it comes from",
                            what));
  throw Error(fmt::format("{}: the dataset has {} rows, fewer than a batch of {}, and .drop_last leaves "
                          "them out; take smaller batches",
                          what, size(), batch_rows_));
}

BatchSpec Dataset::spec() const {
  (void)batches();
  if (size() == 0) check_any("spec");
  const std::int64_t rows = drop_last_ ? batch_rows_ : std::min(batch_rows_, size());
  std::vector<Spec> specs;
  for (const Column& c : columns_) specs.push_back(c.row_spec(rows));
  return {names_, std::move(specs)};
}

Batch Dataset::all() const { return gather(nullptr, 0, size()); }

BatchRange::BatchRange(Dataset data, std::int64_t first_epoch, std::int64_t end_epoch)
    : data_(std::move(data)), first_epoch_(first_epoch), end_epoch_(end_epoch) {}
BatchRange::Iterator::Iterator(std::unique_ptr<BatchStream> stream)
    : stream_(std::move(stream)), batch_(stream_->next()) {}
BatchRange::Iterator BatchRange::begin() const {
  return Iterator(std::make_unique<BatchStream>(data_, first_epoch_, end_epoch_));
}

BatchRange Dataset::epochs(std::int64_t count) const {
  if (count < 0) throw Error(fmt::format("epochs: {}; expected 0 or more", count));
  if (count > 0) check_any("epochs");
  return {*this, 0, count};
}

BatchRange Dataset::epoch(std::int64_t number) const {
  if (number < 0) throw Error(fmt::format("epoch: {}; they are counted from 0", number));
  check_any("epoch");
  return {*this, number, number + 1};
}

Batch Dataset::gather(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const {
  std::vector<Tensor> tensors;
  tensors.reserve(columns_.size());
  for (const Column& c : columns_) {
    if (!order && c.factor == 0) {  // as they lie: nothing is copied
      tensors.push_back(c.values.rows(begin, end));
      continue;
    }
    Tensor out = Tensor::uninitialized(c.row_spec(end - begin), "batch", Category::data);
    const std::size_t row =
        size() == 0 ? 0 : c.values.spec().bytes() / static_cast<std::size_t>(size());
    std::byte* to = out.bytes();
    for (std::int64_t i = begin; i < end; ++i) {
      const std::byte* from = c.values.raw() + static_cast<std::size_t>(order ? order[i] : i) * row;
      if (c.factor == 0) {
        std::memcpy(to, from, row);
        to += row;
      } else {
        float* floats = reinterpret_cast<float*>(to);
        for (std::size_t k = 0; k < row; ++k)
          floats[k] = static_cast<float>(std::to_integer<std::uint8_t>(from[k])) * c.factor;
        to += row * sizeof(float);
      }
    }
    tensors.push_back(std::move(out));
  }
  return {names_, std::move(tensors)};
}

}  // namespace ebb
