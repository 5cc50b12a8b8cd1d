// What sections say without saying it: a model by its layers, a format by the ending of a file.
#include "ebb/train/config/data_paths.hpp"
#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {
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
  const bool said = data.format != DataFormat::automatic;
  if (!said && data.path.empty())
    throw Error(
        fmt::format("{}: {}.path is missing; or give {}.format = \"digits\", which are drawn",
                    to_string(place), path, path));
  for (const std::string& file : data.path) {
    if (said) break;
    const ToldFormat told = format_of(file);
    if (!told.format)
      throw Error(fmt::format("{}: {}.format is missing, and {} does not tell it{}; expected {}",
                              to_string(place), path, shown_text(file),
                              told.why.empty() ? "" : " (" + told.why + ")",
                              expected_word(names_of<DataFormat>())));
    if (&file != data.path.data() && data.format != *told.format)
      throw Error(
          fmt::format("{}: {}.path names {}, which is {}, and {}, which is {}; expected "
                      "files of one kind",
                      to_string(place), path, shown_text(data.path[0]), name_of(data.format),
                      shown_text(file), name_of(*told.format)));
    data.format = *told.format;
  }
  if (data.format == DataFormat::csv && !data.path.empty() && has_tabs(data.path[0]) &&
      !has(given, "separator"))
    data.separator.assign(1, '\t');
}

void settle(GroupConfig&, const TomlTable& given, const TomlPlace& place, const std::string& path) {
  if (!has(given, "names"))
    throw Error(fmt::format("{}: {}.names is missing, expected a pattern such as \"*.bias\"",
                            to_string(place), path));
}

}  // namespace ebb::train
