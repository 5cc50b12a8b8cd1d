// The idx format of the MNIST digits and their relatives, read strictly.
#pragma once

#include <string>

#include "ebb/data/dataset.hpp"

namespace ebb::data {

// One idx file: u8, i32, f32 or f64, of the shape that it states.
Tensor load_idx(const std::string& path);
Source idx_rows(const std::string& path);  // the same, by rows that stay in the file

enum class Split { train, test };

struct MnistOptions {
  bool in_memory = true;  // false: images stay in their file, and a batch reads its own
};

// The four unpacked files, as they are published, in one folder: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.
// "image": a row of 784, f32 from 0 to 1 (a byte each while at rest), and "label": i32, 0 to 9
// (a byte each, too).
Dataset mnist(const std::string& folder, Split split = Split::train, MnistOptions options = {});

}  // namespace ebb::data
