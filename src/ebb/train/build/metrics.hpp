// Figures of an evaluation. Each is a sum and a count, made by ops inside a compiled function, so that
// batches in parts have the figure of the whole; what people read is made of them at the end.
//
//   for (const Batch& b : held_out.epoch(0)) sums[i] += test(b)[i].sum.item(), counts[i] += …;
//   model.metrics()[i].value(sums[i], counts[i]);                  // accuracy 0.972, perplexity 8.4, rmse in its unit
#pragma once

#include <string>
#include <vector>

#include "ebb/ops/loss.hpp"
#include "ebb/train/build/facts.hpp"

namespace ebb::train {

struct Metric {
  enum class Finish : std::uint8_t { mean, exponential, root };
  std::string name;  // "loss", "accuracy", "perplexity", "rmse", "mae"
  Finish finish = Finish::mean;
  Mode best = Mode::min;
  double scale = 1;

  double value(double sum, double count) const;  // of all batches
};

// The loss, then the figures asked for, or those of the task where none are. An Error where one does not
// suit the task.
std::vector<Metric> metrics_of(const TrainConfig& config, const DataFacts& facts);

// Which of them says how good the weights are (train.metric, mode, min_change).
struct Best {
  std::size_t metric = 0;
  Mode mode = Mode::min;
  double min_change = 0;
  bool improves(double now, double before) const;  // NaN never does
};
Best best_of(const TrainConfig& config, const std::vector<Metric>& metrics);

Loss correct(const Tensor& logits, const Tensor& labels);  // 1 where the likeliest is the label

}  // namespace ebb::train
