#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {
namespace {

using M = ModelConfig;
using enum ModelKind;
constexpr Range kSize{.low = 1, .high = 1e9};
constexpr Range kCount{.low = 1, .high = 4096};
constexpr Range kRate{.low = 0, .high = 1, .below = true};

void add_sizes(Fields<M>& t) {
  t.add("kind", &M::kind, {}, "which model; with a list of layers it may be left out", "\"cnn\"",
        "(to be said)");
  t.add("in", &M::in, kSize, "features of an example; checked where it is given", "784",
        "(from the data)");
  t.add("classes", &M::classes, kSize, "outputs: classes, or numbers to predict", "10",
        "(from the data)");
  t.add("vocabulary", &M::vocabulary, kSize, "different tokens", "256", "(from the data)");
}

void add_rows_and_images(Fields<M>& t) {
  t.add("hidden", &M::hidden, kSize, "sizes of the hidden layers, in order", "[256, 128]")
      .only("kind", &M::kind, {mlp});
  t.add("activation", &M::activation, {}, "between the layers", "\"gelu\"")
      .only("kind", &M::kind, {mlp});
  t.add("channels", &M::channels, kSize,
        "channels of the stages; each stage halves height and width", "[32, 64]")
      .only("kind", &M::kind, {cnn, resnet});
  t.add("convolutions", &M::convolutions, kCount, "3×3 convolutions in a stage", "2")
      .only("kind", &M::kind, {cnn});
  t.add("blocks", &M::blocks, kCount, "residual blocks in a stage", "3")
      .only("kind", &M::kind, {resnet});
  t.add("winograd", &M::winograd, {}, "3×3 convolutions with fewer products, rounded otherwise",
        "true")
      .only("kind", &M::kind, {cnn, resnet});
}

void add_sequences(Fields<M>& t) {
  t.add("width", &M::width, kSize, "of the states: of a recurrent layer, or of a transformer",
        "256")
      .only("kind", &M::kind, {lstm, gru, gpt, encoder});
  t.add("depth", &M::depth, kCount, "layers, one on top of the other", "4")
      .only("kind", &M::kind, {lstm, gru, gpt, encoder});
  t.add("heads", &M::heads, kCount, "attention heads; they divide the width", "8")
      .only("kind", &M::kind, {lstm, gru, gpt, encoder});
  t.add("embedding", &M::embedding, kSize, "width of the tokens' embeddings", "64", "(the width)")
      .only("kind", &M::kind, {lstm, gru});
  t.add("bidirectional", &M::bidirectional, {}, "reads sequences in both directions", "true")
      .only("kind", &M::kind, {lstm, gru});
  t.add("attention", &M::attention, {}, "each state of a language model looks at those before it",
        "true")
      .only("kind", &M::kind, {lstm, gru});
}

void add_transformers(Fields<M>& t) {
  t.add("kv_heads", &M::kv_heads, kCount, "heads of keys and values, fewer than of queries", "2",
        "(as many as heads)")
      .only("kind", &M::kind, {gpt, encoder});
  t.add("feed_forward", &M::feed_forward, kSize, "hidden width of the feed-forward part", "1024",
        "(4 widths, or 8/3 for swiglu)")
      .only("kind", &M::kind, {gpt, encoder});
  t.add("context", &M::context, kSize, "most tokens of a sequence", "256", "(from the data)")
      .only("kind", &M::kind, {gpt, encoder});
  t.add("look_back", &M::look_back, {.low = 0}, "how far a position looks back; 0: all the way",
        "128")
      .only("kind", &M::kind, {gpt, encoder});
  t.add("positions", &M::positions, {}, "how positions are told apart", "\"rotary\"")
      .only("kind", &M::kind, {gpt});
  t.add("norm", &M::norm, {}, "layer norm or root-mean-square norm", "\"rms\"")
      .only("kind", &M::kind, {gpt, encoder});
  t.add("gate", &M::gate, {}, "activation of the feed-forward part", "\"swiglu\"")
      .only("kind", &M::kind, {gpt, encoder});
  t.add("bias", &M::bias, {},
        "biases of the products; of lstm and gru, of the last one alone: without it a language "
        "model needs less memory",
        "false")
      .only("kind", &M::kind, {lstm, gru, gpt, encoder});
  t.add("tied", &M::tied, {}, "the head is the embedding of tokens", "false")
      .only("kind", &M::kind, {gpt});
  t.add("dropout", &M::dropout, kRate, "part of the activations that is dropped while training",
        "0.1")
      .only("kind", &M::kind, {mlp, lstm, gru, gpt, encoder});
  t.add("layers", &M::layers, {}, "layers in order, instead of a kind: see [[model.layers]]",
        "[{ kind = \"dense\", out = 64 }, { kind = \"relu\" }, { kind = \"dense\" }]", "(none)")
      .only("kind", &M::kind, {layers});
}

using L = LayerConfig;
using K = LayerKind;

void add_layer_sizes(Fields<L>& t) {
  t.add("kind", &L::kind, {}, "what the layer does", "\"dense\"", "(to be said)");
  t.add("out", &L::out, kSize, "outputs, or channels", "64",
        "(of the last layer: what the data asks for)")
      .only("kind", &L::kind, {K::dense, K::conv});
  t.add("kernel", &L::kernel, kCount, "height and width, or length, of a convolution", "5")
      .only("kind", &L::kind, {K::conv});
  t.add("stride", &L::stride, kCount, "steps of a convolution", "2")
      .only("kind", &L::kind, {K::conv});
  t.add("dilation", &L::dilation, kCount, "from one tap of the kernel to the next", "2")
      .only("kind", &L::kind, {K::conv});
  t.add("groups", &L::groups, kSize, "channels are convolved within their group", "4")
      .only("kind", &L::kind, {K::conv});
  t.add("window", &L::window, kCount, "height and width, or length, of a pool", "3")
      .only("kind", &L::kind, {K::max_pool, K::avg_pool});
  t.add("pool_stride", &L::pool_stride, kCount, "from one window to the next", "2", "(the window)")
      .only("kind", &L::kind, {K::max_pool, K::avg_pool});
  t.add("padding", &L::padding, {.low = 0, .high = 4096}, "zeros on every side", "0",
        "(convolutions of stride 1 keep the size, pools have none)")
      .only("kind", &L::kind, {K::conv, K::max_pool, K::avg_pool});
  t.add("shape", &L::shape, kSize, "of one example", "[28, 28, 1]", "(to be said)")
      .only("kind", &L::kind, {K::reshape});
  t.add("width", &L::width, kSize, "of the states, or of the embeddings", "256")
      .only("kind", &L::kind, {K::embedding, K::lstm, K::gru});
}

void add_layer_options(Fields<L>& t) {
  t.add("count", &L::count, kSize, "different tokens", "256", "(the data's vocabulary)")
      .only("kind", &L::kind, {K::embedding});
  t.add("depth", &L::depth, kCount, "recurrent layers, one on top of the other", "2")
      .only("kind", &L::kind, {K::lstm, K::gru});
  t.add("bidirectional", &L::bidirectional, {}, "reads sequences in both directions", "true")
      .only("kind", &L::kind, {K::lstm, K::gru});
  t.add("take", &L::take, {}, "the outputs of all times, or the last state", "\"last\"")
      .only("kind", &L::kind, {K::lstm, K::gru});
  t.add("heads", &L::heads, kCount, "attention heads; they divide the width", "8")
      .only("kind", &L::kind, {K::transformer});
  t.add("feed_forward", &L::feed_forward, kSize, "hidden width of the feed-forward part", "512",
        "(4 widths)")
      .only("kind", &L::kind, {K::transformer});
  t.add("causal", &L::causal, {}, "a place sees itself and those before it", "true")
      .only("kind", &L::kind, {K::transformer});
  t.add("rate", &L::rate, kRate, "part that is dropped while training", "0.1")
      .only("kind", &L::kind, {K::dropout});
  t.add("dropout", &L::dropout, kRate, "part that is dropped inside of the layer", "0.1")
      .only("kind", &L::kind, {K::lstm, K::gru, K::transformer});
  t.add("momentum", &L::momentum, {.low = 0, .high = 1},
        "of the running statistics: how much of a batch goes into them", "0.01")
      .only("kind", &L::kind, {K::batch_norm});
  t.add("eps", &L::eps, {.low = 0, .above = true}, "added before the root is taken", "1e-6",
        "(1e-5, of rms_norm 1e-6)")
      .only("kind", &L::kind, {K::batch_norm, K::layer_norm, K::rms_norm});
  t.add("bias", &L::bias, {}, "whether a bias is added", "false")
      .only("kind", &L::kind, {K::dense, K::conv, K::lstm, K::gru});
  t.add("activation", &L::activation, {}, "of the result, in one go with the product", "\"relu\"")
      .only("kind", &L::kind, {K::dense});
}

}  // namespace

template <>
const Fields<ModelConfig>& fields() {
  static const Fields<ModelConfig> table = [] {
    Fields<ModelConfig> t("model");
    add_sizes(t);
    add_rows_and_images(t);
    add_sequences(t);
    add_transformers(t);
    return t;
  }();
  return table;
}

template <>
const Fields<LayerConfig>& fields() {
  static const Fields<LayerConfig> table = [] {
    Fields<LayerConfig> t("model.layers");
    add_layer_sizes(t);
    add_layer_options(t);
    return t;
  }();
  return table;
}

}  // namespace ebb::train
