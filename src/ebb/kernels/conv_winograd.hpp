// 3×3 windows one place apart by Winograd's algorithm F(4×4, 3×3): a tile of 6×6 pixels and a
// filter, each evaluated at six points in either direction, give 36 products for 4×4 outputs, where
// the plain sum takes 144. Exact in real numbers; in floating point rounded in other places: errors
// are about twice those of the plain sum.
//
// Points 0, ±3/4, ±3/2, ∞: of symmetric sets whose powers are exact in f32 the one with the
// smallest errors; with the textbook's 0, ±1, ±2, ∞ they are 2.5 times as large.
//
// Bits: an output is a fixed sequence of operations on what its tile sees, and tiles are counted
// from the image's first row and column. So results do not depend on threads, vector width or the
// other images.
#pragma once

#include <cstddef>
#include <span>

#include "ebb/kernels/conv_correlate.hpp"

namespace ebb::kernels::conv {

// Whether a correlation is of this kind and gains by it: never a question of the number of images.
bool by_winograd(const Correlation& c);

// Multiply-adds of an image; all that is done besides, in their place.
double winograd_work(const Correlation& c);

template <class T>
void winograd(const Correlation& c, const CorrelationWeights& at, const T* src, const T* w,
              const T* bias, T* dst, std::span<std::byte> scratch);

template <class T>
std::size_t winograd_scratch_bytes(const Correlation& c);

}  // namespace ebb::kernels::conv
