// Transformers: attention and block as layers, and two models of them.
//
//   nn::Gpt gpt(nn::Init(1), nn::GptOptions::gpt2());          // 124 M parameters
//   adam.minimize(gpt.loss(b["ids"], b["next"]));              // logits are never written down
//   Tensor logits = gpt(ids);                                  // (batch, length, vocabulary)
//
// Parameters are named as people know them: layers.0.attn.q_proj.weight.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "ebb/nn/kv_cache.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/ops/loss.hpp"

namespace ebb::nn {

struct TransformerOptions {
  enum class Norm : std::uint8_t { layer, rms };
  enum class Gate : std::uint8_t { gelu, gelu_tanh, swiglu };

  std::int64_t width = 768, heads = 12;
  std::int64_t kv_heads = 0;  // fewer keys and values than queries; 0: as many
  std::int64_t hidden = 0;    // of the feed-forward part; 0: 4 widths, or 8/3 for swiglu
  std::int64_t window = 0;    // how far a position looks back; 0: all the way
  bool causal = true;         // a place sees itself and those before it
  bool bias = true;           // in the products
  bool rotary = false;        // positions told by rotating queries and keys
  double rotary_base = 10000;
  Norm norm = Norm::layer;
  Gate gate = Gate::gelu_tanh;
  double eps = 1e-5;
  double dropout = 0;  // on attention weights and on what is added to the residual stream
  int layers = 12;     // of the whole model: the last product of each part starts smaller by it

  std::int64_t key_heads() const { return kv_heads ? kv_heads : heads; }
  std::int64_t hidden_width() const;
  bool operator==(const TransformerOptions&) const = default;
};

struct MultiHeadAttention {  // (batch, length, width) → the same
  TransformerOptions options;
  Scope::Id scope;
  Dense q_proj, k_proj, v_proj, o_proj;
  MultiHeadAttention(const Init& init, const TransformerOptions& options);
  // `mask` (batch, length), bool: which positions may be looked at. `memory`: what is looked at instead
  // of x itself (cross-attention).
  Tensor operator()(const Tensor& x, const Tensor& mask = {}, const Tensor& memory = {}) const;
  // x (1, length, width) goes on from what the cache has of this layer, and looks at both.
  Tensor operator()(const Tensor& x, KvCache& cache, int layer) const;
  void each(auto&& f) {
    f("q_proj", q_proj);
    f("k_proj", k_proj);
    f("v_proj", v_proj);
    f("o_proj", o_proj);
  }

 private:
  Tensor rotated(const Tensor& x, std::int64_t heads, std::int64_t offset) const;
};

struct FeedForward {  // (…, width) → the same
  TransformerOptions options;
  Scope::Id scope;
  std::optional<Dense> gate_proj;  // swiglu
  Dense up_proj, down_proj;
  FeedForward(const Init& init, const TransformerOptions& options);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) {
    if (gate_proj) f("gate_proj", *gate_proj);
    f("up_proj", up_proj);
    f("down_proj", down_proj);
  }
};

struct Norm {  // one of both, as the options say
  std::variant<LayerNorm, RMSNorm> layer;
  Norm(const Init& init, const TransformerOptions& options);
  Tensor operator()(const Tensor& x) const {
    return std::visit([&](const auto& l) { return l(x); }, layer);
  }
  void each(auto&& f) {
    std::visit([&](auto& l) { l.each(f); }, layer);
  }
};

struct TransformerBlock {  // x + attn(norm x), then x + mlp(norm x)
  double dropout;
  Norm attn_norm;
  MultiHeadAttention attn;
  Norm mlp_norm;
  FeedForward mlp;
  TransformerBlock(const Init& init, const TransformerOptions& options);
  Tensor operator()(Tensor x, const Tensor& mask = {}) const;
  Tensor operator()(Tensor x, KvCache& cache, int layer) const;
  void each(auto&& f) {
    f("attn_norm", attn_norm);
    f("attn", attn);
    f("mlp_norm", mlp_norm);
    f("mlp", mlp);
  }
};

// Of a model and of its blocks: what has the name of a field of TransformerOptions means the same.
struct GptOptions {
  using Norm = TransformerOptions::Norm;
  using Gate = TransformerOptions::Gate;

  std::int64_t vocabulary = 50304;
  std::int64_t context = 1024;  // learned ones; with rotary positions, none are
  int layers = 12;
  std::int64_t width = 768, heads = 12, kv_heads = 0, hidden = 0, window = 0;
  bool causal = true, bias = true, rotary = false;
  double rotary_base = 10000;
  Norm norm = Norm::layer;
  Gate gate = Gate::gelu_tanh;
  double eps = 1e-5, dropout = 0;
  bool tied = true;  // the head is the embedding of tokens

  static GptOptions gpt2() { return {}; }
  static GptOptions llama();  // the small shape of that family; change the sizes as you like
  operator TransformerOptions() const;  // those of a block
};

struct Gpt {  // ids (batch, length) → logits (batch, length, vocabulary)
  GptOptions options;
  Embedding tokens;
  std::optional<Embedding> positions;
  std::vector<TransformerBlock> layers;
  Norm norm;
  std::optional<Dense> head;
  Gpt(const Init& init, const GptOptions& options);

  Tensor states(const Tensor& ids) const;  // (batch, length, width), normalised
  // Of ids (1, length) that go on from what the cache has read, and are then read, too: the rows of the
  // whole text's states, to the bit. No gradient.
  Tensor states(const Tensor& ids, KvCache& cache) const;
  Tensor logits(const Tensor& states) const { return linear(states, head_weight()); }
  Tensor operator()(const Tensor& ids) const { return logits(states(ids)); }
  // Cross-entropy of the next tokens, in tiles: logits are never held.
  Loss loss(const Tensor& ids, const Tensor& next, SparseCrossEntropyOptions how = {}) const;
  void each(auto&& f) {
    f("tokens", tokens);
    if (positions) f("positions", *positions);
    f("layers", layers);
    f("norm", norm);
    if (head) f("head", *head);
  }

 private:
  const Variable& head_weight() const { return head ? head->weight : tokens.weight; }
};

// For texts of up to `context` positions (0: as many as the model was made for), read in passes of at most
// `at_once` of them.
KvCache kv_cache(const Gpt& model, std::int64_t context = 0, std::int64_t at_once = 128);

struct EncoderOptions {  // as GptOptions
  using Norm = TransformerOptions::Norm;
  using Gate = TransformerOptions::Gate;

  std::int64_t vocabulary = 30522, context = 512, classes = 2;
  int layers = 12;
  std::int64_t width = 768, heads = 12, kv_heads = 0, hidden = 0, window = 0;
  bool causal = false, bias = true, rotary = false;
  double rotary_base = 10000;
  Norm norm = Norm::layer;
  Gate gate = Gate::gelu;
  double eps = 1e-5, dropout = 0;

  operator TransformerOptions() const;
};

// ids (batch, length)[, mask of the positions that count] → logits (batch, classes), from the mean over
// those positions.
struct EncoderClassifier {
  EncoderOptions options;
  Embedding tokens, positions;
  std::vector<TransformerBlock> layers;
  Norm norm;
  Dense head;
  EncoderClassifier(const Init& init, const EncoderOptions& options);
  Tensor operator()(const Tensor& ids, const Tensor& mask = {}) const;
  void each(auto&& f) {
    f("tokens", tokens);
    f("positions", positions);
    f("layers", layers);
    f("norm", norm);
    f("head", head);
  }
};

}  // namespace ebb::nn
