#include "ebb/data/source.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ebb/data/row_file.hpp"

namespace ebb::data {
namespace {

std::size_t row_bytes_of(const Spec& spec) {
  if (spec.rank() == 0 || spec.shape[0] == 0) return 0;
  return spec.bytes() / static_cast<std::size_t>(spec.shape[0]);
}

}  // namespace

Source::Source(Tensor values) : values_(std::move(values)) {
  if (!values_) return;
  spec_ = values_.spec();
  row_bytes_ = stride_ = row_bytes_of(spec_);
  width_ = size_of(spec_.dtype);
}

Source::Source(std::shared_ptr<const RowFile> file, const Spec& spec, std::size_t offset,
               bool swapped)
    : file_(std::move(file)),
      spec_(spec),
      offset_(offset),
      row_bytes_(row_bytes_of(spec)),
      width_(size_of(spec.dtype)),
      swapped_(swapped && width_ > 1) {
  stride_ = file_->stride();
}

Source Source::windows(Tensor text, std::int64_t count, std::int64_t window, std::int64_t stride,
                       std::int64_t offset) {
  Source out;
  out.spec_ = {{count, window}, text.dtype()};
  out.width_ = size_of(text.dtype());
  out.offset_ = static_cast<std::size_t>(offset) * out.width_;
  out.row_bytes_ = static_cast<std::size_t>(window) * out.width_;
  out.stride_ = static_cast<std::size_t>(stride) * out.width_;
  out.values_ = std::move(text);
  return out;
}

Source Source::part(Tensor rows, const Spec& spec, std::size_t offset) {
  Source out;
  out.stride_ = row_bytes_of(rows.spec());
  out.values_ = std::move(rows);
  out.spec_ = spec;
  out.offset_ = offset;
  out.row_bytes_ = row_bytes_of(spec);
  out.width_ = size_of(spec.dtype);
  return out;
}

Source Source::of_lists(Source places, std::shared_ptr<const Lists> lists, std::int64_t longest) {
  Source out = std::move(places);
  out.spec_ = {{out.spec_.shape[0], longest}, lists->dtype()};
  out.lists_ = std::move(lists);
  out.longest_ = longest;
  out.padding_ = std::make_shared<PadOptions>();
  return out;
}

Source Source::padded(PadOptions options) const {
  Source out = *this;
  out.spec_.shape = {spec_.shape[0], options.buckets.empty() ? longest_ : options.buckets.back()};
  out.padding_ = std::make_shared<PadOptions>(std::move(options));
  return out;
}

std::int64_t Source::length_for(std::int64_t longest) const {
  for (const std::int64_t bucket : padding_->buckets)
    if (longest <= bucket) return bucket;
  return std::min(std::max<std::int64_t>(longest, 1), spec_.shape[1]);  // empty lists are a step
}

Spec Source::stored(std::int64_t rows) const {
  if (!lists_) return spec(rows);
  return {{rows, static_cast<std::int64_t>(ListPlace::kBytes)}, DType::u8};
}

Source Source::flat() const {
  Source out = *this;
  std::int64_t row = 1;
  for (int axis = 1; axis < spec_.rank(); ++axis) row *= spec_.shape[axis];
  out.spec_.shape = {spec_.shape[0], row};
  if (values_) out.values_ = values_.viewed(out.spec_.shape);
  return out;
}

Source Source::scaled(float factor) const {
  Source out = *this;
  out.factor_ = factor;
  out.spec_.dtype = DType::f32;
  return out;
}

Source Source::coded(std::shared_ptr<const Codes> codes) const {
  Source out = *this;
  out.codes_ = std::move(codes);
  out.spec_.dtype = DType::i32;
  return out;
}

Spec Source::spec(std::int64_t rows) const { return spec_.with_axis(0, rows); }

bool Source::as_it_lies() const {
  return values_ && factor_ == 0 && !codes_ && !lists_ && values_.spec() == spec_;
}

Source Source::movable(std::size_t file_buffer, bool whole) const {
  Source out = *this;
  out.movable_ = true;
  out.whole_ = whole;
  out.file_buffer_ = file_buffer;
  return out;
}

std::size_t Source::file_buffer() const { return file_ ? file_->buffer_bytes() : file_buffer_; }

bool Source::as_it_lies(Lying where) const {
  if (!movable_ || where == Lying::as_they_do) return as_it_lies();
  return where == Lying::in_memory && whole_ && factor_ == 0 && !codes_ && !lists_;
}

std::size_t Source::placed_bytes() const {
  return lists_ ? row_bytes_ : row_bytes_ / width_ * size_of(spec_.dtype);
}

bool Source::put(const std::byte* from, std::byte* to) const {
  if (factor_ != 0) {
    float* floats = reinterpret_cast<float*>(to);
    for (std::size_t k = 0; k < row_bytes_; ++k)
      floats[k] = static_cast<float>(std::to_integer<std::uint8_t>(from[k])) * factor_;
  } else if (codes_) {
    auto* numbers = reinterpret_cast<std::int32_t*>(to);
    std::int32_t all = 0;  // negative where one of them is
    for (std::size_t k = 0; k < row_bytes_; ++k)
      all |= numbers[k] = (*codes_)[std::to_integer<std::uint8_t>(from[k])];
    return all >= 0;
  } else {
    if (row_bytes_) std::memcpy(to, from, row_bytes_);
    if (swapped_)
      for (std::byte* end = to + row_bytes_; to != end; to += width_) std::reverse(to, to + width_);
  }
  return true;
}

void Source::copy(const std::uint32_t* order, std::int64_t first, std::int64_t count,
                  Tensor& to) const {
  const std::size_t step = placed_bytes();
  std::byte* row = to.bytes();
  for (std::int64_t i = 0; i < count; ++i, row += step) {
    const auto at = static_cast<std::size_t>(first + (order ? std::int64_t{order[i]} : i));
    put(values_.raw() + offset_ + at * stride_, row);
  }
}

bool Source::place(const std::byte* file_row, std::size_t slot, Tensor& to) const {
  return put(file_row + offset_, to.bytes() + slot * placed_bytes());
}

}  // namespace ebb::data
