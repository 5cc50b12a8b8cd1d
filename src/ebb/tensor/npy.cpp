#include "ebb/tensor/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/file.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/promises.hpp"
#include "ebb/tensor/npy_header.hpp"
#include "ebb/tensor/rewrite.hpp"

namespace ebb {
namespace {

constexpr std::size_t kMaxHeader = 65535;  // what version 1.0 can say; ours are 118 bytes or so

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw FileError(fmt::format("cannot load \"{}\": {}", path, why));
}

// Elements of `bytes` bytes each, turned end for end.
void swap_bytes(std::byte* data, std::size_t count, std::size_t bytes) {
  for (std::size_t i = 0; i < count; ++i, data += bytes) std::reverse(data, data + bytes);
}

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

struct Preamble {
  NpyHeader header;
  std::uint64_t data_offset;
};

Preamble read_preamble(File& file) {
  const std::string& path = file.path();
  const std::uint64_t size = file.size();
  unsigned char start[12];
  const auto front = std::as_writable_bytes(std::span(start));
  if (size < 10) refuse(path, fmt::format("{} bytes are too few for an .npy file", size));
  file.read(front.first(10));
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    refuse(path, "it does not start as an .npy file does; save it with numpy.save");
  const int major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0)
    refuse(path, fmt::format("format version {}.{}; expected 1.0, 2.0 or 3.0", major, minor));

  std::size_t front_bytes = 10;
  std::uint64_t header_bytes = start[8] | start[9] << 8;
  if (major > 1) {
    if (size < 12) refuse(path, "it ends inside its header; the file is cut short");
    file.read(front.subspan(10, 2));
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
  file.read({text.data(), text.size()});
  try {
    return {parse_npy_header({reinterpret_cast<const char*>(text.data()), text.size()}),
            front_bytes + header_bytes};
  } catch (const Error& error) {
    refuse(path, error.what());
  }
}

}  // namespace

namespace {

// The header of a file that is as long as it says.
auto checked_front(File& file) {
  const auto front = read_preamble(file);
  const auto& [header, data_offset] = front;
  const std::uint64_t size = file.size(), expected = data_offset + header.spec.bytes();
  if (size != expected)
    refuse(file.path(),
           fmt::format("{} needs a file of {} bytes, and this one has {}; the file is {}",
                       to_string(header.spec), expected, size,
                       size < expected ? "cut short" : "followed by something else"));
  return front;
}

// `first`: which element `bytes` begin with.
void check_bools(const std::string& path, std::span<const std::byte> bytes, std::uint64_t first) {
  const auto bad =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad != bytes.end())
    refuse(path, fmt::format("element {} of its bools is {}; expected 0 or 1; the file is damaged",
                             first + static_cast<std::uint64_t>(bad - bytes.begin()),
                             std::to_integer<int>(*bad)));
}

std::string preamble_of(const std::string& path, const Spec& spec) {
  try {
    return npy_preamble(spec);
  } catch (const Error& error) {
    throw Error(fmt::format("cannot save \"{}\": {}", path, error.what()));
  }
}

}  // namespace

Tensor load_npy(const std::string& path) {
  File file = File::open(path);
  const auto [header, data_offset] = checked_front(file);
  const Spec& spec = header.spec;

  Tensor out = Tensor::uninitialized(spec, "load_npy");
  const std::span<std::byte> to(out.bytes(), spec.bytes());
  if (header.fortran_order && spec.rank() > 1) {
    const memory::Buffer columns(spec.bytes(), "load_npy", Category::workspace);
    file.read({columns.data(), columns.size()});
    to_c_order(columns.data(), to.data(), spec.shape, size_of(spec.dtype));
  } else {
    file.read(to);
  }
  if (header.swapped)
    swap_bytes(to.data(), static_cast<std::size_t>(spec.size()), size_of(spec.dtype));
  if (spec.dtype == DType::boolean) check_bools(path, to, 0);
  return out;
}

void save_npy(const std::string& path, const Tensor& tensor) {
  tensor.check_known();
  const std::string front = preamble_of(path, tensor.spec());
  AtomicFile out(path);
  out.file().write(front);
  out.file().write({tensor.raw(), tensor.spec().bytes()});
  out.commit();
}

namespace {

// For what is moved at once, as much as there is room for.
memory::Buffer piece_for(std::uint64_t bytes, const char* site) {
  constexpr std::uint64_t kLeast = InitialValue::kChunk * sizeof(double);
  return memory::up_to(bytes > kLeast ? Rewrite::kChunk : bytes, std::min(kLeast, bytes), site,
                       Category::workspace);
}

}  // namespace

void save_npy(const std::string& path, const Variable& variable) {
  const std::string front = preamble_of(path, variable.spec());
  const std::uint64_t bytes = variable.spec().bytes();
  const memory::Borrowing between_steps;
  const memory::Buffer chunk = piece_for(bytes, "save_npy");
  AtomicFile out(path);
  out.file().write(front);
  for (std::uint64_t at = 0; at < bytes; at += chunk.size()) {
    const std::span<std::byte> part(chunk.data(),
                                    std::min<std::uint64_t>(chunk.size(), bytes - at));
    variable.read(part, at);
    out.file().write(part);
  }
  out.commit();
}

void load_npy(const std::string& path, Variable& variable) {
  File file = File::open(path);
  const auto [header, data_offset] = checked_front(file);
  const Spec& spec = header.spec;
  if (spec != variable.spec())
    throw FileError(
        fmt::format("cannot load \"{}\" into variable {}: it holds {}, the variable is {}", path,
                    variable.name(), to_string(spec), to_string(variable.spec())));
  if (header.fortran_order && spec.rank() > 1) return variable.assign(load_npy(path));
  const std::uint64_t bytes = spec.bytes();
  const memory::Borrowing between_steps;
  const memory::Buffer chunk = piece_for(bytes, "load_npy");
  Rewrite rewrite({variable});
  for (std::uint64_t at = 0; at < bytes; at += chunk.size()) {
    const std::span<std::byte> part(chunk.data(),
                                    std::min<std::uint64_t>(chunk.size(), bytes - at));
    file.read_at(data_offset + at, part);
    if (header.swapped)
      swap_bytes(part.data(), part.size() / size_of(spec.dtype), size_of(spec.dtype));
    if (spec.dtype == DType::boolean) check_bools(path, part, at);
    rewrite.write(0, part, at);
  }
  rewrite.commit();
}

NpyReader::NpyReader(const std::string& path) : file_(File::open(path)) {
  const auto [header, data_offset] = checked_front(file_);
  if (header.fortran_order && header.spec.rank() > 1)
    refuse(path,
           "it is in Fortran order, which has no rows to read one by one; save it in C order");
  if (header.spec.rank() == 0) refuse(path, "it is a single number; expected rows");
  if (header.spec.dtype == DType::boolean) refuse(path, "rows of bool are not read one by one");
  spec_ = header.spec;
  data_ = data_offset;
  swapped_ = header.swapped;
}

Tensor NpyReader::rows(std::int64_t begin, std::int64_t end) {
  if (begin < 0 || end < begin || end > spec_.shape[0])
    throw Error(
        fmt::format("npy: rows [{}, {}) of {} are out of range", begin, end, to_string(spec_)));
  Tensor out = Tensor::uninitialized(spec_.with_axis(0, end - begin), "npy");
  const std::uint64_t row =
      spec_.shape[0] ? spec_.bytes() / static_cast<std::uint64_t>(spec_.shape[0]) : 0;
  file_.read_at(data_ + row * static_cast<std::uint64_t>(begin), {out.bytes(), out.spec().bytes()});
  if (swapped_) swap_bytes(out.bytes(), static_cast<std::size_t>(out.size()), size_of(spec_.dtype));
  return out;
}

NpyWriter::NpyWriter(const std::string& path, const Spec& spec) : file_(path), spec_(spec) {
  file_.file().write(preamble_of(path, spec));
}

void NpyWriter::append(const Tensor& rows) {
  rows.check_known();
  if (rows.dtype() != spec_.dtype || written_ + rows.spec().bytes() > spec_.bytes())
    throw Error(fmt::format("npy: {} does not go on a file of {} that has {} bytes so far",
                            to_string(rows.spec()), to_string(spec_), written_));
  file_.file().write({rows.raw(), rows.spec().bytes()});
  written_ += rows.spec().bytes();
}

void NpyWriter::commit() {
  if (written_ != spec_.bytes())
    throw Error(fmt::format("npy: {} has {} bytes, {} were written", to_string(spec_),
                            spec_.bytes(), written_));
  file_.commit();
}

}  // namespace ebb
