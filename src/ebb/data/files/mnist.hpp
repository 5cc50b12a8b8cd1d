// The MNIST digits and their relatives, in the files in which they are published.
#pragma once

#include <string>

#include "ebb/data/dataset.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/io/array/idx.hpp"

namespace ebb::data {

using ebb::load_idx;

enum class Split { train, test };

struct MnistOptions {
  bool in_memory = true;   // false: images stay in their file, and a batch reads its own
  std::string cache = {};  // where a .gz is unpacked for that; none: cache_folder()
};

// The four files, as they are published (.gz) or unpacked, in one folder: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.
// "image": a row of 784, f32 from 0 to 1 (a byte each while at rest), and "label": i32, 0 to 9
// (a byte each, too).
Dataset mnist(const std::string& folder, Split split = Split::train, MnistOptions options = {});

}  // namespace ebb::data
