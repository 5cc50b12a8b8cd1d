// The idx format of the MNIST digits and their relatives, read strictly.
#pragma once

#include <string>

#include "ebb/data/dataset.hpp"

namespace ebb::data {

// One idx file: u8, i32, f32 or f64, of the shape that it states.
Tensor load_idx(const std::string& path);

enum class Split { train, test };

// The four unpacked files, as they are published, in one folder: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.
// "image": a row of 784, f32 from 0 to 1 (a byte each while at rest), and "label": i32, 0 to 9.
Dataset mnist(const std::string& folder, Split split = Split::train);

}  // namespace ebb::data
