// A model of any kind, as a value: what a config asks for, or a struct of layers of one's own.
//
//   train::Model model = train::make_model(config, facts);
//   const auto adam = train::make_optimizer(config, params(model), rates);
//   auto step = compile(spec, options, [&](const Batch& b) { return adam->minimize(model.loss(b)); });
//   auto test = compile(spec, options, [&](const Batch& b) { return model.measure(b); });
//
// It is to params(), variables(), clone() and freeze() what a struct with each() is.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "ebb/nn/generate.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/train/build/metrics.hpp"

namespace ebb::train {

// What the model reads of a batch.
struct Features {
  Tensor x;
  Tensor lengths;  // (rows), or none
  Tensor mask;     // bool(rows, length): which positions count; none where all do
};

// The network behind a Model.
class Net {
 public:
  virtual ~Net() = default;
  virtual std::unique_ptr<Net> copy() const = 0;
  virtual Tensor outputs(const Features& features) const = 0;
  // Cross-entropy of tokens; networks that need no logits for it say so.
  virtual Loss token_loss(const Features& features, const Tensor& next,
                          SparseCrossEntropyOptions how) const;
  // A language model in the middle of a text; null where it is none. It reads this one.
  virtual std::unique_ptr<nn::Reader> reader() const { return nullptr; }
  virtual void each(const std::function<void(Variable&)>& f) = 0;
};

// A struct with each(), called with Features or with the input alone; it may have loss(input, next, how).
template <class T>
class NetOf final : public Net {
 public:
  explicit NetOf(T net) : net_(std::move(net)) {}
  std::unique_ptr<Net> copy() const override { return std::make_unique<NetOf>(net_); }
  Tensor outputs(const Features& features) const override {
    if constexpr (std::is_invocable_v<const T&, const Features&>)
      return net_(features);
    else
      return net_(features.x);
  }
  Loss token_loss(const Features& features, const Tensor& next,
                  SparseCrossEntropyOptions how) const override {
    if constexpr (requires { net_.loss(features.x, next, how); })
      return net_.loss(features.x, next, how);
    else
      return Net::token_loss(features, next, how);
  }
  std::unique_ptr<nn::Reader> reader() const override {
    if constexpr (requires { nn::reader(net_); })
      return nn::reader(net_);
    else if constexpr (requires { nn::reader(net_.inner); })
      return nn::reader(net_.inner);
    else
      return nullptr;
  }
  void each(const std::function<void(Variable&)>& f) override { nn::each_variable(net_, f); }
  const T& net() const { return net_; }

 private:
  T net_;
};

struct Criterion {
  LossKind kind = LossKind::cross_entropy;
  double label_smoothing = 0, huber_delta = 1;
};

class Model {
 public:
  Model(std::unique_ptr<Net> net, DataFacts facts, Criterion criterion,
        std::vector<Metric> metrics);
  // A network of one's own with the loss and the metrics that suit the task.
  template <class T>
  static Model of(T net, DataFacts facts, const TrainConfig& config = {}) {
    return Model(std::make_unique<NetOf<T>>(std::move(net)), std::move(facts), config);
  }
  // One with a loss of one's own, which is also what an evaluation gives:
  //   Model::of(net, [](const Mlp& m, const Batch& b) { return mse(m(b["x"]), b["y"]); })
  template <class T, class F>
  requires std::is_invocable_r_v<Loss, const F&, const T&, const Batch&>
  static Model of(const T& net, F loss) {
    return Model(std::make_unique<NetOf<T>>(net),
                 [net, loss](const Batch& b) { return loss(net, b); });
  }
  Model(const Model& other);  // shares the variables, as a copied layer does; see clone()
  Model& operator=(const Model& other);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // Logits, or predictions, as the task has them. An Error of one that says only its loss.
  Tensor forward(const Batch& batch) const;
  Loss loss(const Batch& batch) const;  // to be minimised
  // Figures, as evaluation gives them, in the order of metrics(): the loss without label smoothing, then
  // the others.
  std::vector<Loss> measure(const Batch& batch) const;
  // To generate text with (nn/generate.hpp), while this lives; an Error where it is no language model.
  std::unique_ptr<nn::Reader> reader() const;
  const std::vector<Metric>& metrics() const { return metrics_; }
  const DataFacts& facts() const { return facts_; }

  void each(auto&& f) {
    net_->each([&](Variable& v) { f(v.name(), v); });
  }
  // The network itself where it is a T, such as an nn::Gpt to generate with; else null.
  template <class T>
  const T* as() const {
    const auto* net = dynamic_cast<const NetOf<T>*>(net_.get());
    return net ? &net->net() : nullptr;
  }

 private:
  Model(std::unique_ptr<Net> net, DataFacts facts, const TrainConfig& config);
  Model(std::unique_ptr<Net> net, std::function<Loss(const Batch&)> loss);
  Features features(const Batch& batch) const;
  Loss loss_of_outputs(const Tensor& outputs, const Tensor& target, const Criterion& how) const;

  std::unique_ptr<Net> net_;
  DataFacts facts_;
  Criterion criterion_;
  std::vector<Metric> metrics_;
  std::function<Loss(const Batch&)> own_loss_;  // in place of the criterion
};

Criterion criterion_of(const TrainConfig& config, Task task);

// The model of a config for this data. Sizes that the config leaves out are the data's; where both are
// given and do not fit, or a layer does not fit the one before, an Error says which.
Model make_model(const Config& config, const DataFacts& facts);

}  // namespace ebb::train
