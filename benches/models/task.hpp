// A model of the zoo with its optimizer and data, by name and batch size: what a benchmark trains.
//
//   Task task("gpt", 8);
//   auto step = compile(task.spec(), options, task.step());
//   step(task.batch());
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/ebb.hpp"

namespace ebb::zoo {

class Task {
 public:
  // mlp, cnn, gpt, lstm: the sweep. gpt12, gpt4: of the frontier. mlp12: where state outweighs
  // everything. tiny: where only overhead counts.
  Task(std::string_view name, std::int64_t rows);

  BatchSpec spec() const { return {{"x", x_}, {"y", y_}}; }
  Batch batch() const;  // the same at every call; takes no memory beside its own
  std::function<Loss(const Batch&)> step() const { return step_; }
  std::vector<Variable>& weights() { return weights_; }

 private:
  template <class Model, class Optimizer = optim::AdamW>
  void train(Model model);

  Spec x_, y_;
  std::int64_t classes_;
  std::vector<Variable> weights_;
  std::function<Loss(const Batch&)> step_;
};

// SHA-256 of all elements, read piece by piece, wherever they are.
std::string hash(const std::vector<Variable>& weights);

}  // namespace ebb::zoo
