#include "ebb/train/config/contradictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/train/config/keys.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {

const std::vector<std::string> kMetrics = {"accuracy", "perplexity", "rmse", "mae"};

namespace {

class Check {
 public:
  Check(const Config& config, const TomlTable& document, const std::string& name)
      : c(config), document_(document), name_(name) {}

  void all() const {
    model();
    data();
    task();
    metrics();
    optimizer();
    schedule();
    memory();
  }

 private:
  // Where a key of the text stands; else the section, else the whole.
  std::string at(std::string_view section, std::string_view key) const {
    for (const TomlEntry& s : document_) {
      if (s.name != section) continue;
      if (const auto* table = std::get_if<TomlTable>(&s.value.is))
        for (const TomlEntry& e : *table)
          if (e.name == key) return to_string(e.value.place);
      return to_string(s.place);
    }
    return name_;
  }
  void refuse_if(bool wrong, std::string_view section, std::string_view key,
                 const std::string& why) const {
    if (wrong) throw Error(fmt::format("{}: {}.{} {}", at(section, key), section, key, why));
  }

  void model() const {
    const ModelConfig& m = c.model;
    refuse_if(m.kind == ModelKind::layers && m.layers.empty(), "model", "layers",
              "is missing, expected at least one layer");
    refuse_if((m.kind == ModelKind::cnn || m.kind == ModelKind::resnet) && m.channels.empty(),
              "model", "channels", "is empty, expected a number for each stage");
    const bool transformer = m.kind == ModelKind::gpt || m.kind == ModelKind::encoder;
    refuse_if((transformer || m.attention) && m.width % m.heads != 0, "model", "heads",
              fmt::format("is {}, which does not divide model.width = {}", m.heads, m.width));
    refuse_if(transformer && m.heads % m.kv_heads.value_or(m.heads) != 0, "model", "kv_heads",
              fmt::format("is {}, which does not divide model.heads = {}", m.kv_heads.value_or(0),
                          m.heads));
    for (std::size_t i = 0; i < m.layers.size(); ++i)
      refuse_if(m.layers[i].kind == LayerKind::reshape && m.layers[i].shape.empty(), "model",
                "layers",
                fmt::format("[{}] reshapes to nothing, expected a shape such as [28, 28, 1]", i));
  }

  void data() const {
    const DataConfig& d = c.data;
    const std::string format = name_of(d.format);
    refuse_if(!is_generated(d.format) && d.path.empty(), "data", "path",
              fmt::format("is missing: where the {} data is", format));
    for (const auto* all : {&d.path, &d.target_path, &d.validation_path, &d.validation_target_path})
      refuse_if(std::find(all->begin(), all->end(), "") != all->end(), "data", "path",
                "is \"\", expected the name of a file");
    refuse_if(d.format == DataFormat::csv && d.target.empty(), "data", "target",
              "is missing: the column that is to be predicted");
    refuse_if(d.format == DataFormat::jsonl && d.target.empty() && !is_text(d), "data", "target",
              "is missing: the field that is to be predicted; a language model (data.task) needs "
              "none");
    several("path", d.path);
    several("target_path", d.target_path);
    several("validation_path", d.validation_path);
    several("validation_target_path", d.validation_target_path);
    refuse_if(d.separator.size() != 1, "data", "separator",
              fmt::format("is {}, expected one character", shown_text(d.separator)));
    refuse_if(
        !d.validation_path.empty() && d.target_path.empty() && !d.validation_target_path.empty(),
        "data", "validation_target_path", "is given without data.target_path");
    refuse_if(
        !d.validation_path.empty() && !d.target_path.empty() && d.validation_target_path.empty(),
        "data", "validation_target_path",
        "is missing: the targets of data.validation_path, as data.target_path has those of "
        "data.path");
  }

  void several(const char* key, const std::vector<std::string>& paths) const {
    refuse_if(paths.size() > 1 && !takes_several(c.data.format), "data", key,
              fmt::format("names {} files, and {} takes one; several are taken of csv, jsonl, npy "
                          "and text",
                          paths.size(), name_of(c.data.format)));
  }

  void task() const {
    const bool language = c.data.task == Task::language_model || (!c.data.task && is_text(c.data));
    const ModelKind kind = c.model.kind;
    const bool rows = kind == ModelKind::mlp || kind == ModelKind::cnn ||
                      kind == ModelKind::resnet || kind == ModelKind::encoder;
    refuse_if(language && rows, "model", "kind",
              fmt::format("is {}, which is no language model; data asks for one: gpt, lstm or gru",
                          name_of(kind)));
    const bool other = c.data.task
                           ? !language
                           : is_generated(c.data.format) || c.data.format == DataFormat::images ||
                                 c.data.format == DataFormat::csv;
    refuse_if(kind == ModelKind::gpt && other, "model", "kind",
              "is gpt, a language model, and the data is none; for classes take encoder");
    const bool numbers = c.data.task == Task::regression;
    const bool classes = language || c.data.task == Task::classification ||
                         c.data.task == Task::sequence_classification;
    const bool cross_entropy = c.train.loss == LossKind::cross_entropy;
    refuse_if(numbers && cross_entropy, "train", "loss",
              "is cross_entropy, and data.task is regression: expected mse, mae or huber");
    refuse_if(classes && c.train.loss && !cross_entropy, "train", "loss",
              fmt::format("is {}, and the data's targets are classes: expected cross_entropy",
                          name_of(c.train.loss.value_or(LossKind::mse))));
  }

  void metrics() const {
    const auto unknown = [&](const std::string& metric) {
      return std::find(kMetrics.begin(), kMetrics.end(), metric) == kMetrics.end();
    };
    for (const std::string& m : c.train.metrics)
      refuse_if(unknown(m), "train", "metrics", wrong_metric(m, kMetrics));
    std::vector<std::string> with_loss = kMetrics;
    with_loss.insert(with_loss.begin(), "loss");
    const std::string& best = c.train.metric;
    refuse_if(best != "loss" && unknown(best), "train", "metric", wrong_metric(best, with_loss));
    const auto& listed = c.train.metrics;
    refuse_if(best != "loss" && !listed.empty() &&
                  std::find(listed.begin(), listed.end(), best) == listed.end(),
              "train", "metric", fmt::format("is {}, which is not in train.metrics", best));
  }

  static std::string wrong_metric(const std::string& found, const std::vector<std::string>& known) {
    const std::string near = nearest(found, known);
    return fmt::format("is {}, expected one of {}{}", shown_text(found), fmt::join(known, ", "),
                       near.empty() ? "" : fmt::format("; do you mean {}?", near));
  }

  void optimizer() const {
    const TrainConfig& t = c.train;
    refuse_if(t.nesterov && t.momentum == 0, "train", "nesterov",
              "needs train.momentum above 0, such as 0.9");
    refuse_if(t.lr && t.lr_floor > *t.lr, "train", "lr_floor",
              fmt::format("is {}, above train.lr = {}", t.lr_floor, t.lr.value_or(0)));
    refuse_if(t.optimizer == OptimizerKind::adafactor && t.precision != Precision::f32, "train",
              "precision", "is of 16 bits, which adafactor does not train");
  }

  void schedule() const {
    const TrainConfig& t = c.train;
    refuse_if(t.warmup >= 1 && t.warmup != std::floor(t.warmup), "train", "warmup",
              fmt::format("is {}, expected a whole number of steps, or a part below 1", t.warmup));
    refuse_if(t.steps > 0 && t.warmup >= static_cast<double>(t.steps), "train", "warmup",
              fmt::format("is {}, and there are only {} steps", t.warmup, t.steps));
    refuse_if(
        t.decay_every.unit != Period::Unit::steps && t.decay_every.unit != Period::Unit::epochs,
        "train", "decay_every",
        fmt::format("is \"{}\", expected steps or epochs", to_string(t.decay_every)));
  }

  void memory() const {
    const MemoryConfig& m = c.memory;
    refuse_if(
        m.optimizer_state == StateForm::eight_bit && c.train.optimizer != OptimizerKind::adamw,
        "memory", "optimizer_state",
        fmt::format("is 8bit, which adamw has and {} has not", name_of(c.train.optimizer)));
    refuse_if(m.micro_batch > c.train.batch, "memory", "micro_batch",
              fmt::format("is {}, above train.batch = {}", m.micro_batch, c.train.batch));
  }

  const Config& c;
  const TomlTable& document_;
  const std::string& name_;
};

}  // namespace

void refuse_contradictions(const Config& config, const TomlTable& document,
                           const std::string& name) {
  Check(config, document, name).all();
}

}  // namespace ebb::train
