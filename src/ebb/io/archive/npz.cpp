#include "ebb/io/archive/npz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ebb/base/error.hpp"
#include "ebb/io/array/npy_header.hpp"
#include "ebb/io/array/npy_read.hpp"
#include "ebb/io/bytes/refuse.hpp"

namespace ebb {
namespace {

constexpr std::string_view kEnding = ".npy";

}  // namespace

NpzReader::NpzReader(const std::string& path) : zip_(path) {
  for (const io::ZipMember& m : zip_.members()) {
    if (!m.name.ends_with(kEnding))
      io::refuse(path, fmt::format("its member \"{}\" is no .npy array; save it with numpy.savez",
                                   io::shown(m.name)));
    names_.push_back(m.name.substr(0, m.name.size() - kEnding.size()));
  }
}

std::string NpzReader::label(const std::string& name) const {
  return fmt::format("{}: {}", zip_.path(), io::shown(name));
}

const io::ZipMember& NpzReader::member(const std::string& name) const {
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (names_[i] == name) return zip_.members()[i];
  io::refuse_name(zip_.path(), "array", name, names_);
}

Spec NpzReader::spec(const std::string& name) {
  const io::ZipMember& m = member(name);
  io::ZipReader::Stream stream(zip_, m);
  return read_npy_front(label(name), m.bytes, [&](auto to) { stream.read(to); }).header.spec;
}

Tensor NpzReader::load(const std::string& name) {
  const io::ZipMember& m = member(name);
  io::ZipReader::Stream stream(zip_, m);
  Tensor out = read_npy(label(name), m.bytes, [&](auto to) { stream.read(to); });
  stream.finish();
  return out;
}

void NpzReader::read(const std::string& name, const Sink& sink) {
  const io::ZipMember& m = member(name);
  io::ZipReader::Stream stream(zip_, m);
  const NpyFront front = read_npy_front(label(name), m.bytes, [&](auto to) { stream.read(to); });
  const Spec& spec = front.header.spec;
  if (front.header.fortran_order && spec.rank() > 1)
    io::refuse(label(name), "it is in Fortran order, which has no rows to read one by one");
  constexpr std::uint64_t kPiece = 256 << 10;  // a multiple of every element's size
  const std::size_t width = size_of(spec.dtype);
  const memory::Buffer buffer(std::min<std::uint64_t>(kPiece, spec.bytes()), "npz", Category::data);
  for (std::uint64_t at = 0; at < spec.bytes(); at += buffer.size()) {
    const std::span<std::byte> piece(buffer.data(),
                                     std::min<std::uint64_t>(buffer.size(), spec.bytes() - at));
    stream.read(piece);
    if (front.header.swapped) swap_bytes(piece.data(), piece.size() / width, width);
    if (spec.dtype == DType::boolean) check_bools(label(name), piece, at);
    sink(piece);
  }
  stream.finish();
}

std::optional<NpzReader::Rows> NpzReader::rows(const std::string& name) {
  const io::ZipMember& m = member(name);
  if (m.deflated) return {};
  io::ZipReader::Stream stream(zip_, m);
  const NpyFront front = read_npy_front(label(name), m.bytes, [&](auto to) { stream.read(to); });
  const Spec& spec = front.header.spec;
  if ((front.header.fortran_order && spec.rank() > 1) || spec.dtype == DType::boolean) return {};
  return Rows{spec, m.data + front.bytes, front.header.swapped};
}

void save_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays) {
  std::set<std::string> names;
  for (const auto& [name, array] : arrays) {
    if (name.empty() || !names.insert(name).second)
      throw Error(fmt::format("cannot save \"{}\": {}", path,
                              name.empty() ? "an array has no name"
                                           : fmt::format("two arrays are called \"{}\"", name)));
    array.check_known();
  }
  io::ZipWriter zip(path);
  for (const auto& [name, array] : arrays)
    zip.add(name + std::string(kEnding), npy_preamble_for(path, array.spec()),
            {array.raw(), array.spec().bytes()});
  zip.commit();
}

}  // namespace ebb
