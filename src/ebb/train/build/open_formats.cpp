#include "ebb/train/build/open_formats.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"

namespace ebb::train {

data::StoreOptions store_of(const DataConfig& d, const How& how) {
  return {.in_memory = d.in_memory != InMemory::no,
          .shape_only = how.opening == Opening::shape,
          .held = how.held};
}

// Without a budget what was read of a file stays in the page cache, at no cost to the process.
data::Source placed(const data::Source& rows, const DataConfig& d, const How& how) {
  data::StoreOptions store = store_of(d, how);
  if (d.in_memory == InMemory::automatic) store.in_memory = how.held->most != data::RowsHeld::kAll;
  return data::held(rows, store);
}

const std::string& only_path(const std::vector<std::string>& paths, const char* key) {
  if (paths.size() != 1)
    throw Error(
        fmt::format("{} names {} files, expected 1: put them together, or train on one of them",
                    key, paths.size()));
  return paths[0];
}

void refuse_empty(const Dataset& rows, const std::string& path) {
  if (rows.size() == 0)
    throw Error(fmt::format("{}: there are no rows; expected at least one to learn from", path));
}

std::uint64_t bytes_of(const std::vector<std::string>& paths) {
  std::uint64_t bytes = 0;
  for (const std::string& path : paths) bytes += File::open(path).size();
  return bytes;
}

std::int64_t count_classes(const Dataset& rows, const std::string& column,
                           const std::string& path) {
  constexpr std::int64_t kMostClasses = 1'000'000;  // where there are fewer rows than that
  std::int64_t most = -1, row = 0;
  for (const Batch& b : rows.batch(std::min<std::int64_t>(rows.size(), 65536)).epoch(0)) {
    for (const std::int32_t label : b[column].data<std::int32_t>()) {
      if (label < 0)
        throw Error(fmt::format("{}: label {} in row {}; expected 0 to the number of classes - 1",
                                path, label, row));
      if (label >= std::max(kMostClasses, rows.size()))
        throw Error(
            fmt::format("{}: label {} in row {}; expected 0 to the number of classes - 1, "
                        "of which {} rows do not have so many",
                        path, label, row, rows.size()));
      most = std::max<std::int64_t>(most, label);
      ++row;
    }
  }
  return most + 1;
}

Dataset with_type(const Dataset& rows, const std::string& column, DType to, double factor) {
  const Spec spec = rows.batch(1).spec()[column];
  if (spec.dtype == to && factor == 1) return rows;
  return rows.map([column, to, factor](const Batch& b) {
    std::vector<Tensor> values = b.values();
    Tensor& t = values[index_of(b.names(), column)];
    if (t.dtype() != to) t = cast(t, to);
    if (factor != 1) t = t * static_cast<float>(factor);
    return Batch(b.shared_names(), std::move(values));
  });
}

std::string array_name(const std::vector<std::string>& names, const std::string& asked,
                       const std::string& other, const char* key, const std::string& path) {
  if (!asked.empty()) return asked;
  std::string found;
  for (const std::string& n : names) {
    if (n == other) continue;
    if (!found.empty())
      throw Error(fmt::format("{}: it holds {} arrays, among them \"{}\" and \"{}\": say {}", path,
                              names.size(), found, n, key));
    found = n;
  }
  if (found.empty()) throw Error(fmt::format("{}: there is no array for {}", path, key));
  return found;
}

}  // namespace ebb::train
