// The models of [model] kind = …
#include <fmt/format.h>

#include "ebb/base/error.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/nn/recurrent_models.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/train/build/layer_list.hpp"
#include "ebb/train/build/model.hpp"
#include "ebb/train/build/sizes.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

using Made = std::unique_ptr<Net>;

template <class T>
Made made(T net) {
  return std::make_unique<NetOf<T>>(std::move(net));
}

// Another shape of each example: x (rows, …) → (rows, shape…).
Tensor examples_as(const Tensor& x, const Shape& shape) {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  dims.insert(dims.begin(), x.dim(0));
  return reshape(x, dims);
}

template <class Inner>
struct Reshaped {  // a network of examples of another shape than the data has
  Shape shape;
  Inner inner;
  Tensor operator()(const Features& f) const { return inner(examples_as(f.x, shape)); }
  void each(auto&& f) { inner.each(f); }
};

[[noreturn]] void refuse_example(ModelKind kind, const char* takes, const Spec& found,
                                 const char* help) {
  throw Error(fmt::format("model.kind = {} takes {}, and an example of the data is {}{}",
                          name_of(kind), takes, to_string(found), help));
}

Made mlp(const nn::Init& init, const ModelConfig& m, const Sizes& s) {
  if (s.tokens()) refuse_example(m.kind, "numbers", s.example, "; for tokens take encoder or lstm");
  std::vector<std::int64_t> sizes = {s.example.size()};
  sizes.insert(sizes.end(), m.hidden.begin(), m.hidden.end());
  sizes.push_back(s.outputs);
  return made(
      Reshaped<nn::Mlp>{{s.example.size()},
                        nn::Mlp(init, sizes, {.activation = m.activation, .dropout = m.dropout})});
}

// (height, width, channels); a picture without channels has one.
Shape picture(const ModelConfig& m, const Sizes& s) {
  const Shape& e = s.example.shape;
  if (s.tokens() || e.rank() < 2 || e.rank() > 3)
    refuse_example(m.kind, "images (height, width, channels)", s.example,
                   "; data.shape = [28, 28, 1] says how a row is one");
  const Shape to = e.rank() == 3 ? e : Shape{e[0], e[1], 1};
  const auto least = std::int64_t{1} << m.channels.size();
  if (m.kind == ModelKind::cnn && (to[0] < least || to[1] < least))
    throw Error(
        fmt::format("model.channels has {} stages, which halve an image of {} by {} too often",
                    m.channels.size(), to[0], to[1]));
  return to;
}

// What every model of pictures is told.
template <class Options>
Options picture_options(const ModelConfig& m, const Sizes& s, const Shape& to) {
  Options o;
  o.channels = m.channels;
  o.in = to[2];
  o.classes = s.outputs;
  o.winograd = m.winograd;
  return o;
}

Made cnn(const nn::Init& init, const ModelConfig& m, const Sizes& s) {
  const Shape to = picture(m, s);
  auto o = picture_options<nn::ConvNetOptions>(m, s, to);
  o.convolutions = static_cast<int>(m.convolutions);
  o.height = to[0];
  o.width = to[1];
  return made(Reshaped<nn::ConvNet>{to, nn::ConvNet(init, o)});
}

Made resnet(const nn::Init& init, const ModelConfig& m, const Sizes& s) {
  const Shape to = picture(m, s);
  auto o = picture_options<nn::ResNetOptions>(m, s, to);
  o.blocks = static_cast<int>(m.blocks);
  return made(Reshaped<nn::ResNet>{to, nn::ResNet(init, o)});
}

template <class Recurrent>
struct TokenClassifier {  // ids → the last state → outputs
  nn::Embedding tokens;
  nn::SequenceClassifier<Recurrent> classifier;
  Tensor operator()(const Features& f) const { return classifier(tokens(f.x), f.lengths); }
  void each(auto&& f) {
    f("tokens", tokens);
    f("classifier", classifier);
  }
};

template <class Recurrent>
struct SeriesClassifier {  // (length, features), or (length) of one feature
  Shape shape;             // of lists of different lengths, that of the longest
  nn::SequenceClassifier<Recurrent> classifier;
  Tensor operator()(const Features& f) const { return classifier(steps(f.x), f.lengths); }
  Tensor steps(const Tensor& x) const {
    if (x.rank() == 3) return x;
    return shape[1] == 1 ? expand_dims(x, 2) : examples_as(x, shape);
  }
  void each(auto&& f) { f("classifier", classifier); }
};

template <class Recurrent>
Made recurrent(const nn::Init& init, const ModelConfig& m, const Sizes& s, bool language) {
  if (language) {
    if (m.bidirectional)
      throw Error("model.bidirectional is true, and a language model must not see what comes next");
    nn::RecurrentLmOptions o;
    o.vocabulary = s.vocabulary;
    o.embedding = m.embedding.value_or(m.width);
    o.hidden = m.width;
    o.layers = static_cast<int>(m.depth);
    o.dropout = m.dropout;
    o.attention = m.attention;
    o.heads = m.heads;
    o.bias = m.bias;
    return made(nn::RecurrentLm<Recurrent>(init, o));
  }
  if (m.attention)
    throw Error(
        "model.attention is true, which language models have, and the data's task is another");
  nn::SequenceOptions o;
  o.hidden = m.width;
  o.classes = s.outputs;
  o.layers = static_cast<int>(m.depth);
  o.bidirectional = m.bidirectional;
  o.dropout = m.dropout;
  if (s.tokens()) {
    if (s.example.rank() != 1) refuse_example(m.kind, "rows of token ids", s.example, "");
    o.in = m.embedding.value_or(m.width);
    return made(TokenClassifier<Recurrent>{nn::Embedding(init / "tokens", s.vocabulary, o.in),
                                           nn::SequenceClassifier<Recurrent>(init, o)});
  }
  const Shape& e = s.example.shape;
  if (e.rank() < 1 || e.rank() > 2)
    refuse_example(m.kind, "sequences (length, features)", s.example, "");
  const Shape to = e.rank() == 2 ? e : Shape{e[0], 1};
  o.in = to[1];
  return made(SeriesClassifier<Recurrent>{to, nn::SequenceClassifier<Recurrent>(init, o)});
}

template <class Options>
Options transformer(const ModelConfig& m, const Sizes& s) {
  if (!s.tokens() || s.example.rank() != 1)
    refuse_example(m.kind, "rows of token ids", s.example, "");
  Options o;
  o.vocabulary = s.vocabulary;
  o.context = s.context;
  o.layers = static_cast<int>(m.depth);
  o.width = m.width;
  o.heads = m.heads;
  o.kv_heads = m.kv_heads.value_or(0);
  o.hidden = m.feed_forward.value_or(0);
  o.window = m.look_back;
  o.bias = m.bias;
  o.norm = m.norm;
  o.gate = m.gate;
  o.dropout = m.dropout;
  return o;
}

Made gpt(const nn::Init& init, const ModelConfig& m, const Sizes& s, bool language) {
  if (!language)
    throw Error(
        "model.kind = gpt is a language model, and the data is none; for classes take encoder");
  auto o = transformer<nn::GptOptions>(m, s);
  o.rotary = m.positions == Positions::rotary;
  o.tied = m.tied;
  return made(nn::Gpt(init, o));
}

struct Encoder {
  nn::EncoderClassifier net;
  Tensor operator()(const Features& f) const { return net(f.x, f.mask); }
  void each(auto&& f) { net.each(f); }
};

Made encoder(const nn::Init& init, const ModelConfig& m, const Sizes& s) {
  auto o = transformer<nn::EncoderOptions>(m, s);
  o.classes = s.outputs;
  return made(Encoder{nn::EncoderClassifier(init, o)});
}

DType dtype_of_weights(Precision p) {
  return p == Precision::f32 ? DType::f32 : p == Precision::bf16 ? DType::bf16 : DType::f16;
}

Made make_net(const Config& config, const DataFacts& facts, const Sizes& s) {
  const ModelConfig& m = config.model;
  const bool language = facts.task == Task::language_model;
  const nn::Init init(static_cast<std::uint64_t>(config.train.seed),
                      dtype_of_weights(config.train.precision));
  const bool rows = m.kind == ModelKind::mlp || m.kind == ModelKind::cnn ||
                    m.kind == ModelKind::resnet || m.kind == ModelKind::encoder;
  if (language && rows)
    throw Error(fmt::format("model.kind = {} is no language model; take gpt, lstm or gru",
                            name_of(m.kind)));
  switch (m.kind) {
    case ModelKind::mlp:
      return mlp(init, m, s);
    case ModelKind::cnn:
      return cnn(init, m, s);
    case ModelKind::resnet:
      return resnet(init, m, s);
    case ModelKind::lstm:
      return recurrent<nn::Lstm>(init, m, s, language);
    case ModelKind::gru:
      return recurrent<nn::Gru>(init, m, s, language);
    case ModelKind::gpt:
      return gpt(init, m, s, language);
    case ModelKind::encoder:
      return encoder(init, m, s);
    case ModelKind::layers:
      break;
  }
  return made(make_layers(init, m.layers, s, language));
}

}  // namespace

Model make_model(const Config& config, const DataFacts& facts) {
  const Sizes sizes = sizes_of(config, facts);
  return Model(make_net(config, facts, sizes), facts, criterion_of(config.train, facts.task),
               metrics_of(config.train, facts));
}

}  // namespace ebb::train
