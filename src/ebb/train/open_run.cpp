// What was trained, opened to be asked, and put where others find it.
#include <fmt/core.h>

#include <charconv>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/text/vocabulary_file.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/job.hpp"
#include "ebb/train/run/run_directory.hpp"

namespace ebb::train {
namespace {

// Of an exported model, beside the weights.
constexpr char kConfigName[] = "/config.toml", kReadingName[] = "/reading.json",
               kVocabularyName[] = "/vocabulary.txt";
constexpr char kStep[] = "step";  // in the metadata of the weights
constexpr ByteSize kLongestReading = 64_MiB;

bool is_model(const std::string& folder) {
  return file_exists(folder + "/" + kModelName) && file_exists(folder + kConfigName) &&
         file_exists(folder + kReadingName);
}

Job open_model(const std::string& folder) {
  Config config = load_config(folder + kConfigName);
  config.train.ema = 0;  // they are what was exported
  const std::string reading = folder + kReadingName, weights = folder + "/" + kModelName;
  Job job(std::move(config), parse_reading(read_file(reading, kLongestReading), reading));
  ebb::load_only(weights, job.model);
  File file = File::open(weights);
  const Safetensors front = read_safetensors_front(file);
  if (const auto said = front.metadata.find(kStep); said != front.metadata.end())
    std::from_chars(said->second.data(), said->second.data() + said->second.size(), job.from.step);
  return job;
}

std::string chosen(const std::string& run, Which which) {
  const Checkpoints all(RunDirectory::open(run).checkpoints());
  std::optional<Checkpoint> found;
  if (which == Which::best) found = all.best();
  if (!found) found = all.latest();
  if (!found) throw Error(fmt::format("{}: the run has no checkpoint yet", run));
  return found->path;
}

Job open_checkpoint(const std::string& path) {
  const CheckpointInfo info = verify(path);
  const auto config = info.extra.find(kConfigExtra), reading = info.extra.find(kReadingExtra);
  if (config == info.extra.end() || reading == info.extra.end())
    throw Error(fmt::format(
        "{}: it does not say how the model was made; it was saved by a program of its own", path));
  Job job(parse_config(config->second, path), parse_reading(reading->second, path));
  job.from = job.load_weights(path);
  if (job.ema && job.ema->updates() > 0) job.ema->swap();
  return job;
}

}  // namespace

Job open_run(const std::string& directory, Which which) {
  if (RunDirectory::is_run(directory)) return open_checkpoint(chosen(directory, which));
  if (file_exists(directory + "/" + kManifestName)) return open_checkpoint(directory);
  if (is_model(directory)) return open_model(directory);
  throw Error(fmt::format(
      "{}: this is no run, no checkpoint and no model; expected a directory that ebb train has "
      "made",
      directory));
}

CheckpointInfo Job::load_weights(const std::string& checkpoint) {
  CheckpointParts parts;
  parts.add(model);
  if (ema) parts.add(*ema);
  return load_parts_only(checkpoint, parts);
}

void export_model(const std::string& checkpoint, Job& job, const std::string& folder) {
  make_directories(folder);
  const std::map<std::string, std::string> said = {
      {kStep, fmt::format("{}", job.load_weights(checkpoint).step)}};
  const std::string weights = folder + "/" + kModelName;
  if (job.ema && job.ema->updates() > 0) {
    const auto averages = job.ema->apply();
    save_only(weights, job.model, said);
  } else {
    save_only(weights, job.model, said);
  }
  write_file(folder + kConfigName, to_toml(job.config));
  write_file(folder + kReadingName, to_text(job.reading));
  if (job.reading.tokenizer)
    write_file(folder + kVocabularyName, text::vocabulary_text(*job.reading.tokenizer));
}

}  // namespace ebb::train
