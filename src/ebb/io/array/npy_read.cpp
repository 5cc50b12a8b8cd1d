#include "ebb/io/array/npy_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/io/bytes/refuse.hpp"

namespace ebb {
namespace {

using io::refuse;

constexpr std::size_t kMaxHeader = 65535;  // what version 1.0 can say; ours are 118 bytes or so

// From the first axis running fastest to the last one running fastest.
void to_c_order(const std::byte* from, std::byte* to, const Shape& shape, std::size_t bytes) {
  const int rank = shape.rank();
  std::size_t stride[Shape::kMaxRank], step = bytes;
  for (int i = 0; i < rank; ++i) {
    stride[i] = step;
    step *= static_cast<std::size_t>(shape[i]);
  }
  std::int64_t at[Shape::kMaxRank] = {};
  for (std::int64_t left = shape.size(); left > 0; --left) {
    std::memcpy(to, from, bytes);
    to += bytes;
    for (int axis = rank - 1; axis >= 0; --axis) {
      from += stride[axis];
      if (++at[axis] < shape[axis]) break;
      from -= stride[axis] * static_cast<std::size_t>(shape[axis]);
      at[axis] = 0;
    }
  }
}

NpyFront read_preamble(const std::string& path, std::uint64_t size, const ReadBytes& read) {
  unsigned char start[12];
  const auto front = std::as_writable_bytes(std::span(start));
  if (size < 10) refuse(path, fmt::format("{} bytes are too few for an .npy file", size));
  read(front.first(10));
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    refuse(path, "it does not start as an .npy file does; save it with numpy.save");
  const int major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0)
    refuse(path, fmt::format("format version {}.{}; expected 1.0, 2.0 or 3.0", major, minor));

  std::size_t front_bytes = 10;
  std::uint64_t header_bytes = start[8] | start[9] << 8;
  if (major > 1) {
    if (size < 12) refuse(path, "it ends inside its header; the file is cut short");
    read(front.subspan(10, 2));
    header_bytes |=
        static_cast<std::uint64_t>(start[10]) << 16 | static_cast<std::uint64_t>(start[11]) << 24;
    front_bytes = 12;
  }
  if (header_bytes > size - front_bytes)
    refuse(path, fmt::format("its header claims {} bytes, and {} are left in the file; the file is "
                             "cut short or damaged",
                             header_bytes, size - front_bytes));
  if (header_bytes > kMaxHeader)
    refuse(path, fmt::format("its header claims {} bytes; at most {} are read", header_bytes,
                             kMaxHeader));
  const memory::Buffer text(header_bytes, "load_npy", Category::data);
  read({text.data(), text.size()});
  try {
    return {parse_npy_header({reinterpret_cast<const char*>(text.data()), text.size()}),
            front_bytes + header_bytes};
  } catch (const Error& error) {
    refuse(path, error.what());
  }
}

}  // namespace

void swap_bytes(std::byte* data, std::size_t count, std::size_t bytes) {
  for (std::size_t i = 0; i < count; ++i, data += bytes) std::reverse(data, data + bytes);
}

NpyFront read_npy_front(const std::string& where, std::uint64_t size, const ReadBytes& read) {
  const NpyFront front = read_preamble(where, size, read);
  const Spec& spec = front.header.spec;
  const std::uint64_t expected = front.bytes + spec.bytes();
  if (size != expected)
    refuse(where, fmt::format("{} needs a file of {} bytes, and this one has {}; the file is {}",
                              to_string(spec), expected, size,
                              size < expected ? "cut short" : "followed by something else"));
  return front;
}

void check_bools(const std::string& path, std::span<const std::byte> bytes, std::uint64_t first) {
  const auto bad =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad != bytes.end())
    refuse(path, fmt::format("element {} of its bools is {}; expected 0 or 1; the file is damaged",
                             first + static_cast<std::uint64_t>(bad - bytes.begin()),
                             std::to_integer<int>(*bad)));
}

std::string npy_preamble_for(const std::string& path, const Spec& spec) {
  try {
    return npy_preamble(spec);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot save \"{}\": {}", path, error.what()));
  }
}

Tensor read_npy(const std::string& path, std::uint64_t size, const ReadBytes& read) {
  const auto [header, data_offset] = read_npy_front(path, size, read);
  const Spec& spec = header.spec;

  Tensor out = Tensor::uninitialized(spec, "load_npy");
  const std::span<std::byte> to(out.bytes(), spec.bytes());
  if (header.fortran_order && spec.rank() > 1) {
    const memory::Buffer columns(spec.bytes(), "load_npy", Category::workspace);
    read({columns.data(), columns.size()});
    to_c_order(columns.data(), to.data(), spec.shape, size_of(spec.dtype));
  } else {
    read(to);
  }
  if (header.swapped)
    swap_bytes(to.data(), static_cast<std::size_t>(spec.size()), size_of(spec.dtype));
  if (spec.dtype == DType::boolean) check_bools(path, to, 0);
  return out;
}

}  // namespace ebb
