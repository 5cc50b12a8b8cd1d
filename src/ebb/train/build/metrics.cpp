#include "ebb/train/build/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

std::vector<std::string> of_task(Task task) {
  switch (task) {
    case Task::regression:
      return {"rmse", "mae"};
    case Task::language_model:
      return {"perplexity"};
    default:
      return {"accuracy"};
  }
}

bool suits(const std::string& metric, Task task) {
  const bool numbers = task == Task::regression;
  return (metric == "rmse" || metric == "mae") == numbers;
}

Metric named(const std::string& name, double target_scale) {
  if (name == "accuracy") return {name, Metric::Finish::mean, Mode::max, 1};
  if (name == "perplexity") return {name, Metric::Finish::exponential, Mode::min, 1};
  if (name == "rmse") return {name, Metric::Finish::root, Mode::min, target_scale};
  return {name, Metric::Finish::mean, Mode::min, target_scale};
}

}  // namespace

double Metric::value(double sum, double count) const {
  const double mean = sum / count;
  switch (finish) {
    case Finish::exponential:
      return std::exp(mean);
    case Finish::root:
      return scale * std::sqrt(mean);
    case Finish::mean:
      break;
  }
  return scale * mean;
}

std::vector<Metric> metrics_of(const TrainConfig& config, const DataFacts& facts) {
  std::vector<Metric> all = {{"loss", Metric::Finish::mean, Mode::min, 1}};
  for (const std::string& name : config.metrics.empty() ? of_task(facts.task) : config.metrics) {
    if (!suits(name, facts.task))
      throw Error(fmt::format("train.metrics lists {}, which does not suit {}; expected {}", name,
                              name_of(facts.task), fmt::join(of_task(facts.task), ", ")));
    all.push_back(named(name, facts.target_scale));
  }
  best_of(config, all);
  return all;
}

bool Best::improves(double now, double before) const {
  return mode == Mode::min ? now < before - min_change : now > before + min_change;
}

Best best_of(const TrainConfig& config, const std::vector<Metric>& metrics) {
  for (std::size_t i = 0; i < metrics.size(); ++i)
    if (metrics[i].name == config.metric)
      return {i, config.mode.value_or(metrics[i].best), config.min_change};
  throw Error(fmt::format("train.metric is {}, which is not measured: add it to train.metrics",
                          config.metric));
}

Loss correct(const Tensor& logits, const Tensor& labels) {
  return loss_of(cast(equal(argmax(logits), labels), DType::f32));
}

}  // namespace ebb::train
