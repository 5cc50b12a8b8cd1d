#include "tests/programs/zoo.hpp"

namespace ebb::programs {
namespace {

constexpr std::string_view kMnist = "mnist:";
constexpr std::int64_t kLength = 24, kVocabulary = 96, kSide = 12, kSignal = 20;

template <class Model>
Subject subject(std::shared_ptr<Model> model, auto loss) {
  Subject s;
  s.params = params(*model);
  s.variables = variables(*model);
  s.loss = [model, loss](const Batch& b) { return loss(*model, b); };
  s.model = model;
  return s;
}

template <class Model>
Subject classifier(std::shared_ptr<Model> model, const char* column) {
  Subject s = subject(model, [column](const Model& m, const Batch& b) {
    return sparse_cross_entropy(m(b[column]), b["label"]);
  });
  s.rows = [model, column](const Batch& b) { return (*model)(b[column]); };
  return s;
}

template <class Model>
Subject language(std::shared_ptr<Model> model) {
  return subject(model,
                 [](const Model& m, const Batch& b) { return m.loss(b["input"], b["target"]); });
}

struct ResidualMlp {
  nn::Dense in, out;
  std::vector<nn::Dense> up, down;
  std::vector<nn::LayerNorm> norms;
  nn::Dropout drop{0.1};
  explicit ResidualMlp(const nn::Init& init)
      : in(init / "in", 64, 128), out(init / "out", 128, 10) {
    for (int i = 0; i < 4; ++i) {
      up.emplace_back(init / "up" / i, 128, 256, nn::DenseOptions{.activation = Activation::gelu});
      down.emplace_back(init / "down" / i, 256, 128);
      norms.emplace_back(init / "norms" / i, 128);
    }
  }
  Tensor operator()(const Tensor& x) const {
    Tensor h = in(x);
    for (std::size_t i = 0; i < up.size(); ++i) h = h + drop(down[i](up[i](norms[i](h))));
    return out(h);
  }
  void each(auto&& f) {
    f("in", in), f("up", up), f("down", down), f("norms", norms), f("out", out);
  }
};

struct ConvLstm {  // frames of a signal, then what follows them
  nn::Conv1d conv;
  nn::LstmClassifier rnn;
  explicit ConvLstm(const nn::Init& init)
      : conv(init / "conv", 6, 24, 3, {.padding = 1}),
        rnn(init / "rnn", {.in = 24, .hidden = 48, .classes = 10}) {}
  Tensor operator()(const Tensor& x) const { return rnn(relu(conv(x))); }
  void each(auto&& f) { f("conv", conv), f("rnn", rnn); }
};

struct Depthwise {
  nn::Conv2d first, deep, point;
  nn::Dense head;
  explicit Depthwise(const nn::Init& init)
      : first(init / "first", 1, 32, 3, {.padding = 1}),
        deep(init / "deep", 32, 32, 3, {.padding = 1, .groups = 32}),
        point(init / "point", 32, 48, 1),
        head(init / "head", 48, 10) {}
  Tensor operator()(const Tensor& x) const {
    return head(mean(relu(point(relu(deep(relu(first(x)))))), {1, 2}));
  }
  void each(auto&& f) { f("first", first), f("deep", deep), f("point", point), f("head", head); }
};

struct Bag {  // a large table, little else
  nn::Embedding table;
  nn::Dense head;
  explicit Bag(const nn::Init& init)
      : table(init / "table", 20000, 32), head(init / "head", 32, 10) {}
  Tensor operator()(const Tensor& ids) const { return head(mean(table(ids), {1})); }
  void each(auto&& f) { f("table", table), f("head", head); }
};

template <class Options>
Options small_transformer(int layers) {
  Options o;
  o.vocabulary = kVocabulary;
  o.context = kLength;
  o.layers = layers;
  o.width = 64;
  o.heads = 4;
  return o;
}

nn::GptOptions small_gpt(bool tied) {
  auto o = small_transformer<nn::GptOptions>(3);
  o.dropout = 0.1;
  o.tied = tied;
  return o;
}

}  // namespace

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all = {
      "mlp",       "cnn",        "gpt",   "lstm",    "residual-mlp", "tied-lm",
      "conv-lstm", "resnet",     "gru",   "encoder", "wide-mlp",     "lstm-lm",
      "depthwise", "embeddings", "llama", "deep-mlp"};
  return all;
}

Subject make(const std::string& kind, std::uint64_t seed) {
  const nn::Init init(seed);
  if (kind == "deep-mlp") {  // of 3,000 calls: planning takes memory, too
    std::vector<std::int64_t> sizes(502, 8);
    sizes.front() = 64;
    sizes.back() = 10;
    return classifier(std::make_shared<nn::Mlp>(init, sizes), "x");
  }
  if (kind == "mlp")
    return classifier(std::make_shared<nn::Mlp>(init, std::vector<std::int64_t>{64, 256, 256, 10},
                                                nn::MlpOptions{.dropout = 0.1}),
                      "x");
  if (kind == "tiny")
    return classifier(std::make_shared<nn::Mlp>(init, std::vector<std::int64_t>{64, 32, 10}), "x");
  if (kind.starts_with(kMnist))
    return classifier(std::make_shared<nn::Mlp>(init, std::vector<std::int64_t>{784, 128, 10}),
                      "image");
  if (kind == "wide-mlp")
    return classifier(std::make_shared<nn::Mlp>(init, std::vector<std::int64_t>{64, 1500, 10}),
                      "x");
  if (kind == "residual-mlp") return classifier(std::make_shared<ResidualMlp>(init), "x");
  if (kind == "cnn") {
    nn::ConvNetOptions o;
    o.channels = {16, 24};
    o.height = o.width = kSide;
    o.in = 1;
    return classifier(std::make_shared<nn::ConvNet>(init, o), "image");
  }
  if (kind == "resnet") {
    nn::ResNetOptions o;
    o.channels = {8, 16};
    o.blocks = 1;
    o.in = 1;
    return classifier(std::make_shared<nn::ResNet>(init, o), "image");
  }
  if (kind == "depthwise") return classifier(std::make_shared<Depthwise>(init), "image");
  if (kind == "lstm")
    return classifier(std::make_shared<nn::LstmClassifier>(
                          init, nn::SequenceOptions{.in = 6, .hidden = 64, .classes = 10}),
                      "signal");
  if (kind == "gru")
    return classifier(
        std::make_shared<nn::GruClassifier>(
            init,
            nn::SequenceOptions{.in = 6, .hidden = 64, .classes = 10, .layers = 2, .dropout = 0.1}),
        "signal");
  if (kind == "conv-lstm") return classifier(std::make_shared<ConvLstm>(init), "signal");
  if (kind == "embeddings") return classifier(std::make_shared<Bag>(init), "ids");
  if (kind == "encoder") {
    auto o = small_transformer<nn::EncoderOptions>(2);
    o.classes = 10;
    return classifier(std::make_shared<nn::EncoderClassifier>(init, o), "ids");
  }
  if (kind == "lstm-lm") {
    nn::RecurrentLmOptions o;
    o.vocabulary = kVocabulary;
    o.embedding = o.hidden = 64;
    o.layers = 1;
    return language(std::make_shared<nn::RecurrentLm<nn::Lstm>>(init, o));
  }
  nn::GptOptions o = small_gpt(kind == "tied-lm");
  if (kind == "llama") {
    o.norm = nn::GptOptions::Norm::rms;
    o.gate = nn::GptOptions::Gate::swiglu;
    o.rotary = true;
    o.bias = false;
    o.kv_heads = 2;
  } else if (kind != "gpt" && kind != "tied-lm") {
    throw Error("program: there is no kind of model \"" + kind + "\"");
  }
  return language(std::make_shared<nn::Gpt>(init, o));
}

Dataset data_for(const std::string& kind, std::int64_t rows, std::uint64_t seed) {
  if (kind.starts_with(kMnist)) {
    const std::string folder = kind.substr(kMnist.size());
    return data::mnist(folder, data::Split::train, {.in_memory = false, .cache = folder + "/cache"})
        .rows(0, rows);
  }
  const auto labels = [&] {
    std::vector<std::int32_t> l;
    for (std::int64_t i = 0; i < rows; ++i)
      l.push_back(static_cast<std::int32_t>((i * 7 + static_cast<std::int64_t>(seed)) % 10));
    return Tensor::from(l, {rows});
  };
  const auto ids = [&](std::int64_t most, std::int64_t shift) {
    std::vector<std::int32_t> l;
    for (std::int64_t i = 0; i < rows * kLength; ++i)
      l.push_back(static_cast<std::int32_t>(((i + shift) * (i + shift) * 31 + i / kLength) % most));
    return Tensor::from(l, {rows, kLength});
  };
  const auto floats = [&](Shape shape) { return random::normal(shape, 0, 1, seed, 77); };
  if (kind == "tiny" || kind.ends_with("mlp"))
    return Dataset::of({{"x", floats({rows, 64})}, {"label", labels()}});
  if (kind == "cnn" || kind == "resnet" || kind == "depthwise")
    return Dataset::of({{"image", floats({rows, kSide, kSide, 1})}, {"label", labels()}});
  if (kind == "lstm" || kind == "gru" || kind == "conv-lstm")
    return Dataset::of({{"signal", floats({rows, kSignal, 6})}, {"label", labels()}});
  if (kind == "encoder" || kind == "embeddings")
    return Dataset::of(
        {{"ids", ids(kind == "encoder" ? kVocabulary : 20000, 0)}, {"label", labels()}});
  return Dataset::of({{"input", ids(kVocabulary, 0)}, {"target", ids(kVocabulary, 1)}});
}

}  // namespace ebb::programs
