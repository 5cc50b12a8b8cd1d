// Attention: out = softmax(scale · q kᵀ, over the keys a query sees) · v, on all threads, in tiles.
// The matrix of queries × keys never exists: the way forward keeps two numbers a row, the way back
// computes the weights again from them.
//
//   forward    for each tile of queries, key tile after key tile: scores, a running maximum and
//              sum, out rescaled when the maximum moves
//   backward   for each tile of keys, query tile after query tile: dv += pᵀ do, dk += dsᵀ q,
//              dq += ds k
//
// Scores are exponents of 2. A row's weights are measured from its largest one, 2^(s - top) / sum:
// s - top has lost nothing of the scores' own digits. (One number for both, top + log2(sum), has its
// last digit where top has: at scores of 1e7 the weights would be off by factors.)
//
// What a query does not see counts for nothing, though it be NaN or infinite: no 0 · NaN comes into
// out or a gradient.
//
// Bits: forward, a row's sums go over tiles of kAttentionKeys keys, counted from key 0, on every
// machine. Backward, each element of dq is one chain over keys, each of dk and dv one chain over
// the heads of a group and their queries, in order: how the work is cut shows nowhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/base/rng.hpp"

namespace ebb::kernels {

inline constexpr std::size_t kAttentionKeys = 128;  // after which the running maximum is looked at

// q, out (batch, queries, heads, size) and k, v (batch, keys, kv_heads, size). Head h uses key head
// h / (heads / kv_heads). The heads of a position lie side by side; positions are `…_row` elements
// apart, so that q, k and v may be parts of one array. Those of out and its gradient are
// heads * size apart.
struct Attention {
  std::size_t batch = 1, queries = 0, keys = 0, heads = 1, kv_heads = 1, size = 0;
  std::size_t q_row = 0, k_row = 0, v_row = 0;
  double scale = 1;  // above 0

  // Query i stands at position offset + i, key j at j. Causal: it sees keys up to its position;
  // with a window, the last `window` of those.
  bool causal = false;
  std::size_t window = 0;  // 0: all
  std::int64_t offset = 0;
  const bool* mask = nullptr;  // keys that count: (batch, keys), or (batch, queries, keys)
  bool mask_by_query = false;

  // Dropout of the weights as kernels::dropout does it on the whole (batch, heads, queries, keys).
  double dropout = 0;  // below 1
  Draws draws;
};

// Bytes of scratch, to be 64-byte aligned: under 1 MiB a thread for heads of up to 128 floats, and
// backward one number for each row of each head and for each tile of keys.
template <class T>
std::size_t attention_scratch(const Attention& a);
template <class T>
std::size_t attention_backward_scratch(const Attention& a);

// levels (batch, heads, queries, 2): the largest score of a row, and 1 over the sum of its powers
// measured from there; 0 and 0 where a query sees no key, whose out is 0.
template <class T>  // float or double
void attention(const Attention& a, const T* q, const T* k, const T* v, T* out, T* levels,
               std::span<std::byte> scratch);

// dq, dk and dv lie as q, k and v do.
template <class T>
void attention_backward(const Attention& a, const T* q, const T* k, const T* v, const T* out,
                        const T* levels, const T* dout, T* dq, T* dk, T* dv,
                        std::span<std::byte> scratch);

}  // namespace ebb::kernels
