#include "ebb/data/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ebb/base/error.hpp"

namespace ebb {

std::size_t index_of(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Error(
        fmt::format("batch: no column \"{}\"; there {}", name,
                    names.empty() ? "are none" : fmt::format("is {}", fmt::join(names, ", "))));
  return static_cast<std::size_t>(found - names.begin());
}

namespace {

const std::shared_ptr<const Names>& no_names() {
  static const auto names = std::make_shared<const Names>();
  return names;
}

std::uint64_t grown(std::uint64_t bytes, double times) {
  const double more = std::ceil(static_cast<double>(bytes) * times);
  return more < 0x1p63 ? std::max(bytes, static_cast<std::uint64_t>(more))
                       : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

template <class T>
Named<T>::Named() : names_(no_names()) {}
template <class T>
Named<T>::Named(std::shared_ptr<const Names> names, std::vector<T> values)
    : names_(std::move(names)), values_(std::move(values)) {}
template <class T>
Named<T>::Named(std::initializer_list<std::pair<std::string, T>> items) {
  Names names;
  for (const auto& [name, value] : items) {
    names.push_back(name);
    values_.push_back(value);
  }
  names_ = std::make_shared<Names>(std::move(names));
}
template <class T>
Named<T>::Named(const Named&) = default;
template <class T>
Named<T>::Named(Named&&) noexcept = default;
template <class T>
Named<T>& Named<T>::operator=(const Named&) = default;
template <class T>
Named<T>& Named<T>::operator=(Named&&) noexcept = default;
template <class T>
Named<T>::~Named() = default;
template <class T>
const T& Named<T>::operator[](std::string_view name) const {
  return values_[index_of(*names_, name)];
}
template class Named<Tensor>;
template class Named<Spec>;

// What a data set holds to deal out batches of one size, for another: all of it grows with them, at most,
// as the column that grows most.
BatchSpec BatchSpec::with_axis(int axis, std::int64_t size) const {
  if (size < 1) throw Error(fmt::format("batch spec: a size of {}; expected 1 or more", size));
  BatchSpec out = *this;
  double growth = 1;
  for (Spec& s : out.values_) {
    if (s.rank() <= axis) continue;
    const Spec before = std::exchange(s, s.with_axis(axis, size));
    const double was = static_cast<double>(std::max<std::int64_t>(before.shape[axis], 1));
    growth = std::max(
        {growth, static_cast<double>(size) / was,
         static_cast<double>(Tensor::charge(s)) / static_cast<double>(Tensor::charge(before))});
  }
  out.dealing_bytes_ = grown(dealing_bytes_, growth);
  if (axis == 0 && last_rows_ >= size) out.last_rows_ = 0;
  return out;
}

BatchSpec BatchSpec::rows_up_to(std::int64_t rows) const { return with_axis(0, rows); }
BatchSpec BatchSpec::lengths_up_to(std::int64_t length) const { return with_axis(1, length); }

BatchSpec BatchSpec::dealt_with(std::uint64_t bytes) const {
  BatchSpec out = *this;
  out.dealing_bytes_ = bytes;
  return out;
}

BatchSpec BatchSpec::with_last(std::int64_t rows) const {
  BatchSpec out = *this;
  out.last_rows_ = rows;
  return out;
}

BatchSpec BatchSpec::as_part(std::int64_t whole_rows, std::int64_t whole_last) const {
  BatchSpec out = *this;
  out.whole_rows_ = whole_rows;
  out.whole_last_ = whole_last;
  return out;
}

BatchSpec BatchSpec::of_whole() const {
  if (whole_rows_ < 0) return *this;
  BatchSpec out = *this;
  for (Spec& s : out.values_) s = s.with_axis(0, whole_rows_);
  out.last_rows_ = whole_last_;
  out.whole_rows_ = -1;
  return out;
}

memory::Promise& data::promise() {
  static auto* const promise = new memory::Promise("batches of data sets");  // outlives them
  return *promise;
}

bool BatchSpec::operator==(const BatchSpec& other) const {
  return names() == other.names() && values() == other.values();
}

}  // namespace ebb
