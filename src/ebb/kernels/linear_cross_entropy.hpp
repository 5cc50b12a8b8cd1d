// Cross-entropy of softmax(x · weightᵀ) and a label for each row, in tiles: the logits never stand
// as a whole. T is float or double; with float, x and the weight may be 16 bits, which the products
// widen as they read them.
//
// The way back keeps the logits of some rows, all classes of them, where the scratch holds enough
// rows for the products to be quick: three products. With less scratch it makes every logit twice,
// once for the sum of the row's exponentials and once for its gradient: four products.
//
// Bits: they do not depend on the tiles. A row's exponentials are summed in blocks of kLinearBlock
// classes, each with its own maximum, in the canonical order of a row; the blocks follow one
// another. dx is one chain over the classes, dweight one over the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/kernels/gemm.hpp"
#include "ebb/kernels/loss.hpp"

namespace ebb::kernels {

inline constexpr std::size_t kLinearBlock = 512;

struct LinearShape {
  std::size_t rows = 0, classes = 0, width = 0;  // x (rows, width), weight (classes, width)
  std::size_t element = 4;                       // bytes of T
  bool backward = false;
  Storage x = Storage::f32, weight = Storage::f32;  // of floats; doubles are f64
};

// Rows and classes of a tile. `keep`: the tiles of all classes are held at once.
struct LinearTiles {
  std::size_t rows = 0, classes = 0;
  bool keep = false;
  bool operator==(const LinearTiles&) const = default;
};

// The quickest tiles in so much scratch, and the scratch that tiles need: functions of sizes and
// pool::threads() only.
LinearTiles linear_tiles(const LinearShape& shape, std::size_t scratch);
std::size_t linear_scratch(const LinearShape& shape, const LinearTiles& tiles);
// Time of a product in such tiles, beside one as a whole.
double linear_slowness(const LinearTiles& tiles);

// Adds the loss to *sum and the number of rows that were not ignored to *count. Labels are in
// range (first_bad_label). Tiles are those of the scratch's size.
template <class T, class Label>
void linear_cross_entropy(const LinearShape& shape, const void* x, const void* weight,
                          const Label* labels, const SparseTargets& targets, T* sum,
                          std::int64_t* count, std::span<std::byte> scratch);

// The gradients of the sum, times upstream; and sum and count as above. dweight is added to what
// is there, or with `from_zero` written; null: it is not made.
template <class T>
struct LinearGradients {
  T upstream;
  T* dx;
  T* dweight;
  bool from_zero;
  T* row_sums = nullptr;  // (rows, 2), where given: what linear_cross_entropy_dweight goes on from
};
template <class T, class Label>
void linear_cross_entropy_backward(const LinearShape& shape, const void* x, const void* weight,
                                   const Label* labels, const SparseTargets& targets,
                                   const LinearGradients<T>& gradients, T* sum, std::int64_t* count,
                                   std::span<std::byte> scratch);

// dweight of some classes alone, in the bits it has above. shape.classes and `weight` are those
// classes; `first` is their first one, of `all`. Logits are made once more.
template <class T>
struct LinearDweight {
  T upstream;
  const T* row_sums;
  T* dweight;
  bool from_zero;
  std::size_t first, all;
};
std::size_t linear_dweight_scratch(const LinearShape& shape);
template <class T, class Label>
void linear_cross_entropy_dweight(const LinearShape& shape, const void* x, const void* weight,
                                  const Label* labels, const SparseTargets& targets,
                                  const LinearDweight<T>& gradient, std::span<std::byte> scratch);

}  // namespace ebb::kernels
