// Data that needs no download: handwriting-like digits, drawn.
#pragma once

#include <cstdint>

#include "ebb/data/dataset.hpp"

namespace ebb::data {

// "image": 28 by 28 pixels in a row of 784, f32 from 0 to 1 (a byte each while at rest), and
// "label": i32, 0 to 9. Strokes of a pen, each digit turned, slanted, stretched, shifted, with its
// own pen and some noise. Digit i depends on the seed and i alone.
Dataset digits(std::int64_t count, std::uint64_t seed);

}  // namespace ebb::data
