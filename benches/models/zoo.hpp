// The models of the sweeps, built from ops alone: each a plain struct, each with dropout. Rows of a
// batch are independent in all of them, so that a batch can be taken in parts.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "ebb/ebb.hpp"

namespace ebb::zoo {

inline constexpr double kDropout = 0.1;

struct Mlp {  // (B, in) → (B, out), `layers` products
  std::vector<nn::Dense> layers;
  Mlp(nn::Init init, std::int64_t in, std::int64_t width, std::int64_t out, int count) {
    for (int i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      layers.emplace_back(
          init / "layers" / i, i ? width : in, last ? out : width,
          nn::DenseOptions{.activation = last ? Activation::none : Activation::relu});
    }
  }
  Tensor operator()(Tensor x) const {
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) x = dropout(layers[i](x), kDropout);
    return layers.back()(x);
  }
  void each(auto&& f) { f("layers", layers); }
};

struct Cnn {  // (B, 28, 28, 1) → (B, 10); no batch norm
  nn::Conv2d first, second, third;
  nn::Dense head;
  explicit Cnn(nn::Init init)
      : first(init / "first", 1, 16, 3, {.padding = {1, 1, 1, 1}}),
        second(init / "second", 16, 32, 3, {.padding = {1, 1, 1, 1}}),
        third(init / "third", 32, 64, 3, {.padding = {1, 1, 1, 1}}),
        head(init / "head", 7 * 7 * 64, 10) {}
  Tensor operator()(Tensor x) const {
    x = relu(first(x));               // (B, 28, 28, 16)
    x = avg_pool2d(relu(second(x)));  // (B, 14, 14, 32)
    x = avg_pool2d(relu(third(x)));   // (B, 7, 7, 64)
    x = dropout(reshape(x, {x.dim(0), -1}), kDropout);
    return head(x);
  }
  void each(auto&& f) {
    f("first", first);
    f("second", second);
    f("third", third);
    f("head", head);
  }
};

struct GptSize {
  int layers = 4;
  std::int64_t width = 128, heads = 4, length = 128, vocabulary = 256;
};

struct Attention {  // (B, T, C) → (B, T, C), each place sees itself and those before it
  nn::Dense query, key, value, out;
  std::int64_t heads;
  Tensor mask;  // (T, T): 0, or -inf where a place may not look
  Attention(nn::Init init, const GptSize& size, Tensor mask)
      : query(init / "query", size.width, size.width),
        key(init / "key", size.width, size.width),
        value(init / "value", size.width, size.width),
        out(init / "out", size.width, size.width),
        heads(size.heads),
        mask(std::move(mask)) {}
  Tensor operator()(const Tensor& x) const {
    const std::int64_t batch = x.dim(0), length = x.dim(1), width = x.dim(2);
    const auto split_heads = [&](const Tensor& t) {  // (B, H, T, D)
      return permute(reshape(t, {batch, length, heads, width / heads}), {0, 2, 1, 3});
    };
    const Tensor q = split_heads(query(x)), k = split_heads(key(x)), v = split_heads(value(x));
    const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
    const Tensor scores = matmul(q, k, {.transpose_b = true}) * scale + mask;  // (B, H, T, T)
    const Tensor seen = matmul(dropout(softmax(scores), kDropout), v);         // (B, H, T, D)
    return out(reshape(permute(seen, {0, 2, 1, 3}), {batch, length, width}));
  }
  void each(auto&& f) {
    f("query", query);
    f("key", key);
    f("value", value);
    f("out", out);
  }
};

struct Block {
  nn::LayerNorm before_attention, before_mlp;
  Attention attention;
  nn::Dense up, down;
  Block(nn::Init init, const GptSize& size, const Tensor& mask)
      : before_attention(init / "before_attention", size.width),
        before_mlp(init / "before_mlp", size.width),
        attention(init / "attention", size, mask),
        up(init / "up", size.width, 4 * size.width, {.activation = Activation::gelu}),
        down(init / "down", 4 * size.width, size.width) {}
  Tensor operator()(Tensor x) const {
    x = x + dropout(attention(before_attention(x)), kDropout);
    return x + dropout(down(up(before_mlp(x))), kDropout);
  }
  void each(auto&& f) {
    f("before_attention", before_attention);
    f("before_mlp", before_mlp);
    f("attention", attention);
    f("up", up);
    f("down", down);
  }
};

struct Gpt {  // ids (B, T) → logits (B, T, V); the head is not tied to the embedding
  nn::Embedding tokens;
  Variable positions;  // (T, C)
  std::vector<Block> blocks;
  nn::LayerNorm last;
  nn::Dense head;
  Gpt(nn::Init init, const GptSize& size)
      : tokens(init / "tokens", size.vocabulary, size.width),
        positions(init.make("positions", {size.length, size.width}, nn::normal(0, 0.02))),
        last(init / "last", size.width),
        head(init / "head", size.width, size.vocabulary, {.bias = false}) {
    const auto length = static_cast<std::size_t>(size.length);
    std::vector<float> mask(length * length);
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = i + 1; j < length; ++j)
        mask[i * length + j] = -std::numeric_limits<float>::infinity();
    const Tensor shared = Tensor::from(mask, {size.length, size.length});
    for (int i = 0; i < size.layers; ++i) blocks.emplace_back(init / "blocks" / i, size, shared);
  }
  Tensor operator()(const Tensor& ids) const {
    Tensor x = dropout(tokens(ids) + positions, kDropout);  // (B, T, C)
    for (const Block& block : blocks) x = block(x);
    return head(last(x));
  }
  void each(auto&& f) {
    f("tokens", tokens);
    f("positions", positions);
    f("blocks", blocks);
    f("last", last);
    f("head", head);
  }
};

struct Lstm {  // (B, T, F) → (B, classes): one layer, unrolled over T
  nn::Dense from_input, from_hidden, head;
  std::int64_t hidden;
  Lstm(nn::Init init, std::int64_t features, std::int64_t hidden, std::int64_t classes)
      : from_input(init / "from_input", features, 4 * hidden),
        from_hidden(init / "from_hidden", hidden, 4 * hidden, {.bias = false}),
        head(init / "head", hidden, classes),
        hidden(hidden) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor given = from_input(x);  // (B, T, 4H): all places at once
    Tensor h, c;                         // (B, H)
    for (std::int64_t t = 0; t < x.dim(1); ++t) {
      Tensor gates = reshape(slice(given, 1, t, t + 1), {x.dim(0), 4 * hidden});
      if (h) gates = gates + from_hidden(h);
      const auto gate = [&](int i) { return slice(gates, 1, i * hidden, (i + 1) * hidden); };
      const Tensor fresh = sigmoid(gate(0)) * tanh(gate(1));
      c = c ? sigmoid(gate(2)) * c + fresh : fresh;
      h = sigmoid(gate(3)) * tanh(c);
    }
    return head(dropout(h, kDropout));
  }
  void each(auto&& f) {
    f("from_input", from_input);
    f("from_hidden", from_hidden);
    f("head", head);
  }
};

}  // namespace ebb::zoo
