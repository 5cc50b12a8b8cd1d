// 3×3 windows one place apart by Winograd's algorithm F(4×4, 3×3): a tile of 6×6 pixels and a
// filter, each evaluated at six points in either direction, give 36 products for 4×4 outputs, where
// the plain sum takes 144. Exact in real numbers; in floating point rounded in other places: errors
// are about twice those of the plain sum.
//
// Points 0, ±3/4, ±3/2, ∞: of symmetric sets whose powers are exact in f32 the one with the
// smallest errors; with the textbook's 0, ±1, ±2, ∞ they are 2.5 times as large.
//
// The gradient of the filters goes the same way: gradients of 4×4 outputs and the tile, both at the
// points, give products that are summed over tiles there, and brought back to 3×3.
//
// Bits: an output is a fixed sequence of operations on what its tile sees, and tiles are counted
// from the image's first row and column; a filter's gradient is a chain over images, and in an
// image over runs of tiles that depend on its size alone. So results do not depend on threads,
// vector width or the other images, nor a gradient on how the batch is cut.
#pragma once

#include <cstddef>
#include <span>

#include "ebb/base/round.hpp"
#include "ebb/kernels/conv_correlate.hpp"

namespace ebb::kernels::conv {

// Multiply-adds, and all that is done besides in their place.
struct WinogradWork {
  double image, call;  // of each image, and once
  static WinogradWork forward(const Correlation& c);
  static WinogradWork weight_grad(const Correlation& c);
  // Less than the plain sum's, and enough less. Never a question of the number of images, on which
  // no bits may depend: it asks about eight.
  static bool pays(const WinogradWork& work, const Correlation& c);
};

// Whether a correlation is of this kind and gains by it.
bool by_winograd(const Correlation& c);

template <class T>
void winograd(const Correlation& c, const CorrelationWeights& at, const T* src, const T* w,
              const T* bias, T* dst, std::span<std::byte> scratch);

template <class T>
std::size_t winograd_scratch_bytes(const Correlation& c);

// The gradient by the weight of the forward correlation `c`, which lies as (dst channels, 3, 3, src
// channels).
template <class T>
void winograd_weight_grad(const Correlation& c, const T* src, const T* ddst, T* dw, bool accumulate,
                          std::span<std::byte> scratch);

template <class T>
std::size_t winograd_weight_grad_scratch_bytes(const Correlation& c);

// Tiles of 4×4 outputs that cover an image.
struct WinogradTiles {
  static constexpr std::size_t kSide = 4, kPoints = 36;
  std::size_t down, across;

  explicit WinogradTiles(const Correlation& c)
      : down(ceil_div(c.dst_h, kSide)), across(ceil_div(c.dst_w, kSide)) {}
  std::size_t count() const { return down * across; }  // of an image

  struct Place {
    std::size_t image, row, col;  // of the tile's first output
  };
  Place place(std::size_t tile) const {
    const std::size_t in_image = tile % count();
    return {tile / count(), in_image / across * kSide, in_image % across * kSide};
  }

  // The 6×6 pixels a tile sees, `zeros` outside the image.
  template <class T>
  void pixels(const Correlation& c, Place at, const T* src, const T* zeros,
              const T* (&pixel)[kPoints]) const {
    const T* const image = src + at.image * c.src_h * c.src_w * c.src_channels;
    for (std::size_t i = 0; i < kPoints; ++i) {
      // Before the first row or column: a number beyond the last.
      const auto h =
          static_cast<std::size_t>(c.origin_h + static_cast<std::ptrdiff_t>(at.row + i / 6));
      const auto w =
          static_cast<std::size_t>(c.origin_w + static_cast<std::ptrdiff_t>(at.col + i % 6));
      pixel[i] = h < c.src_h && w < c.src_w ? image + (h * c.src_w + w) * c.src_channels : zeros;
    }
  }
};

}  // namespace ebb::kernels::conv
