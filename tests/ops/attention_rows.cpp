// Attention, its ways back, and rotary positions.
#include "ebb/ops/attention.hpp"

#include <cmath>

#include "ebb/base/rng.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/random.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

constexpr std::uint64_t kSeed = 5;

struct Sizes {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, size = 1;
};

double factor(double rate, std::int64_t position) {
  if (rate == 0) return 1;
  const auto p = static_cast<std::uint64_t>(position);
  const std::uint32_t word = draw({kSeed, 0}, 0, p / 2);
  const double exact = static_cast<double>(static_cast<float>(rate));  // the op keeps a float
  return (word >> (p % 2 * 16) & 0xFFFF) >= std::round(exact * 65536) ? 1 / (1 - exact) : 0;
}

// q (batch, T, …), k and v (batch, S, …) and, where there is one, a mask, as plain loops.
template <class T>
Array<T> attended(const Sizes& n, const AttentionOptions& o, const Array<T>& q, const Array<T>& k,
                  const Array<T>& v, const Array<T>* mask) {
  Array<T> out(q.shape);
  const double scale = o.scale > 0 ? o.scale : 1 / std::sqrt(static_cast<double>(n.size));
  const bool causal = o.causal || o.window > 0;
  for (std::int64_t b = 0; b < n.batch; ++b)
    for (std::int64_t h = 0; h < n.heads; ++h)
      for (std::int64_t i = 0; i < n.queries; ++i) {
        const std::int64_t kv = h / (n.heads / n.kv_heads);
        const auto at_q = ((b * n.queries + i) * n.heads + h) * n.size;
        const auto at_k = [&](std::int64_t j) {
          return ((b * n.keys + j) * n.kv_heads + kv) * n.size;
        };
        std::vector<T> weights(static_cast<std::size_t>(n.keys), T(0));
        T sum = 0;
        for (std::int64_t j = 0; j < n.keys; ++j) {
          const std::int64_t back = o.offset + i - j;
          if (causal && (back < 0 || (o.window > 0 && back >= o.window))) continue;
          const std::int64_t row = mask && mask->rank() == 3 ? b * n.queries + i : b;
          if (mask && real((*mask)[row * n.keys + j]) == 0) continue;
          T score = 0;
          for (std::int64_t c = 0; c < n.size; ++c) score += q[at_q + c] * k[at_k(j) + c];
          sum += weights[static_cast<std::size_t>(j)] = std::exp(score * scale);
        }
        if (real(sum) == 0) continue;
        for (std::int64_t j = 0; j < n.keys; ++j) {
          const T weight = weights[static_cast<std::size_t>(j)] / sum *
                           factor(o.dropout, ((b * n.heads + h) * n.queries + i) * n.keys + j);
          for (std::int64_t c = 0; c < n.size; ++c) out[at_q + c] += weight * v[at_k(j) + c];
        }
      }
  return out;
}

// The part of the last axis from `begin` on, `width` wide.
template <class T>
Array<T> part(const Array<T>& x, std::int64_t begin, std::int64_t width) {
  return build<T>(Shape{x.dim(0), x.dim(1), width},
                  [&](const Index& i) { return x(i[0], i[1], begin + i[2]); });
}

// A bool tensor of 0s and 1s: every third key is hidden, and all of those of the last row.
Input mask_of(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const std::int64_t keys = shape[shape.rank() - 1];
    values.push_back(i % 3 != 1 && (i / keys + 1) * keys != shape.size() ? 1 : 0);
  }
  return Input{.shape = shape}.as(DType::boolean).of(values);
}

void add_attention(const std::string& name, Sizes n, AttentionOptions o, int mask_rank = 0,
                   bool axes_apart = false, bool half = false) {
  o.heads = n.heads;
  o.kv_heads = n.kv_heads;
  const Shape q = axes_apart ? Shape{n.batch, n.queries, n.heads, n.size}
                             : Shape{n.batch, n.queries, n.heads * n.size};
  const Shape k = axes_apart ? Shape{n.batch, n.keys, n.kv_heads, n.size}
                             : Shape{n.batch, n.keys, n.kv_heads * n.size};
  const auto f = [](const Shape& shape) { return Input{.shape = shape, .lo = -1.5, .hi = 1.5}; };
  std::vector<Input> inputs = {f(q), f(k), f(k)};
  if (mask_rank == 2) inputs.push_back(mask_of({n.batch, n.keys}));
  if (mask_rank == 3) inputs.push_back(mask_of({n.batch, n.queries, n.keys}));
  add_row({.name = "attention " + name,
           .op = "attention",
           .inputs = inputs,
           .call =
               [=](const Tensors& in) {
                 random::seed(kSeed);
                 return attention(in[0], in[1], in[2], o, mask_rank ? in[3] : Tensor());
               },
           .reference = analytic([=](const auto& in) {
             return attended(n, o, in[0], in[1], in[2], mask_rank ? &in[3] : nullptr);
           }),
           .half = half});
  if (n.queries != n.keys || axes_apart) return;
  const std::int64_t width = n.heads * n.size, kv_width = n.kv_heads * n.size;
  inputs.erase(inputs.begin(), inputs.begin() + 2);
  inputs[0] = f({n.batch, n.queries, width + 2 * kv_width});
  add_row({.name = "attention fused " + name,
           .op = "attention_fused_backward",
           .inputs = inputs,
           .call =
               [=](const Tensors& in) {
                 random::seed(kSeed);
                 return attention(in[0], o, mask_rank ? in[1] : Tensor());
               },
           .reference = analytic([=](const auto& in) {
             return attended(n, o, part(in[0], 0, width), part(in[0], width, kv_width),
                             part(in[0], width + kv_width, kv_width), mask_rank ? &in[1] : nullptr);
           }),
           .half = half});
}

[[maybe_unused]] const bool attentions = [] {
  add_attention("plain", {2, 5, 7, 2, 2, 4}, {});
  add_attention("axes apart", {2, 3, 4, 2, 1, 3}, {.causal = true}, 0, true);
  add_attention("causal", {2, 6, 6, 2, 2, 4}, {.causal = true});
  add_attention("groups", {2, 5, 5, 4, 2, 3}, {.causal = true});
  add_attention("window", {1, 9, 9, 2, 1, 3}, {.window = 3});
  add_attention("offset", {1, 4, 9, 1, 1, 3}, {.causal = true, .offset = 5});
  add_attention("scale", {2, 4, 4, 1, 1, 5}, {.scale = 0.3});
  add_attention("mask", {2, 4, 5, 2, 1, 3}, {}, 2);
  add_attention("mask of queries", {2, 4, 4, 2, 2, 3}, {.causal = true}, 3);
  add_attention("dropout", {4, 5, 5, 2, 1, 4}, {.causal = true, .dropout = 0.25});
  const AttentionOptions much{.window = 4, .scale = 0.4, .dropout = 0.25};
  add_attention("all at once", {2, 7, 7, 4, 2, 4}, much, 3, false, true);
  add_attention("all at once, keys hidden", {2, 5, 7, 4, 2, 3},
                {.window = 4, .offset = 2, .dropout = 0.25}, 2, true, true);
  add_attention("16 bits", {2, 6, 6, 2, 1, 4}, {.causal = true}, 0, false, true);
  add_attention("one of all", {1, 1, 1, 1, 1, 1}, {});
  add_attention("no batch", {0, 3, 3, 2, 2, 4}, {});
  add_attention("no queries", {2, 0, 3, 2, 2, 4}, {});
  add_attention("no keys", {2, 3, 0, 2, 2, 4}, {});
  add_attention("sees nothing", {2, 4, 3, 1, 1, 2}, {.causal = true, .offset = -2});
  add_attention("tiles", {2, 150, 150, 2, 1, 8}, {.causal = true});
  return true;
}();

Tensors attention_backward_of(const Tensors& in) {
  Attention op;
  op.heads = 2;
  op.kv_heads = 1;
  const Tensor* first[] = {&in[0], &in[1], &in[2]};
  const auto [out, levels] = apply_all(op, std::span<const Tensor* const>(first));
  const Tensor* all[] = {&in[0], &in[1], &in[2], &out, &levels, &in[3]};
  const auto d = apply_all(AttentionBackward{op}, std::span<const Tensor* const>(all));
  return {d.begin(), d.end()};
}
OP_ROW("attention_backward", .op = "attention_backward",
       .inputs = {f(2, 4, 6), f(2, 5, 3), f(2, 5, 3), f(2, 4, 6)}, .call = attention_backward_of,
       .no_reference = "the gradient of attention, which has one");
OP_ROW("attention_backward no batch", .op = "attention_backward",
       .inputs = {f(0, 4, 6), f(0, 5, 3), f(0, 5, 3), f(0, 4, 6)}, .call = attention_backward_of,
       .no_reference = "the gradient of attention, which has one");

Tensor attend(const Tensors& in, AttentionOptions o = {}) {
  return attention(in[0], in[1], in[2], o, in.size() > 3 ? in[3] : Tensor());
}
OP_ROW(
    "attention heads do not divide", .op = "attention",
    .inputs = {f(2, 4, 7), f(2, 4, 7), f(2, 4, 7)},
    .call = [](const Tensors& in) { return attend(in, {.heads = 2}); },
    .refused = "attention: q is f32(2, 4, 7), expected (batch, positions, 2 heads * size)");
OP_ROW(
    "attention groups are uneven", .op = "attention",
    .inputs = {f(2, 4, 9), f(2, 4, 6), f(2, 4, 6)},
    .call = [](const Tensors& in) { return attend(in, {.heads = 3, .kv_heads = 2}); },
    .refused = "attention: 3 heads do not share 2 key heads evenly");
OP_ROW(
    "attention keys of another size", .op = "attention",
    .inputs = {f(2, 4, 8), f(2, 4, 6), f(2, 4, 6)},
    .call = [](const Tensors& in) { return attend(in, {.heads = 2}); },
    .refused = "attention: q f32(2, 4, 8) and k f32(2, 4, 6) differ in batch or size of a head");
OP_ROW(
    "attention keys and values differ", .op = "attention",
    .inputs = {f(2, 4, 8), f(2, 5, 8), f(2, 4, 8)},
    .call = [](const Tensors& in) { return attend(in, {.heads = 2}); },
    .refused = "attention: k f32(2, 5, 8) and v f32(2, 4, 8) differ");
OP_ROW(
    "attention mask of another shape", .op = "attention",
    .inputs = {f(2, 4, 8), f(2, 5, 8), f(2, 5, 8), bools({2, 4})},
    .call = [](const Tensors& in) { return attend(in, {.heads = 2}); },
    .refused = "attention: the mask is bool(2, 4), expected bool(2, 5) or bool(2, 4, 5)");
OP_ROW(
    "attention dropout of everything", .op = "attention",
    .inputs = {f(2, 4, 8), f(2, 5, 8), f(2, 5, 8)},
    .call = [](const Tensors& in) { return attend(in, {.dropout = 1}); },
    .refused = "attention: the dropout is 1, expected at least 0 and below 1");
OP_ROW(
    "attention of integers", .op = "attention",
    .inputs = {ids({2, 4, 8}, 4), ids({2, 4, 8}, 4), ids({2, 4, 8}, 4)},
    .call = [](const Tensors& in) { return attend(in); },
    .refused = "attention: i64(2, 4, 8) is not a floating type; cast it first");

// ---- rotary ----

void add_rotary(const std::string& name, const Shape& shape, RotaryOptions o, std::int64_t heads,
                std::int64_t size, bool half = false) {
  add_row({.name = "rotary " + name,
           .op = "rotary",
           .inputs = {Input{.shape = shape}},
           .call = [=](const Tensors& in) { return rotary(in[0], o); },
           .reference = analytic([=](const auto& in) {
             auto y = in[0];
             const std::int64_t rows = shape[0] * shape[1], width = rows ? y.size() / rows : 0;
             for (std::int64_t r = 0; r < rows; ++r)
               for (std::int64_t h = 0; h < heads; ++h)
                 for (std::int64_t i = 0; i < size / 2; ++i) {
                   const double angle =
                       static_cast<double>(o.offset + r % shape[1]) *
                       std::pow(o.base, -2.0 * static_cast<double>(i) / static_cast<double>(size));
                   const std::int64_t a = r * width + h * size + i, b = a + size / 2;
                   y[a] = in[0][a] * std::cos(angle) - in[0][b] * std::sin(angle);
                   y[b] = in[0][b] * std::cos(angle) + in[0][a] * std::sin(angle);
                 }
             return y;
           }),
           .half = half});
}

[[maybe_unused]] const bool rotaries = [] {
  add_rotary("heads", {2, 5, 12}, {.heads = 2}, 2, 6, true);
  add_rotary("axes apart", {2, 3, 2, 4}, {}, 2, 4);
  add_rotary("axes apart, the first heads", {2, 3, 4, 2}, {.heads = 3}, 3, 2);
  add_rotary("of one size", {2, 3, 12}, {.size = 4}, 3, 4);
  add_rotary("part of a row", {2, 3, 14}, {.heads = 2, .size = 4}, 2, 4, true);
  add_rotary("base and offset", {1, 4, 8}, {.heads = 1, .base = 100, .offset = 62}, 1, 8);
  add_rotary("no positions", {2, 0, 8}, {.heads = 2}, 2, 4);
  add_rotary("threads", {3, 130, 64}, {.heads = 2}, 2, 32);
  return true;
}();
OP_ROW(
    "rotary odd size", .op = "rotary", .inputs = {f(2, 3, 6)},
    .call = [](const Tensors& in) { return rotary(in[0], {.heads = 2}); },
    .refused = "rotary: the size of a head is 3, expected an even number");
OP_ROW(
    "rotary heads do not divide", .op = "rotary", .inputs = {f(2, 3, 14)},
    .call = [](const Tensors& in) { return rotary(in[0], {.heads = 4}); },
    .refused = "rotary: a width of 14 in f32(2, 3, 14) does not divide into 4 heads");
OP_ROW(
    "rotary size does not divide", .op = "rotary", .inputs = {f(2, 3, 14)},
    .call = [](const Tensors& in) { return rotary(in[0], {.size = 4}); },
    .refused = "rotary: a width of 14 in f32(2, 3, 14) does not divide into heads of size 4");
OP_ROW(
    "rotary more heads than there are", .op = "rotary", .inputs = {f(2, 3, 2, 4)},
    .call = [](const Tensors& in) { return rotary(in[0], {.heads = 3}); },
    .refused = "rotary: 3 heads of size 4 do not fit f32(2, 3, 2, 4)");
OP_ROW(
    "rotary heads of another size", .op = "rotary", .inputs = {f(2, 3, 2, 8)},
    .call = [](const Tensors& in) { return rotary(in[0], {.size = 4}); },
    .refused = "rotary: the heads of f32(2, 3, 2, 8) are of size 8, not 4");
OP_ROW(
    "rotary two axes", .op = "rotary", .inputs = {f(2, 6)},
    .call = [](const Tensors& in) { return rotary(in[0]); },
    .refused = "rotary: f32(2, 6) is not (batch, positions, heads * size)");

}  // namespace
}  // namespace ebb::table
