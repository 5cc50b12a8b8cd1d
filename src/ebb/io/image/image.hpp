// Pictures: PNG (gray, colours, palettes, with or without transparency, 1 to 16 bits) and the plain PPM
// and PGM (P5, P6), as bytes. 16 bits a sample are rounded to 8.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ebb/tensor/tensor.hpp"

namespace ebb {

struct ImageOptions {
  int channels = 0;  // 1: gray, 3: colours, 4: with transparency; 0: as the file has it
  std::int64_t most_pixels = std::int64_t{1}
                             << 26;  // a larger one is refused before it is unpacked
};

// u8(height, width, channels). What it is is told by its first bytes, not by its name.
Tensor load_image(const std::string& path, ImageOptions options = {});
Spec image_spec(const std::string& path, ImageOptions options = {});  // from its header alone

// The same into memory of the caller: as many bytes as the spec says, which it has to be.
void load_image(const std::string& path, ImageOptions options, const Spec& expected,
                std::span<std::byte> to);

}  // namespace ebb
