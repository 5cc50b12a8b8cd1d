// What sections say without saying it: a model by its layers, a format by the ending of a file.
#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {
namespace {

struct Ending {
  const char* text;
  DataFormat format;
};
constexpr Ending kEndings[] = {
    {".csv", DataFormat::csv},        {".csv.gz", DataFormat::csv},
    {".tsv", DataFormat::csv},        {".npy", DataFormat::npy},
    {".npz", DataFormat::npz},        {".safetensors", DataFormat::safetensors},
    {"-ubyte", DataFormat::idx},      {"-ubyte.gz", DataFormat::idx},
    {".idx", DataFormat::idx},        {".jsonl", DataFormat::jsonl},
    {".jsonl.gz", DataFormat::jsonl}, {".txt", DataFormat::text},
    {".md", DataFormat::text}};

}  // namespace

void settle(ModelConfig& model, const TomlTable& given, const TomlPlace& place,
            const std::string& path) {
  if (has(given, "kind")) return;
  if (!has(given, "layers"))
    throw Error(fmt::format("{}: {}.kind is missing, expected {}; or give {}.layers",
                            to_string(place), path, expected_word(names_of<ModelKind>()), path));
  model.kind = ModelKind::layers;
}

void settle(LayerConfig&, const TomlTable& given, const TomlPlace& place, const std::string& path) {
  if (!has(given, "kind"))
    throw Error(fmt::format("{}: {}.kind is missing, expected {}", to_string(place), path,
                            expected_word(names_of<LayerKind>())));
}

void settle(DataConfig& data, const TomlTable& given, const TomlPlace& place,
            const std::string& path) {
  if (data.format != DataFormat::automatic) return;
  if (data.path.empty())
    throw Error(
        fmt::format("{}: {}.path is missing; or give {}.format = \"digits\", which are drawn",
                    to_string(place), path, path));
  for (const Ending& e : kEndings)
    if (data.path[0].ends_with(e.text)) data.format = e.format;
  if (data.format == DataFormat::automatic)
    throw Error(fmt::format("{}: {}.format is missing, and {} does not tell it; expected {}",
                            to_string(place), path, shown_text(data.path[0]),
                            expected_word(names_of<DataFormat>())));
  if (data.path[0].ends_with(".tsv") && !has(given, "separator")) data.separator.assign(1, '\t');
}

void settle(GroupConfig&, const TomlTable& given, const TomlPlace& place, const std::string& path) {
  if (!has(given, "names"))
    throw Error(fmt::format("{}: {}.names is missing, expected a pattern such as \"*.bias\"",
                            to_string(place), path));
}

}  // namespace ebb::train
