#include "ebb/nn/transformer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/ops/attention.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::nn {
namespace {

using Options = TransformerOptions;

constexpr double kFirstDeviation = 0.02;

const Options& checked(const char* layer, const Options& o) {
  if (o.width < 1 || o.heads < 1 || o.width % o.heads != 0)
    throw Error(
        fmt::format("{}: a width of {} does not divide into {} heads", layer, o.width, o.heads));
  if (o.kv_heads < 0 || o.heads % o.key_heads() != 0)
    throw Error(fmt::format("{}: {} heads do not share {} heads of keys evenly", layer, o.heads,
                            o.kv_heads));
  if (o.window < 0 || (o.window > 0 && !o.causal))
    throw Error(
        fmt::format("{}: a window of {} looks back only: it needs causal attention, and at "
                    "least one place",
                    layer, o.window));
  if (o.rotary && o.width / o.heads % 2 != 0)
    throw Error(fmt::format("{}: rotary positions need heads of even width, found {}", layer,
                            o.width / o.heads));
  return o;
}

DenseOptions inner(const Options& o) {
  return {.bias = o.bias, .first = normal(0, kFirstDeviation)};
}

// What is added to the residual stream, twice in every layer, starts so much smaller that the sum of
// all has the deviation of one.
DenseOptions last(const Options& o) {
  return {.bias = o.bias, .first = normal(0, kFirstDeviation / std::sqrt(2.0 * o.layers))};
}

Tensor dropped(const Tensor& x, double rate) {
  return training() && rate > 0 ? dropout(x, rate) : x;
}

void check_positions(const Embedding& positions, std::int64_t length, const char* model) {
  const std::int64_t known = positions.weight.spec().shape[0];
  if (length > known)
    throw Error(
        fmt::format("{}: the text has {} positions, the model knows {}; cut the text or build "
                    "the model with more",
                    model, length, known));
}

Tensor position_rows(const Embedding& positions, std::int64_t length, const char* model) {
  check_positions(positions, length, model);
  return ops::first_rows(positions.weight, length);
}

std::vector<TransformerBlock> blocks(const Init& init, const Options& o) {
  std::vector<TransformerBlock> all;
  all.reserve(static_cast<std::size_t>(o.layers));
  for (int i = 0; i < o.layers; ++i) all.emplace_back(init / "layers" / i, o);
  return all;
}

void check_ids(const char* model, const Tensor& ids) {
  if (ids.rank() != 2)
    throw Error(
        fmt::format("{}: ids are {}, expected (batch, length)", model, to_string(ids.spec())));
}

}  // namespace

std::int64_t TransformerOptions::hidden_width() const {
  if (hidden) return hidden;
  return gate == Gate::swiglu ? (8 * width / 3 + 63) / 64 * 64 : 4 * width;
}

GptOptions GptOptions::llama() {
  GptOptions o;
  o.vocabulary = 32000;
  o.context = 2048;
  o.kv_heads = 4;
  o.bias = false;
  o.rotary = true;
  o.norm = Norm::rms;
  o.gate = Gate::swiglu;
  o.tied = false;
  return o;
}

MultiHeadAttention::MultiHeadAttention(const Init& init, const Options& o)
    : options(checked("MultiHeadAttention", o)),
      scope(init.scope()),
      q_proj(init / "q_proj", o.width, o.width, inner(o)),
      k_proj(init / "k_proj", o.width, o.width / o.heads * o.key_heads(), inner(o)),
      v_proj(init / "v_proj", o.width, o.width / o.heads * o.key_heads(), inner(o)),
      o_proj(init / "o_proj", o.width, o.width, last(o)) {}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Tensor& mask,
                                      const Tensor& memory) const {
  const Tensor& seen = memory ? memory : x;
  Tensor q = q_proj(x), k = k_proj(seen);
  const Tensor v = v_proj(seen);
  const Scope in(scope);
  q = rotated(q, options.heads, 0);
  k = rotated(k, options.key_heads(), 0);
  const Tensor y = attention(q, k, v,
                             {.heads = options.heads,
                              .kv_heads = options.key_heads(),
                              .causal = options.causal && !memory,
                              .window = memory ? 0 : options.window,  // it looks back, too
                              .dropout = training() ? options.dropout : 0},
                             mask);
  return o_proj(y);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, KvCache& cache, int layer) const {
  const Tensor q = q_proj(x), k = k_proj(x), v = v_proj(x);
  const Scope in(scope);
  const std::int64_t position = cache.length();
  const KvCache::Seen seen = cache.add(layer, rotated(k, options.key_heads(), position), v);
  const Tensor y = attention(rotated(q, options.heads, position), seen.keys, seen.values,
                             {.heads = options.heads,
                              .kv_heads = options.key_heads(),
                              .causal = true,
                              .window = options.window,
                              .offset = seen.offset});
  return o_proj(y);
}

Tensor MultiHeadAttention::rotated(const Tensor& x, std::int64_t heads, std::int64_t offset) const {
  if (!options.rotary) return x;
  return rotary(x, {.heads = heads, .base = options.rotary_base, .offset = offset});
}

FeedForward::FeedForward(const Init& init, const Options& o)
    : options(o),
      scope(init.scope()),
      up_proj(init / "up_proj", o.width, o.hidden_width(), inner(o)),
      down_proj(init / "down_proj", o.hidden_width(), o.width, last(o)) {
  if (o.gate == Options::Gate::swiglu)
    gate_proj.emplace(init / "gate_proj", o.width, o.hidden_width(), inner(o));
}

// The activation is a call of its own, not the product's: what it makes can then be made again from
// the product at the cost of one pass, and need not be kept.
Tensor FeedForward::operator()(const Tensor& x) const {
  const auto activated = [&](const Tensor& h) {
    const Scope in(scope);
    switch (options.gate) {
      case Options::Gate::gelu:
        return gelu(h);
      case Options::Gate::gelu_tanh:
        return gelu_tanh(h);
      case Options::Gate::swiglu:
        return silu(h);
    }
    return h;
  };
  if (!gate_proj) return down_proj(activated(up_proj(x)));
  return down_proj(activated((*gate_proj)(x)) * up_proj(x));
}

namespace {
std::variant<LayerNorm, RMSNorm> norm_of(const Init& init, const Options& o) {
  if (o.norm == Options::Norm::rms) return RMSNorm(init, o.width, o.eps);
  return LayerNorm(init, o.width, o.eps);
}
}  // namespace

Norm::Norm(const Init& init, const Options& o) : layer(norm_of(init, o)) {}

TransformerBlock::TransformerBlock(const Init& init, const Options& o)
    : dropout(o.dropout),
      attn_norm(init / "attn_norm", o),
      attn(init / "attn", o),
      mlp_norm(init / "mlp_norm", o),
      mlp(init / "mlp", o) {}

Tensor TransformerBlock::operator()(Tensor x, const Tensor& mask) const {
  x = x + dropped(attn(attn_norm(x), mask), dropout);
  return x + dropped(mlp(mlp_norm(x)), dropout);
}

Tensor TransformerBlock::operator()(Tensor x, KvCache& cache, int layer) const {
  x = x + attn(attn_norm(x), cache, layer);
  return x + mlp(mlp_norm(x));
}

namespace {

template <class ModelOptions>
Options block_options(const ModelOptions& o) {
  return {.width = o.width,
          .heads = o.heads,
          .kv_heads = o.kv_heads,
          .hidden = o.hidden,
          .window = o.window,
          .causal = o.causal,
          .bias = o.bias,
          .rotary = o.rotary,
          .rotary_base = o.rotary_base,
          .norm = o.norm,
          .gate = o.gate,
          .eps = o.eps,
          .dropout = o.dropout,
          .layers = o.layers};
}

}  // namespace

GptOptions::operator TransformerOptions() const { return block_options(*this); }
EncoderOptions::operator TransformerOptions() const { return block_options(*this); }

Gpt::Gpt(const Init& init, const GptOptions& o)
    : options(o),
      tokens(init / "tokens", o.vocabulary, o.width, normal(0, kFirstDeviation)),
      layers(blocks(init, o)),
      norm(init / "norm", o) {
  if (!o.rotary)
    positions.emplace(init / "positions", o.context, o.width, normal(0, kFirstDeviation));
  if (!o.tied)
    head.emplace(init / "head", o.width, o.vocabulary,
                 DenseOptions{.bias = false, .first = normal(0, kFirstDeviation)});
}

Tensor Gpt::states(const Tensor& ids) const {
  check_ids("Gpt", ids);
  Tensor x = tokens(ids);
  if (positions) x = x + position_rows(*positions, ids.dim(1), "Gpt");
  x = dropped(x, options.dropout);
  for (const TransformerBlock& layer : layers) x = layer(x);
  return norm(x);
}

Tensor Gpt::states(const Tensor& ids, KvCache& cache) const {
  check_ids("Gpt", ids);
  if (ids.dim(0) != 1 || !options.causal)
    throw Error(
        fmt::format("Gpt: ids {} of a {} model; a cache is for one text at a time, and for models "
                    "whose positions see only those before them",
                    to_string(ids.spec()), options.causal ? "causal" : "non-causal"));
  const Tape::Pause pause;
  const std::int64_t from = cache.length(), end = from + ids.dim(1);
  cache.begin(ids.dim(1));
  Tensor x = tokens(ids);
  if (positions) {
    check_positions(*positions, end, "Gpt");
    x = x + slice(positions->weight, 0, from, end);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, cache, static_cast<int>(i));
  x = norm(x);
  cache.end();  // now nothing fails any more
  return x;
}

KvCache kv_cache(const Gpt& model, std::int64_t context, std::int64_t at_once) {
  const GptOptions& o = model.options;
  if (context == 0) context = o.context;
  if (context < 1)
    throw Error(fmt::format("kv_cache: a context of {}; expected at least 1", context));
  if (model.positions) check_positions(*model.positions, context, "kv_cache");
  const TransformerOptions block = o;
  return KvCache({.layers = o.layers,
                  .width = o.width / o.heads * block.key_heads(),
                  .context = context,
                  .window = o.window,
                  .at_once = std::min(at_once, context),
                  .dtype = model.tokens.weight.spec().dtype});
}

Loss Gpt::loss(const Tensor& ids, const Tensor& next, SparseCrossEntropyOptions how) const {
  return linear_cross_entropy(states(ids), head_weight(), next, how);
}

EncoderClassifier::EncoderClassifier(const Init& init, const EncoderOptions& o)
    : options(o),
      tokens(init / "tokens", o.vocabulary, o.width, normal(0, kFirstDeviation)),
      positions(init / "positions", o.context, o.width, normal(0, kFirstDeviation)),
      layers(blocks(init, o)),
      norm(init / "norm", o),
      head(init / "head", o.width, o.classes) {}

Tensor EncoderClassifier::operator()(const Tensor& ids, const Tensor& mask) const {
  check_ids("EncoderClassifier", ids);
  Tensor x = tokens(ids) + position_rows(positions, ids.dim(1), "EncoderClassifier");
  x = dropped(x, options.dropout);
  for (const TransformerBlock& layer : layers) x = layer(x, mask);
  x = norm(x);
  if (!mask) return head(mean(x, {1}));
  const Tensor counts = expand_dims(cast(mask, x.dtype()), 2);  // (batch, length, 1)
  return head(sum(x * counts, {1}) / maximum(sum(counts, {1}), Tensor::scalar(1, x.dtype())));
}

}  // namespace ebb::nn
