#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ebb/base/error.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/checkpoint/xxh3.hpp"

namespace ebb::train {
namespace {

std::string text_of(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format(
        "a checkpoint holds text in UTF-8, and the bytes after \"{}\" are none; encode it",
        text.substr(0, 20)));
  }
}

std::string number_of(double value) {
  return nlohmann::json(value).dump();
}  // parses back to the same

std::string tensor_of(const ManifestTensor& t) {
  for (const char c : t.name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw Error(
          fmt::format("save: variable {} has a control character in its name; give it another",
                      text_of(t.name)));
  return fmt::format("{{\"name\": {}, \"dtype\": \"{}\", \"shape\": [{}], \"xxh3\": \"{}\"}}",
                     text_of(t.name), safetensors_type(t.spec.dtype),
                     fmt::join(t.spec.shape.dims(), ", "), digits(t.checksum));
}

std::string file_of(const ManifestFile& f) {
  std::string text =
      fmt::format("  {{\"name\": {}, \"bytes\": {}, \"xxh3\": \"{}\", \"tensors\": [",
                  text_of(f.name), f.bytes, digits(f.checksum));
  const char* between = "\n";
  for (const ManifestTensor& t : f.tensors) {
    text += fmt::format("{}   {}", between, tensor_of(t));
    between = ",\n";
  }
  return text + "]}";
}

}  // namespace

std::string to_json(const Manifest& m) {
  const CheckpointInfo& i = m.info;
  std::string text = fmt::format(
      "{{\n \"format\": {},\n \"written\": {},\n \"step\": {},\n \"epoch\": {},\n \"position\": "
      "{},\n"
      " \"metric\": {},\n",
      Manifest::kFormat, m.written, i.step, i.epoch, text_of(i.position), text_of(i.metric));
  if (i.value) text += fmt::format(" \"value\": {},\n", number_of(*i.value));
  if (i.best) text += fmt::format(" \"best\": {},\n", number_of(*i.best));
  text += fmt::format(" \"random\": {{\"seed\": {}, \"step\": {}, \"draw\": {}}},\n \"extra\": {{",
                      m.seed, m.random_step, m.draw);
  const char* between = "\n";
  for (const auto& [key, value] : i.extra) {
    text += fmt::format("{}  {}: {}", between, text_of(key), text_of(value));
    between = ",\n";
  }
  text += "},\n \"files\": [";
  between = "\n";
  for (const ManifestFile& f : m.files) {
    text += between + file_of(f);
    between = ",\n";
  }
  text += "],\n \"checksum\": \"";
  const std::string sum = digits(xxh3(text));
  return text + sum + "\"\n}\n";
}

}  // namespace ebb::train
