#include "ebb/train/build/model.hpp"

#include <fmt/format.h>

#include "ebb/base/error.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb::train {
namespace {

// bool(rows, length): position < lengths
Tensor mask_of(const Tensor& lengths, std::int64_t length) {
  const Tensor positions = Tensor::arange(length, DType::i32).viewed({1, length});
  return less(positions, cast(expand_dims(lengths, 1), DType::i32));
}

}  // namespace

Loss Net::token_loss(const Features& features, const Tensor& next,
                     SparseCrossEntropyOptions how) const {
  return sparse_cross_entropy(outputs(features), next, how);
}

Criterion criterion_of(const TrainConfig& config, Task task) {
  const bool numbers = task == Task::regression;
  const LossKind kind = config.loss.value_or(numbers ? LossKind::mse : LossKind::cross_entropy);
  if ((kind == LossKind::cross_entropy) == numbers)
    throw Error(fmt::format("train.loss does not suit the task: expected {}",
                            numbers ? "mse, mae or huber" : "cross_entropy"));
  return {kind, config.label_smoothing, config.huber_delta};
}

Model::Model(std::unique_ptr<Net> net, DataFacts facts, Criterion criterion,
             std::vector<Metric> metrics)
    : net_(std::move(net)),
      facts_(std::move(facts)),
      criterion_(criterion),
      metrics_(std::move(metrics)) {}

Model::Model(std::unique_ptr<Net> net, DataFacts facts, const TrainConfig& config)
    : net_(std::move(net)),
      facts_(std::move(facts)),
      criterion_(criterion_of(config, facts_.task)),
      metrics_(metrics_of(config, facts_)) {}

Model::Model(std::unique_ptr<Net> net, std::function<Loss(const Batch&)> loss)
    : net_(std::move(net)), metrics_({{.name = "loss"}}), own_loss_(std::move(loss)) {}

Model::Model(const Model& other)
    : net_(other.net_->copy()),
      facts_(other.facts_),
      criterion_(other.criterion_),
      metrics_(other.metrics_),
      own_loss_(other.own_loss_) {}
Model& Model::operator=(const Model& other) { return *this = Model(other); }
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Features Model::features(const Batch& batch) const {
  Features f{batch[facts_.input], {}, {}};
  if (!facts_.lengths.empty()) {
    f.lengths = batch[facts_.lengths];
    f.mask = mask_of(f.lengths, f.x.dim(1));
  }
  return f;
}

std::unique_ptr<nn::Reader> Model::reader() const {
  std::unique_ptr<nn::Reader> reader = net_->reader();
  if (!reader)
    throw Error(
        "generate: the model is no language model that reads a token at a time (gpt, lstm, gru)");
  return reader;
}

Tensor Model::forward(const Batch& batch) const {
  if (own_loss_)
    throw Error("model: it was made with a loss of its own, which alone knows how to call it");
  return net_->outputs(features(batch));
}

Loss Model::loss_of_outputs(const Tensor& outputs, const Tensor& target,
                            const Criterion& how) const {
  if (how.kind == LossKind::cross_entropy)
    return sparse_cross_entropy(outputs, target, {.label_smoothing = how.label_smoothing});
  const Tensor prediction = reshape(cast(outputs, DType::f32), target.shape());
  const Tensor wanted = cast(target, DType::f32);
  if (how.kind == LossKind::mse) return mse(prediction, wanted);
  if (how.kind == LossKind::mae) return mae(prediction, wanted);
  return huber(prediction, wanted, how.huber_delta);
}

Loss Model::loss(const Batch& batch) const {
  if (own_loss_) return own_loss_(batch);
  const Tensor& target = batch[facts_.target];
  if (facts_.task == Task::language_model)
    return net_->token_loss(features(batch), target,
                            {.label_smoothing = criterion_.label_smoothing});
  return loss_of_outputs(forward(batch), target, criterion_);
}

std::vector<Loss> Model::measure(const Batch& batch) const {
  const nn::Evaluation evaluation;
  if (own_loss_) return {own_loss_(batch)};
  const Tensor& target = batch[facts_.target];
  Criterion plain = criterion_;
  plain.label_smoothing = 0;

  // A language model's logits are large, and made only where a figure needs them.
  const bool logits = facts_.task != Task::language_model ||
                      std::any_of(metrics_.begin(), metrics_.end(),
                                  [](const Metric& m) { return m.name == "accuracy"; });
  const Tensor outputs = logits ? forward(batch) : Tensor();
  const Loss loss = logits ? loss_of_outputs(outputs, target, plain)
                           : net_->token_loss(features(batch), target, {});
  std::vector<Loss> all;
  for (const Metric& m : metrics_) {
    if (m.name == "accuracy") {
      all.push_back({correct(outputs, target).sum, loss.count});  // without labels that are ignored
    } else if (m.name == "rmse" || m.name == "mae") {
      plain.kind = m.name == "rmse" ? LossKind::mse : LossKind::mae;
      all.push_back(plain.kind == criterion_.kind ? loss : loss_of_outputs(outputs, target, plain));
    } else {
      all.push_back(loss);  // and perplexity, which is made of it
    }
  }
  return all;
}

}  // namespace ebb::train
