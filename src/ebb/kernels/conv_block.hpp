// How a grid of output places (images × rows × columns) is cut into blocks small enough to stay in
// cache. A block is always a run of consecutive places: some whole images, some whole rows of one
// image, or a piece of one row; blocks follow each other in the order of the places.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ebb/base/round.hpp"

namespace ebb::kernels::conv {

struct ConvBlock {
  std::size_t image, images, row, rows, col, cols;
  std::size_t places() const { return images * rows * cols; }
  bool same_size(const ConvBlock& b) const {
    return images == b.images && rows == b.rows && cols == b.cols;
  }
};

struct ConvBlocks {
  std::size_t images, rows, cols;                    // of the grid
  std::size_t block_images, block_rows, block_cols;  // of a full block

  static ConvBlocks cut(std::size_t images, std::size_t rows, std::size_t cols,
                        std::size_t most_places) {
    const std::size_t most = std::max<std::size_t>(most_places, 1);
    ConvBlocks b{images, rows, cols, 1, 1, std::max<std::size_t>(1, std::min(cols, most))};
    if (b.block_cols == cols && cols != 0 && rows != 0) {
      b.block_rows = even(rows, most / cols);
      if (b.block_rows == rows) b.block_images = even(images, most / (rows * cols));
    } else {
      b.block_cols = even(cols, most);
    }
    return b;
  }

  std::size_t places() const { return block_images * block_rows * block_cols; }
  std::size_t count() const { return ceil_div(images, block_images) * per_image(); }

  ConvBlock at(std::size_t index) const {
    const std::size_t down = ceil_div(rows, block_rows), across = ceil_div(cols, block_cols);
    ConvBlock b{};
    b.image = index / (down * across) * block_images;
    b.row = index / across % down * block_rows;
    b.col = index % across * block_cols;
    b.images = std::min(block_images, images - b.image);
    b.rows = std::min(block_rows, rows - b.row);
    b.cols = std::min(block_cols, cols - b.col);
    return b;
  }

 private:
  std::size_t per_image() const { return ceil_div(rows, block_rows) * ceil_div(cols, block_cols); }
  // The size of equal parts of `whole`, each at most `most`.
  static std::size_t even(std::size_t whole, std::size_t most) {
    const std::size_t part = std::clamp<std::size_t>(most, 1, std::max<std::size_t>(whole, 1));
    return std::max<std::size_t>(1,
                                 ceil_div(whole, std::max<std::size_t>(1, ceil_div(whole, part))));
  }
};

// The part of an image that a block's windows see, copied with its zero border.
struct ConvPatch {
  std::size_t h, w;  // of one image's patch

  // Extent along one axis: `places` windows `stride` apart, each of `taps` taps `step` apart.
  static std::size_t extent(std::size_t places, std::size_t stride, std::size_t taps,
                            std::size_t step) {
    return places == 0 || taps == 0 ? 0 : (places - 1) * stride + (taps - 1) * step + 1;
  }
};

}  // namespace ebb::kernels::conv
