#include "ebb/train/build/sizes.hpp"

#include <fmt/format.h>

#include "ebb/base/error.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

// What the config says, which may be more than the data needs.
std::int64_t size_of(const char* key, std::optional<std::int64_t> given, std::int64_t data,
                     const char* what) {
  if (!given && data == 0)
    throw Error(
        fmt::format("{} is missing: the data does not tell how many {} there are", key, what));
  if (given && *given < data)
    throw Error(fmt::format("{} is {}, and the data has {} {}; leave the key out, or mend the data",
                            key, *given, data, what));
  return given.value_or(data);
}

void check_exact(const char* key, std::optional<std::int64_t> given, std::int64_t data,
                 const char* what) {
  if (given && *given != data)
    throw Error(fmt::format("{} is {}, and the data has {} {}; leave the key out, or mend the data",
                            key, *given, data, what));
}

Spec example_of(const Config& config, const DataFacts& facts) {
  const auto& shape = config.data.shape;
  if (shape.empty()) return facts.example;
  const Spec to{Shape(shape), facts.example.dtype};
  if (to.size() != facts.example.size())
    throw Error(fmt::format("data.shape is {}, and an example of the data is {}",
                            to_string(to.shape), to_string(facts.example.shape)));
  const bool as_steps = to.rank() == 2 && to.shape[1] == 1;
  if (!facts.lengths.empty() && to != facts.example && !as_steps)
    throw Error(
        fmt::format("data.shape is {}, and \"{}\" holds lists of different lengths, of which an "
                    "element is a step; leave the key out",
                    to_string(to.shape), facts.input));
  return to;
}

}  // namespace

Sizes sizes_of(const Config& config, const DataFacts& facts) {
  const ModelConfig& m = config.model;
  Sizes s;
  s.example = example_of(config, facts);
  s.reshaped = s.example != facts.example;
  if (s.example.dtype == DType::boolean || s.example.dtype == DType::f64)
    throw Error(
        fmt::format("an example of the data is {}, expected f32 or whole numbers for tokens",
                    to_string(s.example)));
  const bool language = facts.task == Task::language_model;
  if (s.tokens()) {
    s.vocabulary = size_of("model.vocabulary", m.vocabulary, facts.vocabulary, "different tokens");
    const std::int64_t length = s.example.rank() > 0 ? s.example.shape[0] : 1;
    s.context = size_of("model.context", m.context, length, "tokens in a row");
  } else {
    const bool rows = m.kind == ModelKind::mlp || s.example.rank() == 0;
    check_exact("model.in", m.in, rows ? s.example.size() : s.example.shape[s.example.rank() - 1],
                "features");
  }
  if (language && !s.tokens())
    throw Error(fmt::format("a language model reads token ids, and an example of the data is {}",
                            to_string(s.example)));
  if (language) {
    s.outputs = s.vocabulary;
  } else if (facts.task == Task::regression) {
    s.outputs = facts.answer.size();
    check_exact("model.classes", m.classes, s.outputs, "numbers to predict");
  } else {
    s.outputs = size_of("model.classes", m.classes, facts.classes, "classes");
  }
  return s;
}

}  // namespace ebb::train
