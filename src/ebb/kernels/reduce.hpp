// Reductions over any set of axes of a contiguous array.
//
// The order of a floating-point reduction is fixed by the shape and the axes alone:
// - The last axis is kept: every output element is one chain over the reduced elements in row-major
//   order. With `accumulate` the chain starts from what the output holds, so that rows may come in
//   parts of any size.
// - The last axis is reduced: the reduced axes at the end (without axis 0, unless there is no
//   other) are one contiguous run. A run is cut into blocks of 4096; in a block element i belongs to
//   virtual lane i % 16, each lane a chain, then lane l takes in lane l + 8, then + 4, + 2, + 1; the
//   blocks of a run are chained; then runs are, from the output's value with `accumulate`.
//
// So a sum over the first axis, with or without others, may be cut between rows at will.
//
// Element types: float, double; bf16 and f16, reduced in f32; int32_t and int64_t for sum, prod,
// max and min (they wrap). NaN wins in max and min; argmax gives the first NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/base/math_functions.hpp"
#include "ebb/kernels/nd.hpp"

namespace ebb::kernels {

using math::Reduce;

// The loops of a reduction: the innermost contiguous stretch, and what is around it.
struct Reduction {
  struct Loops {
    int rank = 0;
    std::size_t dim[kMaxDims] = {}, step[kMaxDims] = {};
    std::size_t size() const;
    std::size_t offset(std::size_t index) const;  // of the index'th combination, row-major
    void append(std::size_t n, std::size_t step);
  };
  bool inner_reduced = true;  // the innermost stretch is a run to reduce; else elements to keep
  std::size_t inner = 1;      // its length
  Loops kept, reduced;        // outside it
  std::size_t outputs = 1;    // elements of the result
  std::size_t count = 1;      // elements that make up one of them
};

// Bit i of `axes`: axis i is reduced.
Reduction reduction(std::span<const std::int64_t> shape, std::uint32_t axes);

struct ReduceOptions {
  bool accumulate = false;  // sum only
  double correction = 0;    // var: divide by count - correction
};

// Nothing to reduce (count 0) gives 0 for sum, 1 for prod, -inf for logsumexp and NaN for mean and
// var; max and min need at least one element.
template <class T>
void reduce(Reduce op, const Reduction& r, const T* x, T* y, ReduceOptions options = {});

// The place of the largest element among the reduced ones, counted in row-major order; the first of
// equals.
template <class T>
void argmax(const Reduction& r, const T* x, std::int64_t* y);

// Running sums along the middle of (outer, n, inner), from the front or, reversed, from the back.
template <class T>
void cumsum(const T* x, T* y, std::size_t outer, std::size_t n, std::size_t inner, bool reverse);

}  // namespace ebb::kernels
