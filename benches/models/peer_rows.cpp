// The rows of benches/peers, as Ebb's users would write them. Floating point operations are counted
// as the other frameworks' are (benches/peers/work.py): two for each multiply-add of a product,
// forward and both gradients, half of causal attention's square, nothing for the rest.
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
  explicit EmbeddingSum(const nn::Init& init)
      : embedding(init / "embedding", 200'000, 128),
        hidden(init / "hidden", 128, 64, {.activation = Activation::relu}),
        head(init / "head", 64, 1) {}
  Tensor operator()(const Tensor& ids) const {
    return squeeze(head(hidden(sum(embedding(ids), {1}))), {1});
  }
  void each(auto&& f) {
    f("embedding", embedding);
    f("hidden", hidden);
    f("head", head);
  }
};

double layers(std::initializer_list<double> sizes, double first) {
  double sum = 0, last = 0;
  for (const double size : sizes) {
    if (last > 0) sum += first * last * size, first = 6;
    last = size;
  }
  return sum;
}

}  // namespace

const std::vector<const char*>& row_names() {
  static const std::vector<const char*> names = {
      "mlp-32",   "mlp-128",   "mlp-512",   "lstm",           "lstm-lm",    "gpt-mini",
      "gpt-124m", "gpt-long",  "cnn",       "cnn-wide",       "attention",  "linear-ce",
      "linear-ce-256k", "input-grad", "tiny", "tiny-mlp", "embedding"};
  return names;
}

void Task::peer(std::string_view name) {
  const nn::Init init(1);
  const auto adam = [&](auto model, auto loss_of) {
    train<optim::Adam>(std::move(model), optim::AdamOptions{.lr = 1e-3}, loss_of);
  };
  const auto features = [&](const Shape& shape, std::int64_t classes) {
    given_ = {{"x", {shape, DType::f32}}, {"y", {{shape[0]}, DType::i32}, classes}};
    units_ = static_cast<double>(shape[0]);
  };
  const auto text = [&](std::int64_t batch, std::int64_t length, std::int64_t vocabulary) {
    const Spec ids{{batch, length}, DType::i32};
    given_ = {{"x", ids, vocabulary}, {"y", ids, vocabulary}};
    units_ = static_cast<double>(batch * length);
    unit_ = "tokens";
  };
  const auto mlp = [&](std::int64_t batch, std::int64_t in, std::int64_t hidden,
                       std::int64_t out) {
    features({batch, in}, out);
    flops_ = units_ * layers({double(in), double(hidden), double(out)}, 4);
    adam(nn::Mlp(init, {in, hidden, out}), classify);
  };
  const auto gpt = [&](std::int64_t batch, std::int64_t length, int count, std::int64_t width,
                       std::int64_t vocabulary, std::int64_t places, bool tied) {
    nn::GptOptions o;
    o.vocabulary = vocabulary;
    o.places = places;
    o.layers = count;
    o.width = width;
    o.heads = width / 64;
    o.tied = tied;
    text(batch, length, vocabulary);
    const auto w = static_cast<double>(width);
    flops_ = 6 * units_ * (12 * count * w * w + double(vocabulary) * w + count * double(length) * w);
    train<optim::AdamW>(nn::Gpt(init, o), optim::AdamWOptions{.lr = 1e-3}, predict_next);
  };
  const auto linear_ce = [&](std::int64_t vocabulary) {
    constexpr std::int64_t kRows = 1024, kWidth = 768;
    features({kRows, kWidth}, vocabulary);
    flops_ = 6.0 * kRows * kWidth * double(vocabulary);
    const Variable weight = init.make("weight", {vocabulary, kWidth}, nn::normal(0, 0.02));
    step_ = [weight](const Batch& b) {
      const Loss loss = linear_cross_entropy(b["x"], weight, b["y"]);
      return gradients(loss.sum * (1.0 / kRows), {b["x"], weight});
    };
  };

  const auto lstm = [&](std::int64_t batch, std::int64_t length, std::int64_t in,
                        std::int64_t hidden) {
    features({batch, length, in}, 2);
    const auto h = static_cast<double>(hidden);
    flops_ = units_ * (double(length) * 4 * h * (4 * double(in) + 6 * h) + 6 * h * 2);
    adam(nn::LstmClassifier(init, {.in = in, .hidden = hidden, .classes = 2}), classify);
  };

  if (name == "mlp-32" || name == "mlp-128" || name == "mlp-512") {
    mlp(std::stoll(std::string(name.substr(4))), 784, 1024, 10);
  } else if (name == "tiny-mlp") {
    mlp(1, 16, 32, 2);
  } else if (name == "lstm") {
    lstm(512, 50, 10, 256);
  } else if (name == "lstm-1000") {  // of the frontier over time
    lstm(64, 1000, 64, 256);
  } else if (name == "lstm-10000") {
    lstm(32, 10'000, 64, 128);
  } else if (name == "tiny") {
    lstm(1, 20, 5, 32);
  } else if (name == "lstm-lm") {
    text(32, 128, 1000);
    flops_ = 6 * units_ * (2.0 * 4 * 512 * (512 + 512) + 512 * 1000);
    adam(nn::LstmLm(init, {}), predict_next);
  } else if (name == "gpt-mini") {
    gpt(16, 256, 6, 384, 256, 256, false);
  } else if (name == "gpt-124m") {
    gpt(4, 256, 12, 768, 50304, 1024, true);
  } else if (name == "gpt-long") {
    gpt(1, 2048, 6, 384, 256, 2048, false);
  } else if (name == "gpt12-long") {  // of the frontier where rows cannot be split
    gpt(1, 2048, 12, 384, 256, 2048, false);
  } else if (name == "cnn") {
    features({128, 32, 32, 3}, 10);
    double sum = 4 * 32 * 32 * 27 * 16, side = 32, last = 16;
    for (const double channels : {16, 32, 64}) {
      if (channels != last) side /= 2;
      for (int block = 0; block < 3; ++block) {
        sum += 6 * side * side * 9 * (last + channels) * channels;
        if (last != channels) sum += 6 * side * side * last * channels;
        last = channels;
      }
    }
    flops_ = units_ * (sum + 6 * last * 10);
    train<optim::Sgd>(nn::ResNet(init), optim::SgdOptions{.lr = 1e-3, .momentum = 0.9}, classify);
  } else if (name == "cnn-wide") {
    features({64, 32, 32, 3}, 10);
    double sum = 0, side = 32, last = 3;
    for (const double channels : {64, 128, 256}) {
      sum += side * side * 9 * ((last == 3 ? 4 : 6) * last * channels + 6 * channels * channels);
      side /= 2;
      last = channels;
    }
    flops_ = units_ * (sum + 6 * side * side * last * 10);
    adam(nn::ConvNet(init), classify);
  } else if (name == "attention") {
    const Spec spec{{1, 4096, 8, 64}, DType::f32};
    given_ = {{"q", spec}, {"k", spec}, {"v", spec}};
    units_ = 4096;
    unit_ = "tokens";
    flops_ = 6.0 * 8 * 4096 * 4096 * 64;
    step_ = [](const Batch& b) {
      const Tensor y =
          attention(b["q"], b["k"], b["v"], AttentionOptions{.heads = 8, .causal = true});
      return gradients(sum(y), {b["q"], b["k"], b["v"]});
    };
  } else if (name == "linear-ce") {
    linear_ce(50304);
  } else if (name == "linear-ce-256k") {
    linear_ce(262144);
  } else if (name == "input-grad") {
    constexpr std::int64_t kRows = 200'000;
    given_ = {{"x", {{kRows, 64}, DType::f32}}};
    units_ = kRows;
    flops_ = 4.0 * kRows * (64 * 256 + 256 * 256 + 256);
    planned_ = false;
    auto model = std::make_shared<nn::Mlp>(init, std::vector<std::int64_t>{64, 256, 256, 1},
                                           nn::MlpOptions{.activation = Activation::tanh});
    step_ = [model](const Batch& b) -> Results {
      return {input_gradients([&](const Tensor& x) { return (*model)(x); }, b["x"])};
    };
  } else if (name == "embedding") {
    given_ = {{"x", {{256, 20}, DType::i32}, 200'000}, {"y", {{256}, DType::f32}, 2}};
    units_ = 256;
    flops_ = 6.0 * 256 * 64 * 129;
    adam(EmbeddingSum(init), [](const EmbeddingSum& model, const Batch& b) {
      return binary_cross_entropy(model(b["x"]), b["y"]);
    });
  } else {
    throw Error("no row '" + std::string(name) + "' in benches/peers");
  }
}

}  // namespace ebb::zoo
