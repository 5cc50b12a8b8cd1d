// Text for language models: plain files, or a field of objects a line.
#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/data/files/text.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/jsonl.hpp"
#include "ebb/text/token_windows.hpp"
#include "ebb/text/vocabulary_file.hpp"
#include "ebb/train/build/open_formats.hpp"

namespace ebb::train {
namespace {

// The field that holds text: the one that is said, the only one of strings, or "text".
std::string text_field(const DataConfig& d, const std::string& path) {
  std::vector<std::string> names, strings;
  for (const io::JsonlFirst& f : io::read_jsonl_first(path)) {
    names.push_back(f.name);
    if (f.type == io::JsonType::string) strings.push_back(f.name);
  }
  const auto among = [](const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  if (!d.input.empty() && !among(names, d.input)) io::refuse_name(path, "field", d.input, names);
  if (!d.input.empty() && !among(strings, d.input))
    throw Error(fmt::format("{}: field \"{}\" is no text; a language model reads strings", path,
                            io::shown(d.input)));
  if (!d.input.empty()) return d.input;
  if (strings.size() == 1) return strings[0];
  if (among(strings, "text")) return "text";
  if (strings.empty())
    throw Error(
        fmt::format("{}: no field of its first line is a text; a language model reads strings, and "
                    "other models need data.target, the field to predict",
                    path));
  throw Error(
      fmt::format("{}: several fields are texts, among them \"{}\" and \"{}\": say data.input",
                  path, io::shown(strings[0]), io::shown(strings[1])));
}

std::shared_ptr<const data::Tokenizer> vocabulary_of(const DataConfig& d) {
  if (!file_exists(d.vocabulary))
    throw Error(fmt::format(
        "data.vocabulary is \"{}\", and there is no such file; expected \"bytes\", or a file "
        "that ebb vocab made",
        d.vocabulary));
  return text::load_vocabulary(d.vocabulary);
}

}  // namespace

OpenedRows open_text(const DataConfig& d, const RowFiles& files, const Reading* known,
                     const How& how) {
  const std::string& name = files.path[0];
  const bool shape = how.opening == Opening::shape, plain = d.format == DataFormat::text;
  const data::TextStream stream = plain ? data::text_of_files(files.path)
                                        : data::text_of_field(files.path, text_field(d, name));
  Reading reading;
  if (known) reading = *known;
  if (!known && d.vocabulary != "bytes") reading.tokenizer = vocabulary_of(d);
  const std::int64_t stride = d.stride.value_or(0);
  const bool one = plain && files.path.size() == 1;
  std::optional<Dataset> windows;
  if (reading.tokenizer) {
    const text::TokenWindowsOptions o{.window = d.window,
                                      .stride = stride,
                                      .in_memory = d.in_memory != InMemory::no,
                                      .folder = {},
                                      .shape_only = shape,
                                      .held = how.held};
    windows = one ? text::token_windows(name, *reading.tokenizer, o)
                  : text::token_windows(data::as_file(stream), name, *reading.tokenizer, o);
  } else {
    const data::TextFileOptions o{.window = d.window,
                                  .stride = stride,
                                  .in_memory = d.in_memory != InMemory::no,
                                  .shape_only = shape,
                                  .held = how.held};
    data::Text all = one ? data::text_file(name, o) : data::text_windows(stream, name, o);
    reading.tokenizer = std::make_shared<const data::Vocabulary>(all.vocabulary);
    windows = all.windows;
  }
  if (!known) {
    reading.facts = facts_of(*windows, Task::language_model, "input", "target");
    reading.facts.vocabulary = reading.tokenizer->size();
  }
  return {*windows, reading, bytes_of(files.path)};
}

}  // namespace ebb::train
