#include "ebb/ops/products.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/half.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/kernels/convert.hpp"

namespace ebb::ops::products {
namespace {

using kernels::Gemm;
using kernels::Storage;

// A piece of a 16-bit result, in f32: large enough that packing B for it does not count.
constexpr std::size_t kPieceRows = 256, kPieceColumns = 2048;

bool is_half(Storage type) { return type == Storage::bf16 || type == Storage::f16; }

// The first piece, which is the largest; its c and bias are still to be set.
Gemm piece_of(const Gemm& g) {
  Gemm piece = g;
  piece.m = std::min(g.m, kPieceRows);
  piece.n = std::min(g.n, kPieceColumns);
  piece.ldc = piece.n;
  piece.c_type = Storage::f32;
  return piece;
}

const void* element(const kernels::Operand& x, std::size_t row, std::size_t column) {
  if (x.transposed) std::swap(row, column);
  const std::size_t size = x.type == Storage::f64 ? 8 : x.type == Storage::f32 ? 4 : 2;
  return static_cast<const std::byte*>(x.data) + (row * x.ld + column) * size;
}

template <class Half>
void narrow(const float* from, const Gemm& piece, Half* to, std::size_t ld) {
  for (std::size_t r = 0; r < piece.m; ++r)
    kernels::convert(from + r * piece.n, to + r * ld, piece.n);
}

template <class Half>
void run_half(const Gemm& g, Scratch scratch) {
  Gemm piece = piece_of(g);
  const std::size_t sums = memory::aligned(piece.m * piece.n * sizeof(float));
  const std::size_t biases = g.bias ? memory::aligned(piece.n * sizeof(float)) : 0;
  const std::size_t pres = g.pre ? sums : 0;
  float* c = reinterpret_cast<float*>(scratch.data());
  float* bias = reinterpret_cast<float*>(scratch.data() + sums);
  float* pre = g.pre ? reinterpret_cast<float*>(scratch.data() + sums + biases) : nullptr;
  const Scratch rest = scratch.subspan(sums + biases + pres);
  for (std::size_t j = 0; j < g.n; j += kPieceColumns) {
    piece.n = std::min(kPieceColumns, g.n - j);
    piece.ldc = piece.n;
    if (g.bias) kernels::convert(static_cast<const Half*>(g.bias) + j, bias, piece.n);
    for (std::size_t i = 0; i < g.m; i += kPieceRows) {
      piece.m = std::min(kPieceRows, g.m - i);
      Half* out = static_cast<Half*>(g.c) + i * g.ldc + j;
      if (g.accumulate) {
        for (std::size_t r = 0; r < piece.m; ++r)
          kernels::convert(static_cast<const Half*>(out + r * g.ldc), c + r * piece.n, piece.n);
      }
      piece.a.data = element(g.a, i, 0);
      piece.b.data = element(g.b, 0, j);
      piece.c = c;
      piece.bias = g.bias ? bias : nullptr;
      piece.pre = pre;
      kernels::gemm(piece, rest);
      narrow(c, piece, out, g.ldc);
      if (pre) narrow(pre, piece, static_cast<Half*>(g.pre) + i * g.ldc + j, g.ldc);
    }
  }
}

}  // namespace

Storage storage(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return Storage::f64;
    case DType::bf16:
      return Storage::bf16;
    case DType::f16:
      return Storage::f16;
    default:
      return Storage::f32;
  }
}

DType result_type(const char* op, const Spec& a, const Spec& b) {
  for (const Spec* x : {&a, &b}) {
    if (!is_float(x->dtype))
      throw Error(fmt::format("{}: {} is not a floating type; cast it first", op, to_string(*x)));
  }
  if (a.dtype == b.dtype) return a.dtype;
  const bool mixed = (a.dtype == DType::f32 && ebb::is_half(b.dtype)) ||
                     (b.dtype == DType::f32 && ebb::is_half(a.dtype));
  if (!mixed) {
    throw Error(
        fmt::format("{}: {} and {} differ in type; cast one", op, to_string(a), to_string(b)));
  }
  return DType::f32;
}

std::size_t scratch(const Gemm& g) {
  if (!is_half(g.c_type)) return kernels::gemm_scratch(g);
  const Gemm piece = piece_of(g);
  // Pieces at an edge are smaller, and may be cut in another way: room for the most any takes.
  std::size_t most = 0;
  for (const std::size_t m : {piece.m, g.m % kPieceRows}) {
    for (const std::size_t n : {piece.n, g.n % kPieceColumns}) {
      Gemm at_edge = piece;
      at_edge.m = m;
      at_edge.n = at_edge.ldc = n;
      most = std::max(most, kernels::gemm_scratch(at_edge));
    }
  }
  return memory::aligned(piece.m * piece.n * sizeof(float)) * (g.pre ? 2 : 1) +
         (g.bias ? memory::aligned(piece.n * sizeof(float)) : 0) + most;
}

void run(const Gemm& g, Scratch scratch) {
  if (g.c_type == Storage::bf16) return run_half<bf16>(g, scratch);
  if (g.c_type == Storage::f16) return run_half<f16>(g, scratch);
  kernels::gemm(g, scratch);
}

}  // namespace ebb::ops::products
