#include "apps/ebb/asked_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/ebb/console.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/io/image/image.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/train/build/open_files.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::app {
namespace {

namespace fs = std::filesystem;

AskedRows of_dataset(Dataset rows) {
  AskedRows asked{rows.spec(), rows.size(), false, {}};
  asked.each = [rows](const AskedRows::Visit& visit) {
    for (const Batch& b : rows.epoch(0)) visit(b, {});
  };
  return asked;
}

bool is_picture(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".png" || ending == ".PNG" || ending == ".ppm" || ending == ".pgm";
}

// Those of the folder and of folders in it, in the order of their names.
std::vector<std::string> pictures_in(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return {path};
  std::vector<std::string> all;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    if (at->is_regular_file() && is_picture(at->path())) all.push_back(at->path().string());
  if (error) throw FileError(fmt::format("cannot read folder \"{}\": {}", path, error.message()));
  if (all.empty())
    throw FileError(
        fmt::format("folder \"{}\" has no pictures; expected .png, .ppm or .pgm files", path));
  std::sort(all.begin(), all.end());
  return all;
}

AskedRows of_pictures(const train::Job& job, const std::string& path) {
  const std::vector<std::string> files = pictures_in(path);
  const Spec one{job.reading.facts.example.shape, DType::u8};  // height, width, channels
  const std::int64_t batch =
      std::min<std::int64_t>(job.config.train.batch, static_cast<std::int64_t>(files.size()));
  const std::string column = job.reading.facts.input;
  const ImageOptions how{.channels = static_cast<int>(one.shape[2])};
  const auto rows_of = [one](std::int64_t rows, DType type) {
    std::vector<std::int64_t> shape = {rows};
    shape.insert(shape.end(), one.shape.begin(), one.shape.end());
    return Spec{Shape(shape), type};
  };
  AskedRows asked{BatchSpec{{column, rows_of(batch, DType::f32)}},
                  static_cast<std::int64_t>(files.size()),
                  true,
                  {}};
  asked.each = [=](const AskedRows::Visit& visit) {
    for (std::size_t at = 0; at < files.size(); at += static_cast<std::size_t>(batch)) {
      const std::size_t end = std::min(files.size(), at + static_cast<std::size_t>(batch));
      Tensor bytes = Tensor::uninitialized(rows_of(static_cast<std::int64_t>(end - at), DType::u8),
                                           "pictures");
      for (std::size_t i = at; i < end; ++i)
        load_image(files[i], how, one, {bytes.bytes() + (i - at) * one.bytes(), one.bytes()});
      const std::vector<std::string> names(files.begin() + static_cast<std::ptrdiff_t>(at),
                                           files.begin() + static_cast<std::ptrdiff_t>(end));
      visit(Batch{{column, cast(bytes, DType::f32) * (1.0f / 255)}}, names);
    }
  };
  return asked;
}

// Rows as the model reads them, for models whose own data was generated.
AskedRows of_array(const train::Job& job, const std::string& path) {
  const train::DataFacts& facts = job.reading.facts;
  if (!path.ends_with(".npy"))
    throw Error(
        fmt::format("{}: the model has learnt from generated rows; ask it about an .npy file of "
                    "rows {}",
                    path, to_string(facts.example)));
  data::Source rows = data::npy_rows(path);
  const Spec found = rows.spec();  // of all of them: (rows, …)
  if (found.dtype == DType::u8 && facts.example.dtype == DType::f32) rows = rows.scaled(1.0f / 255);
  if (found.rank() == 0 || rows.spec().dtype != facts.example.dtype ||
      !std::equal(found.shape.begin() + 1, found.shape.end(), facts.example.shape.begin(),
                  facts.example.shape.end()))
    throw Error(fmt::format("{}: it holds {}, expected rows of {}", path, to_string(found),
                            to_string(facts.example)));
  return of_dataset(Dataset::of({{facts.input, std::move(rows)}}).batch(job.config.train.batch));
}

}  // namespace

AskedRows asked_rows(const train::Job& job, const std::string& path) {
  if (!file_exists(path))
    throw FileError(fmt::format("cannot open \"{}\": there is no such file", path));
  if (job.config.data.format == train::DataFormat::images) return of_pictures(job, path);
  if (train::is_generated(job.config.data.format)) return of_array(job, path);
  train::OpenedRows opened = train::open_rows_of(job.config, {{path}, {}}, &job.reading);
  if (opened.rows.size() == 0) throw Error(fmt::format("{}: there are no rows", path));
  AskedRows asked = of_dataset(opened.rows.batch(job.config.train.batch));
  asked.notes = std::move(opened.notes);
  return asked;
}

Dataset rows_with_targets(const train::Job& job, const std::string& path,
                          const std::string& targets) {
  const train::DataConfig& d = job.config.data;
  if (train::is_generated(d.format))
    throw Error(
        fmt::format("{}: the model has learnt from generated rows ({}), of which no file has the "
                    "targets; leave --data out to use those that were held out",
                    path, train::name_of(d.format)));
  const bool apart = d.format == train::DataFormat::npy || d.format == train::DataFormat::idx;
  if (apart && targets.empty())
    throw Error(
        fmt::format("{}: the targets of {} rows are a file of their own; name it with "
                    "--target",
                    path, train::name_of(d.format)));
  train::RowFiles files{{path}, {}};
  if (!targets.empty()) files.target_path = {targets};
  const train::OpenedRows opened = train::open_rows_of(job.config, files, &job.reading);
  if (opened.rows.size() == 0) throw Error(fmt::format("{}: there are no rows", path));
  warn(opened.notes);
  Dataset rows = opened.rows.batch(job.config.train.batch);
  const Names& names = rows.spec().names();
  if (std::find(names.begin(), names.end(), job.reading.facts.target) == names.end())
    throw Error(
        fmt::format("{}: it has no targets (\"{}\"), and figures need them; ebb predict "
                    "does without",
                    path, job.reading.facts.target));
  return rows;
}

}  // namespace ebb::app
