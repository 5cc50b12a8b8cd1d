// How the rows of a batch come together, and what that takes.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/data/dataset_parts.hpp"
#include "ebb/data/epoch_order.hpp"
#include "ebb/data/row_file.hpp"

namespace ebb {
namespace {

using data::ListPlace;
using data::RowFile;
using data::Source;

// What a buffer takes from the memory seam, be it a tensor's or plain.
std::uint64_t charged(std::uint64_t bytes) {
  return Tensor::charge({{static_cast<std::int64_t>(bytes)}, DType::u8});
}
std::uint64_t charged(const Spec& spec) { return charged(spec.bytes()); }

std::uint64_t list_of_rows(std::int64_t rows) {
  return charged(static_cast<std::uint64_t>(rows) * sizeof(std::uint32_t));
}

// Of list i, where a batch holds places: (rows, ListPlace).
std::int64_t length_of(const Tensor& places, std::int64_t i) {
  return ListPlace::read(places.raw() + static_cast<std::size_t>(i) * ListPlace::kBytes).count;
}
std::int64_t longest_of(const Tensor& places) {
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < places.dim(0); ++i)
    longest = std::max(longest, length_of(places, i));
  return longest;
}

}  // namespace

BatchSpec Dataset::Gather::unmapped(std::int64_t rows, std::int64_t length) const {
  std::vector<Spec> specs, more;
  for (const Source& c : data_.columns_) {
    Spec spec = c.spec(rows);
    if (c.lists()) {
      if (length > 0) spec = spec.with_axis(1, std::min(length, spec.shape[1]));
      if (!c.padding().mask.empty()) more.push_back({spec.shape, DType::boolean});
      if (!c.padding().lengths.empty()) more.push_back({{rows}, DType::i32});
    }
    specs.push_back(spec);
  }
  specs.insert(specs.end(), more.begin(), more.end());
  return {data_.batch_names_, std::move(specs)};
}

// As they lie, in whatever order: of lists, their places.
std::vector<Tensor> Dataset::Gather::stored(const std::uint32_t* order, std::int64_t begin,
                                            std::int64_t end) const {
  const std::int64_t count = end - begin;
  const bool contiguous = data_.rows_.contiguous();
  const std::uint32_t* rows = order ? order + begin : nullptr;
  std::int64_t first = contiguous ? data_.rows_.first() + (order ? 0 : begin) : 0;
  memory::Buffer list;
  if (!contiguous) {  // which rows of the columns they are
    list = memory::Buffer(static_cast<std::size_t>(count) * sizeof(std::uint32_t),
                          "rows of a batch", Category::data);
    auto* const to = reinterpret_cast<std::uint32_t*>(list.data());
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = static_cast<std::uint32_t>(data_.rows_.at(rows ? rows[i] : begin + i));
    rows = to;
  }
  std::vector<Tensor> tensors;
  tensors.reserve(data_.columns_.size());
  bool reads = false;
  for (const Source& c : data_.columns_) {
    if (!rows && c.as_it_lies()) {  // nothing is copied
      tensors.push_back(c.view(first, first + count));
      continue;
    }
    tensors.push_back(Tensor::uninitialized(c.stored(count), "batch", Category::data));
    if (c.file())
      reads = true;
    else
      c.copy(rows, first, count, tensors.back());
  }
  if (reads) read_files(rows, first, tensors);
  return tensors;
}

// Lists become tensors, of these lengths where they are given.
Batch Dataset::Gather::padded(std::vector<Tensor> tensors, const Lengths& lengths) const {
  std::vector<Tensor> more;
  for (std::size_t k = 0; k < data_.columns_.size(); ++k) {
    const Source& c = data_.columns_[k];
    if (!c.lists()) continue;
    const Tensor places = std::move(tensors[k]);
    const std::int64_t rows = places.dim(0);
    const std::int64_t length =
        lengths[k] > 0 ? std::min(lengths[k], c.spec().shape[1]) : c.length_for(longest_of(places));
    const Spec spec = c.spec(rows).with_axis(1, length);
    tensors[k] = Tensor::uninitialized(spec, "batch", Category::data);
    c.lists()->gather({places.raw(), places.spec().bytes()}, c.padding().value, tensors[k]);
    const auto count_of = [&](std::int64_t i) { return std::min(length_of(places, i), length); };
    if (!c.padding().mask.empty()) {
      more.push_back(Tensor::uninitialized({spec.shape, DType::boolean}, "batch", Category::data));
      std::byte* to = more.back().bytes();
      for (std::int64_t i = 0; i < rows; ++i, to += length) {
        std::fill(to, to + count_of(i), std::byte{1});
        std::fill(to + count_of(i), to + length, std::byte{0});
      }
    }
    if (!c.padding().lengths.empty()) {
      more.push_back(Tensor::uninitialized({{rows}, DType::i32}, "batch", Category::data));
      auto* const to = reinterpret_cast<std::int32_t*>(more.back().bytes());
      for (std::int64_t i = 0; i < rows; ++i) to[i] = static_cast<std::int32_t>(count_of(i));
    }
  }
  tensors.insert(tensors.end(), more.begin(), more.end());
  return {data_.batch_names_, std::move(tensors)};
}

Batch Dataset::Gather::made(const std::uint32_t* order, std::int64_t begin, std::int64_t end,
                            const Lengths& lengths) const {
  Batch batch = padded(stored(order, begin, end), lengths);
  std::vector<const Mapping*> maps;
  for (const Mapping* m = data_.map_.get(); m; m = m->before.get()) maps.push_back(m);
  for (auto m = maps.rbegin(); m != maps.rend(); ++m) {
    Batch mapped = (*m)->function(batch);
    for (std::size_t i = 0; i < mapped.values().size(); ++i) {
      const Tensor& t = mapped.values()[i];
      if (!t || t.rank() == 0 || t.dim(0) != end - begin)
        throw Error(fmt::format(
            "map: of a batch of {} rows it made a column \"{}\" that is {}; expected as "
            "many rows",
            end - begin, mapped.names()[i], t ? to_string(t.spec()) : "nothing"));
    }
    batch = std::move(mapped);
  }
  return batch;
}

// By their places alone.
Dataset::Gather::Lengths Dataset::Gather::lengths_of(const std::uint32_t* order, std::int64_t begin,
                                                     std::int64_t end) const {
  Lengths lengths(data_.columns_.size(), 0);
  if (longest_list() == 0) return lengths;
  Dataset lists;
  lists.rows_ = data_.rows_;
  for (const Source& c : data_.columns_)
    if (c.lists()) lists.columns_.push_back(c);
  const std::vector<Tensor> places = Gather(lists).stored(order, begin, end);
  for (std::size_t k = 0, list = 0; k < lengths.size(); ++k)
    if (data_.columns_[k].lists())
      lengths[k] = data_.columns_[k].length_for(longest_of(places[list++]));
  return lengths;
}

Batch Dataset::Gather::dealt(const std::uint32_t* order, std::int64_t begin,
                             std::int64_t end) const {
  if (data_.part_.whole()) return made(order, begin, end, 0);
  const std::int64_t whole = end - begin, first = data_.part_.begin(whole),
                     rows = data_.part_.rows(whole);
  const Lengths lengths = lengths_of(order, begin, end);
  // Of no rows there is nothing to read, and no map is asked what it makes of nothing: one row, cut off.
  const std::int64_t from = begin + (rows > 0 ? first : 0);
  Batch batch = made(order, from, from + std::max<std::int64_t>(rows, 1), lengths);
  if (rows == 0) {
    std::vector<Tensor> none;
    for (const Tensor& t : batch.values()) none.push_back(t.rows(0, 0));
    batch = Batch(batch.shared_names(), std::move(none));
  }
  batch.set_part(first, whole);
  return batch;
}

Batch Dataset::gather(const std::uint32_t* order, std::int64_t begin, std::int64_t end) const {
  return Gather(*this).made(order, begin, end, 0);
}
std::uint64_t Dataset::walking_bytes() const { return Gather(*this).walking_bytes(); }
std::uint64_t Dataset::walking_bytes(data::Lying where) const {
  return Gather(*this, where).walking_bytes();
}

// Columns that are parts of the same file's rows, as the input and the target of a text, are read
// together.
void Dataset::Gather::read_files(const std::uint32_t* order, std::int64_t first,
                                 std::vector<Tensor>& to) const {
  const auto count = static_cast<std::size_t>(to[0].dim(0));
  const memory::Buffer list(count * sizeof(RowFile::Wanted), "read rows", Category::data);
  const std::span wanted(reinterpret_cast<RowFile::Wanted*>(list.data()), count);
  for (std::uint32_t i = 0; i < count; ++i)
    wanted[i] = {static_cast<std::uint32_t>(first + (order ? order[i] : i)), i};
  if (order) std::sort(wanted.begin(), wanted.end());
  for (std::size_t i = 0; i < data_.columns_.size(); ++i) {
    const RowFile* const file = data_.columns_[i].file().get();
    const auto same = [&](const Source& c) { return c.file().get() == file; };
    if (!file || std::any_of(data_.columns_.data(), data_.columns_.data() + i, same)) continue;
    const memory::Buffer buffer(file->buffer_bytes(), "read rows", Category::data);
    file->read(wanted, {buffer.data(), buffer.size()},
               [&](const RowFile::Wanted& w, const std::byte* row) {
                 for (std::size_t k = i; k < data_.columns_.size(); ++k)
                   if (same(data_.columns_[k]) && !data_.columns_[k].place(row, w.slot, to[k]))
                     file->refuse_change();
               });
  }
}

const data::TokenBatches& Dataset::Gather::token_batches() const {
  const std::lock_guard lock(data_.tokens_->lock);
  if (data_.tokens_->found) return *data_.tokens_->found;
  Dataset lists;  // the columns of lists alone
  const Source* longest = nullptr;
  for (const Source& c : data_.columns_) {
    if (!c.lists()) continue;
    lists.columns_.push_back(c);
    if (!longest || c.spec().shape[1] > longest->spec().shape[1]) longest = &c;
  }
  lists.rows_ = data_.rows_;
  std::vector<std::int64_t> lengths = longest->padding().buckets;
  if (lengths.empty()) {
    const std::int64_t last = std::max<std::int64_t>(longest->spec().shape[1], 1);
    for (std::int64_t length = 16; length < last; length *= 2) lengths.push_back(length);
    lengths.push_back(last);
  }
  data::TokenBatches found(data_.size(), std::move(lengths), data_.tokens_->tokens);
  constexpr std::int64_t kAtOnce = 4096;
  for (std::int64_t at = 0; at < data_.size(); at += kAtOnce) {
    const std::vector<Tensor> places =
        Gather(lists).stored(nullptr, at, std::min(at + kAtOnce, data_.size()));
    for (std::int64_t i = 0; i < places[0].dim(0); ++i) {
      std::int64_t length = 0;
      for (const Tensor& p : places) length = std::max(length, length_of(p, i));
      found.set_length(at + i, length);
    }
  }
  data_.tokens_->found.emplace(std::move(found));
  return *data_.tokens_->found;
}

std::int64_t Dataset::Gather::most_rows() const {
  if (!data_.tokens_) return std::min(data_.batch_rows_, data_.size());
  std::int64_t most = 0;
  for (const auto& b : token_batches().buckets())
    most = std::max(most, std::min(b.batch_rows, b.rows));
  return most;
}

// A batch as it is handed out, before it is mapped.
std::uint64_t Dataset::Gather::batch_bytes(std::int64_t rows, std::int64_t length) const {
  std::uint64_t bytes = 0;
  const BatchSpec spec = unmapped(rows, length);
  for (std::size_t k = 0; k < spec.values().size(); ++k) {
    const bool view = k < data_.columns_.size() && data_.columns_[k].as_it_lies(where_) &&
                      !data_.seed_ && data_.rows_.contiguous() && !data_.tokens_;
    bytes += charged(view ? Spec{{0}, DType::u8} : spec.values()[k]);
  }
  return bytes;
}

// The most that a batch takes, with what a map makes of it, which may hold on to what it was made of.
std::uint64_t Dataset::Gather::largest_batch() const {
  const auto bytes_of = [&](std::int64_t whole, std::int64_t length) {
    const std::int64_t rows = std::min(whole, std::max<std::int64_t>(data_.part_.rows(whole), 1));
    std::uint64_t bytes = batch_bytes(rows, length);
    if (!data_.map_ || rows == 0) return bytes;
    const Batch one = made(nullptr, 0, rows, length);
    for (const Tensor& t : one.values()) bytes += charged(t.spec());
    return bytes;
  };
  if (!data_.tokens_) return bytes_of(std::min(data_.batch_rows_, data_.size()), longest_list());
  std::uint64_t most = 0;
  for (const auto& b : token_batches().buckets())
    most = std::max(most, bytes_of(std::min(b.batch_rows, b.rows), b.length));
  return most;
}

std::uint64_t Dataset::Gather::walking_bytes() const {
  if (data_.batches() == 0) return 0;
  const std::int64_t rows = most_rows();
  std::uint64_t buffer = 0, places = 0, mapping = 0;
  bool reads = false;
  for (const Source& c : data_.columns_) {
    if (c.lists()) places += charged(c.stored(rows));
    if (!c.in_file(where_)) continue;
    buffer = std::max(buffer, charged(c.file_buffer()));  // one file after the other
    reads = true;
  }
  for (const Mapping* m = data_.map_.get(); m; m = m->before.get()) mapping += m->bytes;
  // The batch at hand, and those that wait or are in the making: see Ahead in walk.cpp.
  std::uint64_t all = 0;
  if (__builtin_mul_overflow(largest_batch(), static_cast<std::uint64_t>(data_.ahead_) + 1, &all))
    return std::numeric_limits<std::uint64_t>::max();
  all += buffer + places + mapping;
  if (reads) all += charged(static_cast<std::uint64_t>(rows) * sizeof(RowFile::Wanted));
  if (data_.seed_)
    all += list_of_rows(data_.size() <= data::EpochOrder::kListed ? data_.size() : rows);
  if (!data_.rows_.contiguous()) all += list_of_rows(rows);
  if (data_.tokens_) all += charged(token_batches().dealing_bytes());
  return all;
}

std::int64_t Dataset::Gather::longest_list() const {
  std::int64_t longest = 0;
  for (const Source& c : data_.columns_)
    if (c.lists()) longest = std::max(longest, c.spec().shape[1]);
  return longest;
}

}  // namespace ebb
