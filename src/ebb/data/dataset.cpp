#include "ebb/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/data/row_file.hpp"

namespace ebb {

namespace {

using data::RowFile;
using data::Source;

// What a buffer takes from the memory seam, be it a tensor's or plain.
std::uint64_t charged(std::uint64_t bytes) {
  return Tensor::charge({{static_cast<std::int64_t>(bytes)}, DType::u8});
}

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
    if (!names.empty() && rows != out.size_)
      throw Error(
          fmt::format("dataset: column \"{}\" is {}, with {} rows, and column \"{}\" has {}; "
                      "all columns need the same first axis",
                      name, to_string(source.spec()), rows, names[0], out.size_));
    if (rows > std::numeric_limits<std::uint32_t>::max())
      throw Error(
          fmt::format("dataset: {} rows are more than the 4294967295 that can be dealt out", rows));
    out.size_ = rows;
    names.push_back(name);
    out.columns_.push_back(std::move(source));
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
  Source& c = out.columns_[index_of(*names_, column)];
  if (c.spec().dtype != DType::u8 && c.factor() == 0)
    throw Error(fmt::format("scale: column \"{}\" is {}; only u8 can be scaled", column,
                            to_string(c.spec())));
  if (factor == 0 || !std::isfinite(factor))
    throw Error(fmt::format("scale: the factor is {}; expected a number other than 0", factor));
  c = c.scaled(factor);
  return out;
}

Dataset Dataset::rows(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end < begin || end > size_)
    throw Error(fmt::format("rows: [{}, {}) of a data set of {}; expected a part of it", begin, end,
                            size_));
  Dataset out = *this;
  out.first_ = first_ + begin;
  out.size_ = end - begin;
  return out;
}

std::int64_t Dataset::size() const { return size_; }

std::int64_t Dataset::batches() const {
  if (batch_rows_ == 0)
    throw Error("dataset: the rows of a batch were never given; call .batch(n) first");
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
  const std::int64_t rows = drop_last_ ? batch_rows_ : std::min(batch_rows_, size());
  std::vector<Spec> specs;
  for (const Source& c : columns_) specs.push_back(c.spec(rows));
  const std::int64_t last = drop_last_ ? 0 : size() % batch_rows_;
  return BatchSpec(names_, std::move(specs))
      .dealt_with(walking_bytes() + (ahead_ ? kThread : 0))
      .with_last(last < rows ? last : 0);
}

Batch Dataset::all() const { return gather(nullptr, 0, size()); }

data::Position Dataset::start() const {
  std::uint64_t columns = mixed(0, static_cast<std::uint64_t>(first_));
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    for (const char c : (*names_)[i]) columns = mixed(columns, static_cast<unsigned char>(c));
    columns = mixed(columns, std::bit_cast<std::uint32_t>(columns_[i].factor()));
    const Spec row = columns_[i].spec(1);
    columns = mixed(columns, static_cast<std::uint64_t>(row.dtype));
    for (const std::int64_t size : row.shape)
      columns = mixed(columns, static_cast<std::uint64_t>(size));
  }
  return {0, 0, size_, batch_rows_, drop_last_, seed_, columns};
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

std::uint64_t Dataset::walking_bytes() const {
  if (batches() == 0) return 0;
  const std::int64_t rows = std::min(batch_rows_, size_);
  std::uint64_t batch = 0, buffer = 0;
  bool reads = false;
  for (const Source& c : columns_) {
    batch += charged(c.as_it_lies() && !seed_ ? 0 : c.spec(rows).bytes());
    if (!c.file()) continue;
    buffer = std::max(buffer, charged(c.file()->buffer_bytes()));  // one file after the other
    reads = true;
  }
  // The batch at hand, and those that wait or are in the making: see Ahead in walk.cpp.
  std::uint64_t all = 0;
  if (__builtin_mul_overflow(batch, static_cast<std::uint64_t>(ahead_) + 1, &all))
    return std::numeric_limits<std::uint64_t>::max();
  all += buffer;
  if (reads) all += charged(static_cast<std::uint64_t>(rows) * sizeof(RowFile::Wanted));
  if (seed_) all += charged(static_cast<std::uint64_t>(size_) * sizeof(std::uint32_t));
  return all;
}

Batch Dataset::gather(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const {
  const std::int64_t count = end - begin;
  const std::uint32_t* const rows = order ? order + begin : nullptr;
  const std::int64_t first = order ? first_ : first_ + begin;
  std::vector<Tensor> tensors;
  tensors.reserve(columns_.size());
  bool reads = false;
  for (const Source& c : columns_) {
    if (!order && c.as_it_lies()) {  // nothing is copied
      tensors.push_back(c.view(first, first + count));
      continue;
    }
    tensors.push_back(Tensor::uninitialized(c.spec(count), "batch", Category::data));
    if (c.file())
      reads = true;
    else
      c.copy(rows, first, count, tensors.back());
  }
  if (reads) read_files(rows, first, tensors);
  return {names_, std::move(tensors)};
}

// Columns that are parts of the same file's rows, as the input and the target of a text, are read
// together.
void Dataset::read_files(const std::uint32_t* order, std::int64_t first,
                         std::vector<Tensor>& to) const {
  const auto count = static_cast<std::size_t>(to[0].dim(0));
  const memory::Buffer list(count * sizeof(RowFile::Wanted), "read rows", Category::data);
  const std::span wanted(reinterpret_cast<RowFile::Wanted*>(list.data()), count);
  for (std::uint32_t i = 0; i < count; ++i)
    wanted[i] = {static_cast<std::uint32_t>(first + (order ? order[i] : i)), i};
  if (order) std::sort(wanted.begin(), wanted.end());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const RowFile* const file = columns_[i].file().get();
    const auto same = [&](const Source& c) { return c.file().get() == file; };
    if (!file || std::any_of(columns_.data(), columns_.data() + i, same)) continue;
    const memory::Buffer buffer(file->buffer_bytes(), "read rows", Category::data);
    file->read(wanted, {buffer.data(), buffer.size()},
               [&](const RowFile::Wanted& w, const std::byte* row) {
                 for (std::size_t k = i; k < columns_.size(); ++k)
                   if (same(columns_[k]) && !columns_[k].place(row, w.slot, to[k]))
                     file->refuse_change();
               });
  }
}

}  // namespace ebb
