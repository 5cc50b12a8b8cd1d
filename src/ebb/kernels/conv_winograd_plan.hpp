// How Winograd's algorithm is cut, and where its scratch lies. For the files of the kernel.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/conv_winograd.hpp"

namespace ebb::kernels::conv {

inline constexpr std::size_t kPoints = WinogradTiles::kPoints, kSide = WinogradTiles::kSide;

// ---- the correlation ----

inline constexpr std::size_t kTilesAtATime = 48;
inline constexpr std::size_t kPointsBytes =
    1 << 20;                                     // of a block of tiles at its points, or this part
inline constexpr std::size_t kFilterParts = 16;  // of the filters, all of which a block reads
inline constexpr std::size_t kRows = 6;          // of a register tile
inline constexpr std::size_t kPanelsAtATime = 4;
inline constexpr std::size_t kPanelBytes = 128;  // the widest: two vectors of 64 bytes
inline constexpr std::size_t kChain = 256;       // of a sum over channels, at a stretch

// Scratch: the filters at their points, a pixel of zeros; then for each thread a block of tiles at
// their points, and the products of some panels.
struct WinogradPlan {
  Correlation c;
  WinogradTiles of_image;
  std::size_t block;        // tiles at a time
  std::size_t width;        // of a source pixel, whole cache lines
  std::size_t point, made;  // elements from one point to the next: of tiles, of products
  std::size_t filter_bytes, zero_bytes, point_bytes, thread_bytes, total_bytes;

  std::size_t tiles() const { return c.images * of_image.count(); }
};

inline WinogradPlan plan_winograd(const Correlation& c, std::size_t element_bytes) {
  WinogradPlan p{.c = c, .of_image = WinogradTiles(c)};
  const std::size_t line = 64 / element_bytes, panel = kPanelBytes / element_bytes;
  p.width = round_up(c.src_channels, line);
  p.filter_bytes = kPoints * c.src_channels * round_up(c.dst_channels, panel) * element_bytes;
  const std::size_t fit =
      std::max(kPointsBytes, p.filter_bytes / kFilterParts) / (kPoints * p.width * element_bytes);
  const std::size_t most = std::max<std::size_t>(1, std::min(fit, kTilesAtATime) / kRows) * kRows;
  const auto threads = static_cast<std::size_t>(pool::threads());
  const std::size_t each = ceil_div(p.tiles(), threads * most);  // blocks a thread
  p.block = round_up(ceil_div(p.tiles(), threads * each), kRows);
  // A line more than the tiles take: 36 of them side by side must not meet in one set of the cache.
  p.point = p.block * p.width + line;
  p.made = p.block * kPanelsAtATime * panel + line;
  p.zero_bytes = p.width * element_bytes;
  p.point_bytes = kPoints * p.point * element_bytes;
  p.thread_bytes = p.point_bytes + kPoints * p.made * element_bytes;
  p.total_bytes = p.filter_bytes + p.zero_bytes + threads * p.thread_bytes;
  return p;
}

// ---- the gradient by the weight ----

inline constexpr std::size_t kMostTiles = 64;         // of a run, which is brought back as one
inline constexpr std::size_t kGroupBytes = 3 << 20;   // of runs at their points, at a time
inline constexpr std::size_t kOuts = 24, kLines = 2;  // of a block of products: rows, cache lines
inline constexpr std::size_t kSlack = 128;  // a register tile may read beyond the last pixel

// Scratch: a pixel of zeros; a group of runs at their points, tiles and gradients; then for each
// thread a block of products.
struct WinogradGradPlan {
  Correlation c;
  WinogradTiles of_image;
  std::size_t run, runs;             // tiles of a run, runs of an image
  std::size_t group;                 // runs at a time
  std::size_t src_width, dst_width;  // of pixels, whole cache lines
  std::size_t src_point, dst_point;  // elements from one point to the next
  std::size_t block, made;           // src channels of a block; elements from one point to the next
  std::size_t zero_bytes, src_bytes, dst_bytes, thread_bytes, total_bytes;
};

inline WinogradGradPlan plan_winograd_grad(const Correlation& c, std::size_t element_bytes) {
  WinogradGradPlan p{.c = c, .of_image = WinogradTiles(c)};
  const std::size_t tiles = p.of_image.count(), line = 64 / element_bytes;
  p.runs = ceil_div(tiles, kMostTiles);
  p.run = ceil_div(tiles, p.runs);
  p.src_width = round_up(c.src_channels, line);
  p.dst_width = round_up(c.dst_channels, line);
  // A line more than the tiles take: 36 of them side by side must not meet in one set of the cache.
  p.src_point = p.run * p.src_width + line;
  p.dst_point = p.run * p.dst_width + line;
  const std::size_t run_bytes = kPoints * (p.src_point + p.dst_point) * element_bytes;
  p.group = std::clamp<std::size_t>(kGroupBytes / run_bytes, 1, c.images * p.runs);
  p.block = kLines * line;
  p.made = kOuts * p.block + line;
  p.zero_bytes = std::max(p.src_width, p.dst_width) * element_bytes;
  p.src_bytes = p.group * kPoints * p.src_point * element_bytes + kSlack;
  p.dst_bytes = p.group * kPoints * p.dst_point * element_bytes;
  p.thread_bytes = kPoints * p.made * element_bytes;
  p.total_bytes = p.zero_bytes + p.src_bytes + p.dst_bytes +
                  static_cast<std::size_t>(pool::threads()) * p.thread_bytes;
  return p;
}

}  // namespace ebb::kernels::conv
