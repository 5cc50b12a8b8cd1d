#include "ebb/io/array/idx.hpp"

#include <fmt/format.h>

#include <bit>
#include <functional>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/io/array/npy_read.hpp"
#include "ebb/io/bytes/pieces.hpp"
#include "ebb/io/bytes/refuse.hpp"

namespace ebb {
namespace {

using io::refuse;

constexpr bool kSwapped = std::endian::native == std::endian::little;
constexpr std::uint64_t kMostRatio = 1032;  // deflate packs no better

DType type_of(const std::string& path, int code) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x0c:
      return DType::i32;
    case 0x0d:
      return DType::f32;
    case 0x0e:
      return DType::f64;
    case 0x09:
    case 0x0b:
      refuse(path, "its integers of 8 or 16 bits with a sign are not supported");
    default:
      refuse(path, fmt::format("its element type {} is unknown", code));
  }
}

struct Header {
  Spec spec;
  std::uint64_t bytes;
};

// Two zeros, a byte for the type, a byte for the rank, the sizes, the elements; all big-endian. `read`
// gives as many bytes as there are.
Header read_header(const std::string& path,
                   const std::function<std::size_t(std::span<std::byte>)>& read) {
  std::uint8_t header[4 + 4 * Shape::kMaxRank];
  const auto bytes = std::as_writable_bytes(std::span(header));
  if (const std::size_t found = read(bytes.first(4)); found < 4)
    refuse(path, fmt::format("{} bytes are too few for an idx file", found));
  if (header[0] != 0 || header[1] != 0) refuse(path, "it does not start as an idx file does");
  const DType dtype = type_of(path, header[2]);
  const int rank = header[3];
  if (rank > Shape::kMaxRank)
    refuse(path, fmt::format("it has {} axes; at most {} are supported", rank, +Shape::kMaxRank));
  const auto sizes = bytes.subspan(4, 4 * static_cast<std::size_t>(rank));
  if (read(sizes) < sizes.size()) refuse(path, "it ends inside its header; the file is cut short");
  std::int64_t dims[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) {
    const std::uint8_t* d = header + 4 + 4 * i;
    dims[i] = std::int64_t{d[0]} << 24 | d[1] << 16 | d[2] << 8 | d[3];
  }
  try {
    return {{Shape(std::span<const std::int64_t>(dims, static_cast<std::size_t>(rank))), dtype},
            4 + sizes.size()};
  } catch (const Error& error) {
    refuse(path, error.what());
  }
}

void to_machine_order(std::span<std::byte> bytes, DType dtype) {
  const std::size_t width = size_of(dtype);
  if (kSwapped && width > 1) swap_bytes(bytes.data(), bytes.size() / width, width);
}

}  // namespace

bool is_packed(const std::string& path) {
  File file = File::open(path);
  std::byte header[2] = {};
  if (file.size() < sizeof header) return false;
  file.read(header);
  return header[0] == std::byte{0x1f} && header[1] == std::byte{0x8b};
}

IdxFile open_idx(const std::string& path) {
  File file = File::open(path);
  const std::uint64_t size = file.size();
  const auto [spec, start] =
      read_header(path, [&](std::span<std::byte> to) { return read_up_to(file, to); });
  if (size != start + spec.bytes())
    refuse(path,
           fmt::format("{} needs a file of {} bytes, and this one has {}; the file is damaged, "
                       "get a new copy",
                       to_string(spec), start + spec.bytes(), size));
  return {std::move(file), spec, start, kSwapped};
}

IdxStream::IdxStream(const std::string& path) : stream_(path) {
  spec_ = read_header(path, [&](std::span<std::byte> to) { return stream_.read(to); }).spec;
  if (spec_.bytes() / kMostRatio > stream_.file_bytes())
    refuse(path, fmt::format("it claims {}, which cannot be packed in {} bytes", to_string(spec_),
                             stream_.file_bytes()));
}

void IdxStream::read(std::span<std::byte> to) {
  if (stream_.read(to) < to.size())
    refuse(stream_.path(),
           fmt::format("it ends before the last element of {}; the file is cut short",
                       to_string(spec_)));
  to_machine_order(to, spec_.dtype);
}

void IdxStream::finish() {
  std::byte more[1];
  if (stream_.read(more) != 0)
    refuse(stream_.path(),
           fmt::format("{} is followed by something else; the file is damaged", to_string(spec_)));
}

Tensor load_idx(const std::string& path) {
  if (is_packed(path)) {
    IdxStream stream(path);
    Tensor out = Tensor::uninitialized(stream.spec(), "load_idx", Category::data);
    stream.read({out.bytes(), out.spec().bytes()});
    stream.finish();
    return out;
  }
  auto [file, spec, start, swapped] = open_idx(path);
  Tensor out = Tensor::uninitialized(spec, "load_idx", Category::data);
  read_in_pieces(file, start, {out.bytes(), spec.bytes()});
  to_machine_order({out.bytes(), spec.bytes()}, spec.dtype);
  return out;
}

}  // namespace ebb
