#include "ebb/data/lists.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/pieces.hpp"

namespace ebb::data {
namespace {

constexpr std::uint64_t kAnnounced = 4 << 20;  // in the page cache, to be read

template <class T>
void put(double value, std::byte* to) {
  const T element = static_cast<T>(value);
  std::memcpy(to, &element, sizeof element);
}

// Lists are of these types.
void element_of(double value, DType dtype, std::byte* to) {
  if (dtype == DType::f32) put<float>(value, to);
  if (dtype == DType::i32) put<std::int32_t>(value, to);
  if (dtype == DType::u8) put<std::uint8_t>(value, to);
}

}  // namespace

ListPlace ListPlace::read(const std::byte* from) {
  ListPlace p;
  std::memcpy(&p.offset, from, sizeof p.offset);
  std::memcpy(&p.count, from + sizeof p.offset, sizeof p.count);
  return p;
}

void ListPlace::write(std::byte* to) const {
  std::memcpy(to, &offset, sizeof offset);
  std::memcpy(to + sizeof offset, &count, sizeof count);
}

Lists::Lists(Tensor bytes, DType dtype)
    : memory_(std::move(bytes)), bytes_(memory_.spec().bytes()), dtype_(dtype) {}

Lists::Lists(File file, std::uint64_t first, std::uint64_t bytes, DType dtype)
    : file_(std::move(file)), first_(first), bytes_(bytes), dtype_(dtype) {
  file_.set_direct(false);
}

void Lists::read(const ListPlace& place, std::size_t bytes, std::byte* to) const {
  if (place.offset > bytes_ || bytes > bytes_ - place.offset)
    throw FileError(fmt::format(
        "cannot read \"{}\": a list lies at byte {} of {}; the file is damaged, remove it",
        file_.path(), place.offset, bytes_));
  if (bytes == 0) return;
  if (memory_)
    std::memcpy(to, memory_.raw() + place.offset, bytes);
  else
    file_.read_at(first_ + place.offset, {to, bytes});
}

// As with rows (row_file.hpp): the disk is told of a batch's lists before the first is waited for.
void Lists::announce(std::span<const std::byte> places, std::size_t length) const {
  std::uint64_t announced = 0;
  for (std::size_t at = 0; at < places.size() && announced < kAnnounced; at += ListPlace::kBytes) {
    const ListPlace place = ListPlace::read(places.data() + at);
    const std::uint64_t bytes = std::min<std::uint64_t>(place.count, length) * size_of(dtype_);
    ::posix_fadvise(file_.descriptor(), static_cast<off_t>(first_ + place.offset),
                    static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
    announced += bytes + 4096;
  }
}

void Lists::gather(std::span<const std::byte> places, double pad, Tensor& to) const {
  const std::size_t width = size_of(dtype_), length = static_cast<std::size_t>(to.dim(1));
  std::byte padding[8] = {};
  element_of(pad, dtype_, padding);
  if (!memory_) announce(places, length);
  std::byte* row = to.bytes();
  for (std::size_t at = 0; at < places.size(); at += ListPlace::kBytes, row += length * width) {
    const ListPlace place = ListPlace::read(places.data() + at);
    const std::size_t count = std::min<std::size_t>(place.count, length);
    read(place, count * width, row);
    for (std::size_t i = count; i < length; ++i) std::memcpy(row + i * width, padding, width);
  }
  if (!memory_ && bytes_ > 0) drop_cached_up_to(file_, first_ + bytes_);
}

}  // namespace ebb::data
