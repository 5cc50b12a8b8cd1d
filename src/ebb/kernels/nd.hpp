// Broadcasting as a walk over rows.
//
// Tensors are contiguous, so after collapsing, the innermost dimension of every operand has a step
// of 1 (it moves with the output) or 0 (it stands still): a row is a plain loop over two kinds of
// operands. (R, C) + (C) is R rows of C; (R, C) + (R, 1) is R rows with a scalar; equal shapes are
// one row of everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb::kernels {

inline constexpr int kMaxDims = 8;

// A contiguous output and K operands that broadcast to it. Steps are in elements.
template <int K>
struct Broadcast {
  int rank = 1;  // at least 1; dimensions of size 1 are dropped, those that move alike are merged
  std::size_t size = 0;
  std::size_t dim[kMaxDims] = {};
  std::size_t step[K][kMaxDims] = {};
};

// The walk for K operands of the same shape as the output: one row.
template <int K>
Broadcast<K> same_shape(std::size_t size) {
  Broadcast<K> walk;
  walk.size = walk.dim[0] = size;
  for (int k = 0; k < K; ++k) walk.step[k][0] = 1;
  return walk;
}

// The walk for operands that broadcast to `out` (aligned at the last axis; sizes equal or 1).
template <int K>
Broadcast<K> broadcast(std::span<const std::int64_t> out,
                       const std::span<const std::int64_t> (&in)[K]) {
  Broadcast<K> walk;
  walk.size = 1;
  for (std::int64_t n : out) walk.size *= static_cast<std::size_t>(n);
  if (walk.size == 0) return same_shape<K>(0);

  // From the last axis to the first; dims are collected innermost first, then turned round.
  std::size_t running[K];
  for (int k = 0; k < K; ++k) running[k] = 1;
  Broadcast<K> reversed;
  int rank = 0;
  for (std::size_t back = 1; back <= out.size(); ++back) {
    const auto n = static_cast<std::size_t>(out[out.size() - back]);
    if (n == 1) continue;
    std::size_t step[K];
    bool merges = rank > 0;
    for (int k = 0; k < K; ++k) {
      const bool moves = back <= in[k].size() && in[k][in[k].size() - back] != 1;
      step[k] = moves ? running[k] : 0;
      if (moves) running[k] *= n;
      if (merges) merges = step[k] == reversed.step[k][rank - 1] * reversed.dim[rank - 1];
    }
    if (merges) {
      reversed.dim[rank - 1] *= n;
    } else {
      reversed.dim[rank] = n;
      for (int k = 0; k < K; ++k) reversed.step[k][rank] = step[k];
      ++rank;
    }
  }
  if (rank == 0) return same_shape<K>(1);
  walk.rank = rank;
  for (int r = 0; r < rank; ++r) {
    walk.dim[r] = reversed.dim[rank - 1 - r];
    for (int k = 0; k < K; ++k) walk.step[k][r] = reversed.step[k][rank - 1 - r];
  }
  return walk;
}

// Calls row(output offset, count, offsets of the operands) for the pieces of rows that make up
// output elements [begin, end), in order.
template <int K, class Row>
void for_each_row(const Broadcast<K>& walk, std::size_t begin, std::size_t end, Row&& row) {
  if (begin >= end) return;
  const int last = walk.rank - 1;
  const std::size_t width = walk.dim[last];
  std::size_t index[kMaxDims] = {}, offset[K] = {};
  std::size_t rest = begin;
  for (int r = last; r >= 0; --r) {
    index[r] = rest % walk.dim[r];
    rest /= walk.dim[r];
    for (int k = 0; k < K; ++k) offset[k] += index[r] * walk.step[k][r];
  }
  for (std::size_t at = begin;;) {
    std::size_t count = width - index[last];
    if (count > end - at) count = end - at;
    row(at, count, offset);
    at += count;
    if (at >= end) return;
    for (int k = 0; k < K; ++k) offset[k] -= index[last] * walk.step[k][last];
    index[last] = 0;
    for (int r = last - 1; r >= 0; --r) {
      ++index[r];
      for (int k = 0; k < K; ++k) offset[k] += walk.step[k][r];
      if (index[r] < walk.dim[r]) break;
      for (int k = 0; k < K; ++k) offset[k] -= index[r] * walk.step[k][r];
      index[r] = 0;
    }
  }
}

}  // namespace ebb::kernels
