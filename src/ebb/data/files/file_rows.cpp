#include "ebb/data/files/file_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/data/row_file.hpp"
#include "ebb/io/archive/npz.hpp"
#include "ebb/io/array/idx.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/io/bytes/refuse.hpp"

namespace ebb::data {
namespace {

std::size_t row_bytes_of(const Spec& spec) {
  return spec.shape[0] ? spec.bytes() / static_cast<std::size_t>(spec.shape[0]) : 0;
}

Source in_place(File file, std::uint64_t first, const Spec& spec, bool swapped) {
  const std::size_t row = row_bytes_of(spec);
  const auto rows = std::make_shared<RowFile>(std::move(file), first, row, row, spec.shape[0]);
  return Source(rows, spec, 0, swapped).movable(rows->buffer_bytes(), true);
}

void check_rows(const std::string& path, const Spec& spec) {
  if (spec.rank() == 0) io::refuse(path, "it is a single number; expected rows");
}

using Fill = std::function<void(RowStoreWriter&)>;

// All of `spec`, in a store of its own.
Source unpacked(const StoreOptions& options, const StoreKey& key, const Spec& spec,
                const Fill& fill) {
  const auto column = [&](const RowStore& store) {
    return store.column(0, spec.dtype, Shape(spec.shape.dims().subspan(1)));
  };
  if (const auto found = RowStore::find(options, key)) return column(*found);
  RowStoreWriter writer(options, key, "", {spec.shape[0], row_bytes_of(spec), {}});
  return column(writer.fill_all([&] { fill(writer); }));
}

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

}  // namespace

Source npy_rows(const std::string& path) {
  const NpyReader reader(path);
  return in_place(File::open(path), reader.data_offset(), reader.spec(), reader.swapped());
}

Source npy_rows(const std::vector<std::string>& paths) {
  if (paths.empty()) throw Error("npy_rows: there is no file to read");
  std::vector<RowFile::Part> parts;
  Spec all;
  bool swapped = false;
  for (const std::string& path : paths) {
    const NpyReader reader(path);
    const Spec& spec = reader.spec();
    check_rows(path, spec);
    if (parts.empty()) {
      all = spec;
      swapped = reader.swapped();
    } else if (spec.dtype != all.dtype || reader.swapped() != swapped ||
               spec.with_axis(0, 0).shape != all.with_axis(0, 0).shape) {
      io::refuse(
          path, fmt::format("it holds {}{}, and \"{}\" {}; files of one data set have rows of "
                            "one shape and type",
                            to_string(spec),
                            reader.swapped() != swapped ? " in the other byte order" : "", paths[0],
                            to_string(all)));
    } else {
      all = all.with_axis(0, all.shape[0] + spec.shape[0]);
    }
    parts.push_back({File::open(path), reader.data_offset(), spec.shape[0]});
  }
  const std::size_t row = row_bytes_of(all);
  const auto rows = std::make_shared<RowFile>(std::move(parts), row, row);
  return Source(rows, all, 0, swapped).movable(rows->buffer_bytes(), true);
}

Source npz_rows(const std::string& path, const std::string& name, StoreOptions options) {
  NpzReader npz(path);
  const Spec spec = npz.spec(name);
  check_rows(path + ": " + name, spec);
  if (const auto rows = npz.rows(name))
    return in_place(File::open(path), rows->offset, spec, rows->swapped);
  const StoreKey key{fmt::format("npz 1 {} {} {}", absolute(path), name, to_string(spec)),
                     version_of(path)};
  return unpacked(options, key, spec, [&](RowStoreWriter& writer) {
    npz.read(name, [&](std::span<const std::byte> bytes) { writer.add_rows(bytes); });
  });
}

Source safetensors_rows(const std::string& path, const std::string& name) {
  File file = File::open(path);
  const Safetensors front = read_safetensors_front(file);
  const auto found = std::find_if(front.tensors.begin(), front.tensors.end(),
                                  [&](const StoredTensor& t) { return t.name == name; });
  if (found == front.tensors.end()) {
    std::vector<std::string> names;
    for (const StoredTensor& t : front.tensors) names.push_back(t.name);
    io::refuse_name(path, "tensor", name, names);
  }
  check_rows(path + ": " + name, found->spec);
  if (found->spec.dtype == DType::boolean)
    io::refuse(path + ": " + name, "rows of bool are not read one by one");
  return in_place(std::move(file), front.data + found->offset, found->spec, false);
}

Source idx_rows(const std::string& path, StoreOptions options) {
  if (!is_packed(path)) {
    auto [file, spec, start, swapped] = open_idx(path);
    check_rows(path, spec);
    return in_place(std::move(file), start, spec, swapped);
  }
  IdxStream stream(path);
  const Spec spec = stream.spec();
  check_rows(path, spec);
  const StoreKey key{fmt::format("idx 1 {} {}", absolute(path), to_string(spec)), version_of(path)};
  return unpacked(options, key, spec, [&](RowStoreWriter& writer) {
    constexpr std::uint64_t kPiece = 256 << 10;  // a multiple of every element's size
    const memory::Buffer piece(std::min<std::uint64_t>(kPiece, spec.bytes()), "idx",
                               Category::data);
    for (std::uint64_t at = 0; at < spec.bytes(); at += piece.size()) {
      const std::span<std::byte> part(piece.data(),
                                      std::min<std::uint64_t>(piece.size(), spec.bytes() - at));
      stream.read(part);
      writer.add_rows(part);
    }
    stream.finish();
  });
}

Source held(const Source& rows, const StoreOptions& options) {
  const RowFile* const file = rows.file().get();
  const bool of_store = !rows.as_it_lies(Lying::in_memory);  // which has decided for itself
  if (!file || of_store || !hold(options, {rows.spec().bytes()})) return rows;
  Tensor all = Tensor::uninitialized(rows.spec(), "rows", Category::data);
  if (options.shape_only) {
    touch_some(all);
  } else if (rows.spec().bytes() > 0) {
    constexpr std::int64_t kAtOnce = 4096;
    const memory::Buffer list(kAtOnce * sizeof(RowFile::Wanted), "rows", Category::data);
    const memory::Buffer buffer(file->buffer_bytes(), "rows", Category::data);
    auto* const wanted = reinterpret_cast<RowFile::Wanted*>(list.data());
    for (std::int64_t at = 0; at < file->rows(); at += kAtOnce) {
      const std::int64_t count = std::min(kAtOnce, file->rows() - at);
      for (std::int64_t i = 0; i < count; ++i)
        wanted[i] = {static_cast<std::uint32_t>(at + i), static_cast<std::uint32_t>(at + i)};
      file->read(
          {wanted, static_cast<std::size_t>(count)}, {buffer.data(), buffer.size()},
          [&](const RowFile::Wanted& w, const std::byte* row) { rows.place(row, w.slot, all); });
    }
  }
  return Source(all).movable(file->buffer_bytes(), true);
}

}  // namespace ebb::data
