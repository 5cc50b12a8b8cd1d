// Attention and rotary positions. The matrix of queries × keys is never built: kept for the way
// back are the inputs, the result and two numbers a row; the weights are computed again from them.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb {

struct AttentionOptions {
  std::int64_t heads = 1;     // where the shape does not tell
  std::int64_t kv_heads = 0;  // 0: as many as heads; else a divisor of them
  bool causal = false;        // query i sees keys up to offset + i
  std::int64_t window = 0;    // 0: all; else only the last so many of those, and causal
  std::int64_t offset = 0;    // the first query's place among the keys
  double scale = 0;           // 0: 1 / sqrt(size of a head)
  double dropout = 0;         // of the weights, as this thread's random state says
};

struct RotaryOptions {
  std::int64_t heads = 0;  // to be turned: the first ones of a position; 0: all that are there
  std::int64_t size = 0;   // of a head, where the shape does not tell; 0: the last axis over heads
  double base = 10000;
  std::int64_t offset = 0;  // the first position
};

}  // namespace ebb

namespace ebb::ops {

// What the ops below share. Their first inputs are q, k and v or, `fused`, one qkv; their last
// ones, where there are any, the mask and the key of the draws (ops/random.hpp).
struct AttentionAttributes {
  std::int64_t heads = 1, kv_heads = 1, window = 0, offset = 0;
  double scale = 0;
  float dropout = 0;
  bool causal = false, fused = false, masked = false;
  std::uint64_t stream = 0;
  bool operator==(const AttentionAttributes&) const = default;

  std::size_t parts() const { return fused ? 1 : 3; }
  std::size_t extras() const { return (masked ? 1u : 0u) + (dropout > 0 ? 1u : 0u); }
  // Where all inputs carry the batch; the key, which knows the rows, may count as doing so or not.
  BatchRule rule_of(const BatchInputs& batch) const;
};

struct Attention : AttentionAttributes {  // q, k, v | qkv → out, levels: (batch, heads, T, 2)
  static constexpr auto name = "attention";
  bool operator==(const Attention&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out out, Out levels, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const { return rule_of(batch); }
};

// The ways back take out, levels and the gradient of out after the first inputs. Their own gradient
// counts out and levels as what the first inputs make of them; it is made of simple ops, and does
// build the matrix.
struct AttentionBackward : AttentionAttributes {  // → dq, dk, dv
  static constexpr auto name = "attention_backward";
  bool operator==(const AttentionBackward&) const = default;
  std::array<Spec, 3> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out dq, Out dk, Out dv, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const { return rule_of(batch); }
};

struct AttentionFusedBackward : AttentionAttributes {  // → dqkv
  static constexpr auto name = "attention_fused_backward";
  bool operator==(const AttentionFusedBackward&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out dqkv, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const { return rule_of(batch); }
};

struct Rotary {  // x (batch, positions, …)
  static constexpr auto name = "rotary";
  std::int64_t heads = 1, size = 0, offset = 0;
  double base = 10000;
  bool back = false;  // by the negative angle
  bool operator==(const Rotary&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1) | rule::linear(batch, 0b1);
  }
  std::uint32_t overwrites(int) const { return 0b1; }
};

}  // namespace ebb::ops

namespace ebb {

// softmax(scale · q kᵀ) v, head by head: of q (batch, T, heads, d) and k, v (batch, S, kv_heads,
// d), or with the last two axes as one. kv_heads may be fewer than heads: neighbours share one. The
// result has q's shape. `mask` (bool): which keys count, (batch, S) or (batch, T, S); what a query
// does not see has no part in its result or gradient, though it be NaN. A query that sees no key
// gives zeros.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {},
                 const Tensor& mask = {});

// The same of qkv (batch, T, (heads + 2 kv_heads) * d): at each position its queries, keys and
// values, as one projection makes them. Gives (batch, T, heads * d).
Tensor attention(const Tensor& qkv, AttentionOptions options = {}, const Tensor& mask = {});

// Turns elements i and i + d/2 of each head by the angle position * base^(-2i/d). x is (batch, T,
// heads * d) or (batch, T, heads, d). Of a qkv, queries and keys are turned in one go with
// {.heads = heads + kv_heads, .size = d}; the rest stays as it is.
Tensor rotary(const Tensor& x, RotaryOptions options = {});

}  // namespace ebb
