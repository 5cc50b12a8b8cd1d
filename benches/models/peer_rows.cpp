// The rows of benches/peers, as Ebb's users would write them, with the sizes a row says. Floating
// point operations are counted as the other frameworks' are (benches/peers/work.py): two for each
// multiply-add of a product, forward and both gradients, half of causal attention's square, nothing
// for the rest.
#include <cmath>

#include "models/row.hpp"
#include "models/task.hpp"

namespace ebb::zoo {
namespace {

const auto classify = [](const auto& model, const Batch& b) {
  return sparse_cross_entropy(model(b["x"]), b["y"]);
};
const auto predict_next = [](const auto& model, const Batch& b) {
  return model.loss(b["x"], b["y"]);
};

struct EmbeddingSum {  // ids (batch, n) → (batch)
  nn::Embedding embedding;
  nn::Dense hidden, head;
  EmbeddingSum(const nn::Init& init, std::int64_t vocabulary, std::int64_t width,
               std::int64_t hidden_width)
      : embedding(init / "embedding", vocabulary, width),
        hidden(init / "hidden", width, hidden_width, {.activation = Activation::relu}),
        head(init / "head", hidden_width, 1) {}
  Tensor operator()(const Tensor& ids) const {
    return squeeze(head(hidden(sum(embedding(ids), {1}))), 1);
  }
  void each(auto&& f) {
    f("embedding", embedding);
    f("hidden", hidden);
    f("head", head);
  }
};

double layers(const std::vector<std::int64_t>& sizes, double first, double others) {
  double sum = 0;
  for (std::size_t i = 1; i < sizes.size(); ++i)
    sum += (i == 1 ? first : others) * double(sizes[i - 1]) * double(sizes[i]);
  return sum;
}

}  // namespace

// One row of benches/peers on its way to a task: what the kinds of work have in common, and one
// function for each of them.
struct PeerRow {
  Task& task;
  const Row& row;
  const nn::Init init = nn::Init(1);
  const std::int64_t batch = row.number("batch");
  const double rows = static_cast<double>(batch);

  double real(const char* key) const { return static_cast<double>(row.number(key)); }
  void features(const Shape& shape, std::int64_t classes) {
    task.given_ = {{"x", {shape, DType::f32}}, {"y", {{batch}, DType::i32}, classes}};
  }
  void text() {
    const std::int64_t length = row.number("time"), vocabulary = row.number("vocab");
    const Spec ids{{batch, length}, DType::i32};
    task.given_ = {{"x", ids, vocabulary}, {"y", ids, vocabulary}};
    task.units_ = rows * static_cast<double>(length);
    task.unit_ = "tokens";
  }
  void train(auto model, auto loss_of) {
    const std::string optimizer = row.word("optimizer");
    if (optimizer == "sgd") {
      task.train<optim::Sgd>(std::move(model), optim::SgdOptions{.lr = 1e-3, .momentum = 0.9},
                             loss_of);
    } else if (optimizer == "adamw") {
      task.train<optim::AdamW>(std::move(model), optim::AdamWOptions{.lr = 1e-3}, loss_of);
    } else if (optimizer == "adam") {
      task.train<optim::Adam>(std::move(model), optim::AdamOptions{.lr = 1e-3}, loss_of);
    } else {
      throw Error("row with optimizer '" + optimizer + "': there are sgd, adam, adamw");
    }
  }

  void mlp();
  void lstm();
  void lstm_lm();
  void gpt();
  void resnet();
  void convnet();
  void attention();
  void linear_ce();
  void input_grad();
  void embedding();
};

void PeerRow::mlp() {
  const std::vector<std::int64_t> sizes = row.numbers("sizes");
  features({batch, sizes.front()}, sizes.back());
  task.flops_ = rows * layers(sizes, 4, 6);
  train(nn::Mlp(init, sizes), classify);
}

void PeerRow::lstm() {
  const std::int64_t in = row.number("input"), classes = row.number("classes");
  const double h = real("units");
  features({batch, row.number("time"), in}, classes);
  task.flops_ = rows * (real("time") * 4 * h * (4 * double(in) + 6 * h) + 6 * h * double(classes));
  train(nn::LstmClassifier(init, {.in = in, .hidden = row.number("units"), .classes = classes}),
        classify);
}

void PeerRow::lstm_lm() {
  text();
  const double h = real("units"), count = real("layers");
  task.flops_ = 6 * task.units_ *
                (4 * h * (real("embedding") + h) + (count - 1) * 8 * h * h + h * real("vocab"));
  train(nn::LstmLm(init, {.vocabulary = row.number("vocab"),
                          .embedding = row.number("embedding"),
                          .hidden = row.number("units"),
                          .layers = static_cast<int>(row.number("layers"))}),
        predict_next);
}

void PeerRow::gpt() {
  nn::GptOptions o;
  o.vocabulary = row.number("vocab");
  o.context = row.number("positions");
  o.layers = static_cast<int>(row.number("layers"));
  o.width = row.number("width");
  o.heads = row.number("heads");
  o.tied = row.yes("tied");
  text();
  const double w = real("width"), count = real("layers");
  task.flops_ =
      6 * task.units_ * (12 * count * w * w + real("vocab") * w + count * real("time") * w);
  train(nn::Gpt(init, o), predict_next);
}

void PeerRow::resnet() {
  const std::vector<std::int64_t> stages = row.numbers("channels");
  const std::int64_t high = row.number("side"), classes = row.number("classes");
  const auto blocks = static_cast<int>(row.number("blocks"));
  features({batch, high, high, 3}, classes);
  double side = real("side"), last = double(stages[0]), sum = 4 * side * side * 27 * last;
  for (const std::int64_t& count : stages) {
    const auto channels = static_cast<double>(count);
    const bool first = &count == &stages[0];
    if (!first) side = std::ceil(side / 2);
    for (int block = 0; block < blocks; ++block) {
      sum += 6 * side * side * 9 * (last + channels) * channels;
      if (last != channels || (!first && block == 0)) sum += 6 * side * side * last * channels;
      last = channels;
    }
  }
  task.flops_ = rows * (sum + 6 * last * double(classes));
  train(nn::ResNet(init, {.channels = stages,
                          .blocks = blocks,
                          .classes = classes,
                          .winograd = row.yes("winograd")}),
        classify);
}

void PeerRow::convnet() {
  const std::vector<std::int64_t> stages = row.numbers("channels");
  const std::int64_t high = row.number("side"), classes = row.number("classes");
  features({batch, high, high, 3}, classes);
  double side = real("side"), last = 3, sum = 0;
  for (const std::int64_t& count : stages) {
    const auto channels = static_cast<double>(count);
    sum += side * side * 9 *
           ((&count == &stages[0] ? 4 : 6) * last * channels + 6 * channels * channels);
    side = std::floor(side / 2);
    last = channels;
  }
  task.flops_ = rows * (sum + 6 * side * side * last * double(classes));
  train(nn::ConvNet(init, {.channels = stages,
                           .height = high,
                           .width = high,
                           .classes = classes,
                           .winograd = row.yes("winograd")}),
        classify);
}

void PeerRow::attention() {
  const std::int64_t heads = row.number("heads");
  const Spec spec{{batch, row.number("time"), heads, row.number("head")}, DType::f32};
  task.given_ = {{"q", spec}, {"k", spec}, {"v", spec}};
  task.units_ = rows * real("time");
  task.unit_ = "tokens";
  task.flops_ = 6 * task.units_ * real("heads") * real("time") * real("head");
  task.step_ = [heads](const Batch& b) {
    const Tensor y =
        ebb::attention(b["q"], b["k"], b["v"], AttentionOptions{.heads = heads, .causal = true});
    return gradients(sum(y), {b["q"], b["k"], b["v"]});
  };
}

void PeerRow::linear_ce() {
  const std::int64_t width = row.number("width"), vocabulary = row.number("vocab");
  features({batch, width}, vocabulary);
  task.flops_ = 6 * rows * double(width) * double(vocabulary);
  const Variable weight = init.make("weight", {vocabulary, width}, nn::normal(0, 0.02));
  task.step_ = [weight, rows = rows](const Batch& b) {
    const Loss loss = linear_cross_entropy(b["x"], weight, b["y"]);
    return gradients(loss.sum * (1 / rows), {b["x"], weight});
  };
}

void PeerRow::input_grad() {
  const std::vector<std::int64_t> sizes = row.numbers("sizes");
  task.given_ = {{"x", {{batch, sizes.front()}, DType::f32}}};
  task.flops_ = rows * layers(sizes, 4, 4);
  task.planned_ = false;
  auto model =
      std::make_shared<nn::Mlp>(init, sizes, nn::MlpOptions{.activation = Activation::tanh});
  task.step_ = [model](const Batch& b) -> Task::Results {
    return {input_gradients([&](const Tensor& x) { return (*model)(x); }, b["x"])};
  };
}

void PeerRow::embedding() {
  const std::int64_t vocabulary = row.number("vocab"), width = row.number("width");
  task.given_ = {{"x", {{batch, row.number("ids")}, DType::i32}, vocabulary},
                 {"y", {{batch}, DType::f32}, 2}};
  task.flops_ = 6 * rows * real("hidden") * (double(width) + 1);
  train(EmbeddingSum(init, vocabulary, width, row.number("hidden")),
        [](const EmbeddingSum& model, const Batch& b) {
          return binary_cross_entropy(model(b["x"]), b["y"]);
        });
}

void Task::peer(const Row& row) {
  struct Kind {
    const char* name;
    void (PeerRow::*make)();
  };
  constexpr Kind kKinds[] = {{"mlp", &PeerRow::mlp},
                             {"lstm", &PeerRow::lstm},
                             {"lstm-lm", &PeerRow::lstm_lm},
                             {"gpt", &PeerRow::gpt},
                             {"resnet", &PeerRow::resnet},
                             {"convnet", &PeerRow::convnet},
                             {"attention", &PeerRow::attention},
                             {"linear-ce", &PeerRow::linear_ce},
                             {"input-grad", &PeerRow::input_grad},
                             {"embedding", &PeerRow::embedding}};
  PeerRow peer{*this, row};
  units_ = peer.rows;
  const std::string kind = row.word("kind");
  for (const Kind& k : kKinds)
    if (k.name == kind) return (peer.*k.make)();
  throw Error("row of kind '" + kind + "', which benches/peers does not know");
}

}  // namespace ebb::zoo
