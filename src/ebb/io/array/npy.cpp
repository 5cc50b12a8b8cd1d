#include "ebb/io/array/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/io/array/npy_read.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/tensor/rewrite.hpp"

namespace ebb {
namespace {

using io::refuse;

NpyFront checked_front(File& file) {
  return read_npy_front(file.path(), file.size(), [&](auto to) { file.read(to); });
}

}  // namespace

Tensor load_npy(const std::string& path) {
  File file = File::open(path);
  return read_npy(path, file.size(), [&](auto to) { file.read(to); });
}

void save_npy(const std::string& path, const Tensor& tensor) {
  tensor.check_known();
  const std::string front = npy_preamble_for(path, tensor.spec());
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
  const std::string front = npy_preamble_for(path, variable.spec());
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
  file_.file().write(npy_preamble_for(path, spec));
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
