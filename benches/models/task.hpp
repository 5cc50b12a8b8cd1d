// A model with its optimizer and data, by name: what a benchmark trains.
//
//   Task task("gpt-mini");
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

class Row;

// What a batch holds under one name.
struct Given {
  const char* name;
  Spec spec;
  std::int64_t classes = 0;  // integers below it
};

class Task {
 public:
  using Results = std::vector<Tensor>;  // of a loss: sum, count

  // With so many rows, of the zoo: mlp, cnn, gpt, lstm: the sweep. gpt12, gpt4: of the frontier.
  // mlp12: where state outweighs everything. tiny: where only overhead counts.
  // Without: a row of benches/peers, which has a batch size of its own, by its name or as it is
  // written: {"kind": "mlp", "sizes": [100, 300, 7], "batch": 64, "optimizer": "adam"}.
  explicit Task(std::string_view name, std::int64_t rows = 0);

  BatchSpec spec() const;
  Batch batch() const;  // the same at every call; takes no memory beside its own
  std::function<Results(const Batch&)> step() const { return step_; }
  bool planned() const { return planned_; }  // to be compiled; else the step plans by itself
  std::vector<Variable>& weights() { return weights_; }

  double flops() const { return flops_; }  // of products in a step, recomputation not counted
  double units() const { return units_; }  // tokens or rows in a step
  const char* unit() const { return unit_; }

 private:
  friend struct PeerRow;  // which fills in what a row of benches/peers says
  void zoo(std::string_view name, std::int64_t rows);
  void peer(const Row& row);
  template <class Optimizer, class Model, class Options, class LossOf>
  void train(Model model, const Options& options, LossOf loss_of);

  std::vector<Given> given_;
  std::vector<Variable> weights_;
  std::function<Results(const Batch&)> step_;
  bool planned_ = true;
  double flops_ = 0, units_ = 0;
  const char* unit_ = "rows";
};

// SHA-256 of all elements, read piece by piece, wherever they are.
std::string hash(const std::vector<Variable>& weights);

// The model and its optimizer live as long as the step does.
template <class Optimizer, class Model, class Options, class LossOf>
void Task::train(Model model, const Options& options, LossOf loss_of) {
  struct Both {
    Model model;
    Optimizer optimizer;
    Both(Model m, const Options& o) : model(std::move(m)), optimizer(params(model), o) {}
  };
  auto both = std::make_shared<Both>(std::move(model), options);
  weights_ = params(both->model);
  step_ = [both, loss_of](const Batch& b) -> Results {
    const Loss loss = both->optimizer.minimize(loss_of(both->model, b));
    return {loss.sum, loss.count};
  };
}

}  // namespace ebb::zoo
