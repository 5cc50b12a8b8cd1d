// Runs of small configs for tests of the trainer: their weights, and text to learn.
#pragma once

#include <string>
#include <vector>

#include "ebb/train/job.hpp"
#include "tests/bytes.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train::test {

// Weights, state and averages after a run in this directory.
inline std::string weights_after(const Config& config, const std::string& directory) {
  Job job(config);
  job.trainer(directory, false)->run();
  std::vector<Variable> all = variables(job.model);
  for (const Variable& v : job.optimizer->state()) all.push_back(v);
  if (job.ema)
    for (const Variable& v : job.ema->state()) all.push_back(v);
  if (job.rates.plateau)
    for (const Variable& v : job.rates.plateau->state()) all.push_back(v);
  std::string bytes;
  for (const auto& b : ebb::test::bytes(all))
    bytes.append(reinterpret_cast<const char*>(b.data()), b.size());
  return bytes;
}

// Lines of a config whose run is looked at step by step.
inline constexpr char kSavesEachStep[] = R"([memory]
budget = "none"
[every]
log = 1
save = 1
eval = 3
)";

inline std::string tale(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i)
    text += "The " + std::string(i % 3 ? "miller" : "king") + " went to the " +
            std::string(i % 2 ? "wood" : "river") + " on day " + std::to_string(i % 7) + ".\n";
  return text;
}

inline constexpr char kGpt[] = R"(
[model]
kind = "gpt"
width = 16
heads = 2
depth = 1
dropout = 0.1
[data]
format = "text"
path = "PATH"
window = 16
[train]
batch = 8
steps = 12
[memory]
budget = "none"
[every]
eval = "5 steps"
save = "3 steps"
sample = "4 steps"
[output]
prompt = "The "
sample_tokens = 24
)";

// Of a file with a tale in it, which is written first.
inline Config gpt(const Folder& folder, const std::vector<std::string>& set = {}) {
  put(folder / "tale.txt", tale(60));
  std::vector<std::string> all = {"data.path=" + (folder / "tale.txt")};
  all.insert(all.end(), set.begin(), set.end());
  return parse_config(kGpt, "test", all);
}

}  // namespace ebb::train::test
