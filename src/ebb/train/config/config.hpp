// A training run as a value: what the sections of a TOML file say.
//
//   const train::Config config = train::load_config("train.toml", {"train.lr=0.01"});
//   std::cout << train::to_toml(config);               // every key that counts, with its value
//
// The fields are the keys of the file; what each means, may be and is by default stands in the table of
// keys (keys.hpp), from which docs/config.md is made. A value that is not set (std::nullopt, or what
// the table says) is taken from the data, the model or the optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/math_functions.hpp"
#include "ebb/nn/transformer.hpp"
#include "ebb/plan/options.hpp"

namespace ebb::train {

// [model]

enum class ModelKind : std::uint8_t { mlp, cnn, resnet, lstm, gru, gpt, encoder, layers };
enum class Positions : std::uint8_t { learned, rotary };

enum class LayerKind : std::uint8_t {
  dense,
  relu,
  tanh,
  sigmoid,
  gelu,
  gelu_tanh,
  silu,
  leaky_relu,
  elu,
  softplus,
  dropout,
  conv,
  max_pool,
  avg_pool,
  mean,
  batch_norm,
  layer_norm,
  rms_norm,
  flatten,
  reshape,
  embedding,
  positions,
  lstm,
  gru,
  transformer
};
enum class Take : std::uint8_t { all, last };  // outputs of a recurrent layer

struct LayerConfig {  // [[model.layers]]
  LayerKind kind = LayerKind::dense;
  std::optional<std::int64_t> out;  // not set: what the data asks of the last layer
  std::int64_t kernel = 3, stride = 1, dilation = 1, groups = 1;
  std::optional<std::int64_t> padding;  // not set: a convolution keeps the size, a pool has none
  std::int64_t window = 2;
  std::optional<std::int64_t> pool_stride;  // not set: the window
  std::vector<std::int64_t> shape;
  double rate = 0.5, momentum = 0.1;
  std::optional<double> eps;
  std::int64_t width = 128, depth = 1, heads = 4;
  std::optional<std::int64_t> count, feed_forward;
  bool bias = true, bidirectional = false, causal = false;
  double dropout = 0;
  Activation activation = Activation::none;
  Take take = Take::all;
  bool operator==(const LayerConfig&) const = default;
};

struct ModelConfig {
  using Norm = nn::TransformerOptions::Norm;
  using Gate = nn::TransformerOptions::Gate;

  ModelKind kind = ModelKind::mlp;
  std::optional<std::int64_t> in, classes, vocabulary;  // not set: the data's
  std::vector<std::int64_t> hidden = {128};
  Activation activation = Activation::relu;
  std::vector<std::int64_t> channels = {16, 32, 64};
  std::int64_t convolutions = 2, blocks = 3;
  bool winograd = false;
  std::int64_t width = 128, depth = 2, heads = 4;
  std::optional<std::int64_t> embedding, kv_heads, feed_forward, context;
  std::int64_t look_back = 0;
  bool bidirectional = false, attention = false, bias = true, tied = true;
  Positions positions = Positions::learned;
  Norm norm = Norm::layer;
  Gate gate = Gate::gelu_tanh;
  double dropout = 0;
  std::vector<LayerConfig> layers;
  bool operator==(const ModelConfig&) const = default;
};

// [data]

enum class DataFormat : std::uint8_t {
  automatic,
  csv,
  npy,
  npz,
  safetensors,
  idx,
  jsonl,
  text,
  images,
  digits,
  sequences
};
enum class Task : std::uint8_t {
  classification,
  regression,
  language_model,
  sequence_classification
};
enum class MissingValues : std::uint8_t { refuse, mean, zero };
enum class InMemory : std::uint8_t { no, yes, automatic };  // automatic: as the budget decides

struct DataConfig {
  DataFormat format = DataFormat::automatic;  // load_config leaves none automatic
  std::vector<std::string> path;
  std::optional<Task> task;  // not set: told from the format and the target
  std::string input, target;
  std::vector<std::string> target_path;
  std::vector<std::string> validation_path, validation_target_path;
  double validation_fraction = 0.1;
  std::int64_t validation_seed = 0;
  std::vector<std::string> ignore, categorical;
  bool header = true, standardise = true;
  std::string separator = ",";
  MissingValues missing = MissingValues::refuse;
  std::vector<std::int64_t> shape;
  std::optional<double> scale;
  std::int64_t window = 64;
  std::optional<std::int64_t> stride;
  std::string vocabulary = "bytes";
  std::vector<std::int64_t> buckets;
  std::int64_t rows = 4096, generate_seed = 1;
  std::optional<std::int64_t> limit, seed;  // of rows; of the order
  bool shuffle = true, drop_last = false;
  InMemory in_memory = InMemory::automatic;
  std::int64_t prefetch = 2;
  bool operator==(const DataConfig&) const = default;
};
bool is_generated(DataFormat format);   // it has no path
bool is_text(const DataConfig& data);   // windows of a text, for a language model
bool takes_several(DataFormat format);  // files, or a folder of them, that are one data set

// A number of steps or epochs, or a time.
struct Period {
  enum class Unit : std::uint8_t { never, steps, epochs, seconds };
  Unit unit = Unit::never;
  double amount = 0;  // whole, of steps and epochs
  bool operator==(const Period&) const = default;

  static Period never() { return {}; }
  static Period steps(std::int64_t n) { return {Unit::steps, static_cast<double>(n)}; }
  static Period epochs(std::int64_t n) { return {Unit::epochs, static_cast<double>(n)}; }
  static Period seconds(double n) { return {Unit::seconds, n}; }
};
// "100 steps", "1 epoch", "10min", "1.5h", "never"; none where it is no such text.
std::optional<Period> parse_period(std::string_view text);
std::string to_string(const Period& period);  // parses back to the same

// [train]

enum class OptimizerKind : std::uint8_t { sgd, adam, adamw, rmsprop, adagrad, lion, adafactor };
enum class ScheduleKind : std::uint8_t { constant, cosine, step, exponential, plateau };
enum class LossKind : std::uint8_t { cross_entropy, mse, mae, huber };
enum class Precision : std::uint8_t { f32, bf16, f16 };
enum class Mode : std::uint8_t { min, max };

struct GroupConfig {  // [[train.groups]]
  std::string names;  // a pattern
  std::optional<double> lr_scale, weight_decay;
  std::optional<bool> frozen;
  bool operator==(const GroupConfig&) const = default;
};

struct TrainConfig {
  std::int64_t batch = 32;
  std::int64_t epochs = 10;
  std::int64_t steps = 0;  // 0: as many as the epochs have
  std::int64_t seed = 1;
  std::optional<LossKind> loss;  // not set: cross-entropy of classes, mse of numbers
  double huber_delta = 1, label_smoothing = 0;
  std::vector<std::string> metrics;  // none: those of the task
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::optional<double> lr, weight_decay, beta1, beta2, eps;  // not set: the optimizer's own
  double momentum = 0, dampening = 0, alpha = 0.99;
  bool nesterov = false, lazy = false;
  ScheduleKind schedule = ScheduleKind::constant;
  double warmup = 0;  // steps; below 1, a part of all steps
  double lr_floor = 0;
  Period decay_every = Period::epochs(10);
  double decay_factor = 0.1;
  std::int64_t plateau_patience = 5;
  double plateau_threshold = 1e-4;
  double clip_norm = 0, clip_value = 0;  // 0: none
  double ema = 0;                        // 0: none
  std::vector<GroupConfig> groups;
  Precision precision = Precision::f32;
  std::int64_t patience = 0;  // evaluations; 0: no early stopping
  std::string metric = "loss";
  std::optional<Mode> mode;
  double min_change = 0;
  std::int64_t bad_steps = 10;
  bool check_gradient = true;
  std::int64_t threads = 0;  // 0: all
  bool operator==(const TrainConfig&) const = default;
};

// [memory]

struct BudgetConfig {
  enum class Kind : std::uint8_t { automatic, none, bytes };
  Kind kind = Kind::automatic;
  std::uint64_t bytes = 0;
  bool operator==(const BudgetConfig&) const = default;
};
enum class StateForm : std::uint8_t { f32, eight_bit };

struct MemoryConfig {
  BudgetConfig budget;
  bool spill = true, recompute = true;
  std::string spill_directory;
  Allow allow = Allow::same_gradient;
  Precision activations = Precision::f32;
  StateForm optimizer_state = StateForm::f32;
  std::int64_t micro_batch = 0;
  bool independent_micro_batches = false;
  bool operator==(const MemoryConfig&) const = default;
};

// [every]

struct EveryConfig {
  Period log = Period::steps(10), eval = Period::epochs(1), save = Period::epochs(1), sample;
  bool operator==(const EveryConfig&) const = default;
};

// [output]

struct OutputConfig {
  std::string directory;  // "": runs/ and the name of the config
  std::int64_t keep_last = 2;
  bool keep_best = true, tensorboard = true, csv = true;
  std::string prompt;
  std::int64_t sample_tokens = 200;
  double temperature = 0.8;
  bool operator==(const OutputConfig&) const = default;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  MemoryConfig memory;
  EveryConfig every;
  OutputConfig output;
  bool operator==(const Config&) const = default;
};

// A file of at most 1 MiB, then the overrides, each "section.key=value", in their order. Paths of
// [data] are relative to the folder of the file, those of overrides to the current one; afterwards
// all are absolute. What is not a config is one Error: file:line:column, key, found, expected.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});
// The same of a text, which is called `name` in errors; paths stay as they are written.
Config parse_config(std::string_view text, const std::string& name = "config",
                    const std::vector<std::string>& overrides = {});

// Every key that counts for this config, but those that are not set. load_config and parse_config
// make the same Config of it.
std::string to_toml(const Config& config);
// The same by full names, each with its value as TOML: "train.lr", "model.layers[2].out".
std::map<std::string, std::string> to_keys(const Config& config);

// That a Config made in code is one that a file could have said; else an Error, as above.
void check(const Config& config);

}  // namespace ebb::train
