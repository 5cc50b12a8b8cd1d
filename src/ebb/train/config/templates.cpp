#include "ebb/train/config/templates.hpp"

#include "ebb/train/config/field-inl.hpp"
#include "ebb/train/config/sample_files.hpp"

namespace ebb::train {
namespace {

constexpr std::size_t kLine = 100;

TemplateFile tales_file() {
  return {"data/tales.txt", [] { return tales(64 * 1024, 1); }};
}
TemplateFile houses_file() {
  return {"data/houses.csv", [] { return houses_csv(2000, 1); }};
}

// Names of the keys that count for this section and are not among the choices.
template <class S>
void more_keys(const S& section, const std::vector<Template::Choice>& choices,
               std::vector<std::string>& more) {
  for (const Field<S>& f : fields<S>().all())
    if (f.counts(section) &&
        std::none_of(choices.begin(), choices.end(),
                     [&](const Template::Choice& c) { return c.key == f.key.full(); }))
      more.push_back(f.key.name);
}

std::vector<std::string> more_keys(const std::string& section, const Config& c,
                                   const std::vector<Template::Choice>& choices) {
  std::vector<std::string> more;
  if (section == "model") more_keys(c.model, choices, more);
  if (section == "data") more_keys(c.data, choices, more);
  if (section == "train") more_keys(c.train, choices, more);
  if (section == "memory") more_keys(c.memory, choices, more);
  if (section == "every") more_keys(c.every, choices, more);
  if (section == "output") more_keys(c.output, choices, more);
  return more;
}

// A comment over several lines.
std::string wrapped(const std::string& opening, const std::vector<std::string>& words) {
  std::string to, line = "# " + opening;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line.size() + 1 + word.size() > kLine) {
      to += line + "\n";
      line = "#  ";
    }
    line += " " + word;
  }
  return to + line + "\n";
}

std::string line_of(const Template::Choice& choice) {
  const ConfigKey& k = key(choice.key);
  const std::string set = fmt::format("{} = {}", k.name, choice.value);
  const std::string behind = fmt::format("{:<30} # {}", set, k.doc);
  const bool one_line = choice.value.find('\n') == std::string::npos;
  if (one_line && behind.size() <= kLine) return behind + "\n";
  return fmt::format("# {}\n{}\n", k.doc, set);
}

}  // namespace

std::string Template::text() const {
  std::string set;  // the choices alone, to know what counts beside them
  for (const ConfigSection& s : sections()) {
    if (s.repeated) continue;
    set += fmt::format("[{}]\n", s.name);
    for (const Choice& c : choices)
      if (key(c.key).section == s.name) set += fmt::format("{} = {}\n", key(c.key).name, c.value);
  }
  const Config config = parse_config(set, name);

  std::string to = fmt::format(
      "# {}\n#\n# Every key is explained in docs/config.md, and by: ebb config keys\n", about);
  for (const ConfigSection& s : sections()) {
    if (s.repeated) continue;
    to += fmt::format("\n[{}]\n", s.name);
    for (const Choice& c : choices)
      if (key(c.key).section == s.name) to += line_of(c);
    const auto more = more_keys(s.name, config, choices);
    if (!more.empty()) to += wrapped("more keys:", more);
  }
  return to;
}

namespace {

Template mlp_template() {
  return {"mlp",
          "A classifier of handwriting-like digits, which are drawn: nothing to download.",
          {{"model.kind", "\"mlp\""},
           {"model.hidden", "[256, 128]"},
           {"model.dropout", "0.1"},
           {"data.format", "\"digits\""},
           {"data.rows", "8192"},
           {"train.batch", "128"},
           {"train.epochs", "8"},
           {"train.lr", "2e-3"},
           {"train.schedule", "\"cosine\""},
           {"train.warmup", "0.05"},
           {"train.metric", "\"accuracy\""},
           {"memory.budget", "\"64MiB\""},
           {"every.log", "20"},
           {"every.eval", "\"1 epoch\""},
           {"output.keep_last", "2"}},
          {}};
}

Template cnn_template() {
  return {"cnn",
          "A convolutional classifier of digits, in a process of 64 MiB.",
          {{"model.layers",
            "[\n"
            "  { kind = \"conv\", out = 16 },\n"
            "  { kind = \"relu\" },\n"
            "  { kind = \"max_pool\" },\n"
            "  { kind = \"conv\", out = 32 },\n"
            "  { kind = \"relu\" },\n"
            "  { kind = \"max_pool\" },\n"
            "  { kind = \"flatten\" },\n"
            "  { kind = \"dropout\", rate = 0.2 },\n"
            "  { kind = \"dense\" }  # as many outputs as there are classes\n"
            "]"},
           {"data.format", "\"digits\""},
           {"data.rows", "6144"},
           {"data.shape", "[28, 28, 1]"},
           {"train.batch", "128"},
           {"train.epochs", "5"},
           {"train.lr", "2e-3"},
           {"train.schedule", "\"cosine\""},
           {"train.metric", "\"accuracy\""},
           {"train.patience", "3"},
           {"memory.budget", "\"64MiB\""},
           {"memory.allow", "\"same_bits\""},
           {"every.log", "10"},
           {"every.eval", "\"1 epoch\""},
           {"every.save", "\"1 epoch\""},
           {"output.keep_last", "2"}},
          {}};
}

Template lstm_template() {
  return {"lstm",
          "A recurrent language model of bytes, on little tales that are beside this file.",
          {{"model.kind", "\"lstm\""},
           {"model.width", "128"},
           {"model.depth", "1"},
           {"model.embedding", "32"},
           {"data.path", "\"data/tales.txt\""},
           {"data.window", "64"},
           {"train.batch", "32"},
           {"train.epochs", "12"},
           {"train.lr", "5e-3"},
           {"train.schedule", "\"cosine\""},
           {"train.clip_norm", "1.0"},
           {"train.metric", "\"perplexity\""},
           {"memory.budget", "\"64MiB\""},
           {"every.log", "10"},
           {"every.eval", "\"1 epoch\""},
           {"every.sample", "\"4 epochs\""},
           {"output.prompt", "\"One morning\""}},
          {tales_file()}};
}

Template gpt_template() {
  return {"gpt",
          "A small transformer that learns to write the tales beside this file, character by "
          "character.",
          {{"model.kind", "\"gpt\""},
           {"model.width", "64"},
           {"model.depth", "2"},
           {"model.heads", "4"},
           {"model.dropout", "0.0"},
           {"data.path", "\"data/tales.txt\""},
           {"data.window", "64"},
           {"train.batch", "32"},
           {"train.epochs", "16"},
           {"train.optimizer", "\"adamw\""},
           {"train.lr", "5e-3"},
           {"train.weight_decay", "0.1"},
           {"train.beta2", "0.95"},
           {"train.schedule", "\"cosine\""},
           {"train.warmup", "0.1"},
           {"train.clip_norm", "1.0"},
           {"train.metric", "\"perplexity\""},
           {"train.groups", "[{ names = \"*norm*\", weight_decay = 0 }]"},
           {"memory.budget", "\"64MiB\""},
           {"every.log", "10"},
           {"every.eval", "\"2 epochs\""},
           {"every.save", "\"10min\""},
           {"every.sample", "\"4 epochs\""},
           {"output.prompt", "\"One morning\""},
           {"output.sample_tokens", "300"}},
          {tales_file()}};
}

Template encoder_template() {
  return {
      "encoder",
      "A transformer that tells praise from blame in generated sequences, in which \"not\" turns "
      "the next word round.",
      {{"model.kind", "\"encoder\""},
       {"model.width", "32"},
       {"model.depth", "1"},
       {"model.heads", "4"},
       {"data.format", "\"sequences\""},
       {"data.rows", "6144"},
       {"data.window", "16"},
       {"train.batch", "64"},
       {"train.epochs", "10"},
       {"train.lr", "3e-3"},
       {"train.schedule", "\"cosine\""},
       {"train.warmup", "0.1"},
       {"train.metric", "\"accuracy\""},
       {"train.ema", "0.99"},
       {"memory.budget", "\"64MiB\""},
       {"every.log", "20"},
       {"every.eval", "\"1 epoch\""}},
      {}};
}

Template tabular_template() {
  return {"tabular",
          "Predicts the price of a house from a table with numbers, categories and a header.",
          {{"model.kind", "\"mlp\""},
           {"model.hidden", "[64, 64]"},
           {"model.activation", "\"gelu\""},
           {"data.path", "\"data/houses.csv\""},
           {"data.target", "\"price\""},
           {"data.standardise", "true"},
           {"data.missing", "\"mean\""},
           {"data.validation_fraction", "0.2"},
           {"train.batch", "64"},
           {"train.epochs", "60"},
           {"train.lr", "5e-3"},
           {"train.schedule", "\"plateau\""},
           {"train.decay_factor", "0.3"},
           {"train.plateau_patience", "4"},
           {"train.metric", "\"rmse\""},
           {"train.patience", "15"},
           {"memory.budget", "\"auto\""},
           {"every.log", "\"1 epoch\""},
           {"every.eval", "\"1 epoch\""},
           {"every.save", "\"10 epochs\""}},
          {houses_file()}};
}

}  // namespace

const std::vector<Template>& templates() {
  static const std::vector<Template> all = {mlp_template(), cnn_template(),     lstm_template(),
                                            gpt_template(), encoder_template(), tabular_template()};
  return all;
}

const Template& find_template(std::string_view name) {
  std::vector<std::string> names;
  for (const Template& t : templates()) {
    if (t.name == name) return t;
    names.push_back(t.name);
  }
  const std::string near = nearest(name, names);
  throw Error(fmt::format("there is no template {}; {}", shown_text(name),
                          near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                       : fmt::format("do you mean {}?", near)));
}

}  // namespace ebb::train
