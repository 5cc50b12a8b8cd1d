#include "ebb/train/config/data_paths.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/files/folder.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

struct Ending {
  const char* text;
  DataFormat format;
};
constexpr Ending kEndings[] = {
    {".csv", DataFormat::csv},      {".csv.gz", DataFormat::csv},
    {".tsv", DataFormat::csv},      {".npy", DataFormat::npy},
    {".npz", DataFormat::npz},      {".safetensors", DataFormat::safetensors},
    {"-ubyte", DataFormat::idx},    {"-ubyte.gz", DataFormat::idx},
    {".idx", DataFormat::idx},      {".idx.gz", DataFormat::idx},
    {".jsonl", DataFormat::jsonl},  {".jsonl.gz", DataFormat::jsonl},
    {".ndjson", DataFormat::jsonl}, {".txt", DataFormat::text},
    {".md", DataFormat::text}};
constexpr const char* kPictures[] = {".png", ".PNG", ".ppm", ".pgm"};

bool is_folder(const std::string& path) { return kind_of(path) == PathKind::folder; }
bool hidden(const std::string& name) { return name.starts_with('.'); }

std::optional<DataFormat> by_ending(const std::string& name) {
  for (const Ending& e : kEndings)
    if (name.ends_with(e.text)) return e.format;
  return {};
}

std::string endings_of(DataFormat format) {
  std::vector<std::string> all;
  for (const Ending& e : kEndings)
    if (e.format == format) all.emplace_back(e.text);
  return fmt::format("{}", fmt::join(all, ", "));
}

bool holds_pictures(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return std::any_of(std::begin(kPictures), std::end(kPictures),
                       [&](const char* ending) { return name.ends_with(ending); });
  });
}

std::vector<std::string> files_in(const std::string& folder, DataFormat format) {
  std::vector<std::string> files;
  for (const std::string& name : names_in(folder)) {
    const std::string path = folder + (folder.ends_with('/') ? "" : "/") + name;
    if (!hidden(name) && by_ending(name) == format && !is_folder(path)) files.push_back(path);
  }
  return files;
}

}  // namespace

ToldFormat format_of(const std::string& path) {
  if (!is_folder(path)) return {by_ending(path), ""};
  std::vector<std::string> found;  // formats of its files
  std::optional<DataFormat> format;
  for (const std::string& name : names_in(path)) {
    if (hidden(name)) continue;
    const std::string inside = path + "/" + name;
    if (is_folder(inside)) {
      if (holds_pictures(inside)) return {DataFormat::images, ""};
      continue;
    }
    const auto told = by_ending(name);
    if (!told || std::find(found.begin(), found.end(), name_of(*told)) != found.end()) continue;
    format = told;
    found.push_back(name_of(*told));
  }
  if (found.size() == 1 && takes_several(*format)) return {format, ""};
  if (found.size() == 1)
    return {{}, fmt::format("it is a folder of {} files: name one of them", found[0])};
  if (found.empty())
    return {{},
            holds_pictures(path)
                ? "its pictures are not in folders by class, such as cat/1.png"
                : "it is a folder without files of a known kind, or pictures in folders by class"};
  return {{}, fmt::format("it is a folder of {} files", fmt::join(found, " and "))};
}

bool has_tabs(const std::string& path) {
  if (!is_folder(path)) return path.ends_with(".tsv");
  const std::vector<std::string> files = files_in(path, DataFormat::csv);
  return !files.empty() && files[0].ends_with(".tsv");
}

std::vector<std::string> files_of(DataFormat format, const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    if (!is_folder(path) || format == DataFormat::images) {
      all.push_back(path);
      continue;
    }
    if (!takes_several(format))
      throw Error(
          fmt::format("{}: it is a folder, and {} takes one file: name it", path, name_of(format)));
    const std::vector<std::string> files = files_in(path, format);
    if (files.empty())
      throw Error(fmt::format("{}: the folder holds no {} files; expected names that end in {}",
                              path, name_of(format), endings_of(format)));
    all.insert(all.end(), files.begin(), files.end());
  }
  return all;
}

}  // namespace ebb::train
