// The matrix product: C = activation(C0 + op(A) · op(B) + bias), row-major, on all threads.
//
// Bits: each element of C is one chain of fused multiply-adds over k, from C0 (zero, or with
// `accumulate` what C holds), so a sum over k may be cut into any number of calls. Bias and
// activation follow as steps of their own, rounded each: fused or apart, the bits are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/base/math_functions.hpp"

namespace ebb::kernels {

enum class Storage : std::uint8_t { f32, f64, bf16, f16 };
using ebb::Activation;

// A matrix as it lies in memory: rows of `ld` elements, read as its transpose if so marked.
struct Operand {
  const void* data = nullptr;
  Storage type = Storage::f32;
  std::size_t ld = 0;
  bool transposed = false;
};

struct Gemm {
  std::size_t m = 0, n = 0, k = 0;
  Operand a;          // (m, k), or (k, m) transposed
  Operand b;          // (k, n), or (n, k) transposed
  void* c = nullptr;  // (m, n)
  std::size_t ldc = 0;
  Storage c_type = Storage::f32;  // f32: a and b are f32, bf16 or f16; f64: both are f64
  bool accumulate = false;        // C0 is what c holds, not zero
  const void* bias = nullptr;     // (n), of c's type, or none
  Activation activation = Activation::none;
  void* pre = nullptr;  // (m, n) with ldc: the value before the activation, or none
};

// Bytes of scratch, to be 64-byte aligned, that gemm needs: a function of sizes, types, transposes
// and pool::threads(), never of values or addresses. At most 4 MiB and 400 KiB a thread.
std::size_t gemm_scratch(const Gemm& product);
void gemm(const Gemm& product, std::span<std::byte> scratch);

// `count` products of one shape; consecutive ones are this many elements apart (0: all use one).
// Products must not share elements of c.
struct GemmBatch {
  Gemm first;
  std::size_t count = 1;
  std::size_t a_stride = 0, b_stride = 0, c_stride = 0;
};

std::size_t gemm_scratch(const GemmBatch& batch);
void gemm(const GemmBatch& batch, std::span<std::byte> scratch);

}  // namespace ebb::kernels
