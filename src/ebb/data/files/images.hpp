// Pictures in folders by class: flowers/rose/1.png, flowers/tulip/a.ppm, …
#pragma once

#include <string>
#include <vector>

#include "ebb/data/dataset.hpp"
#include "ebb/data/row_store.hpp"

namespace ebb::data {

struct ImagesOptions {
  int channels = 0;  // 1: gray, 3: colours, 4: with transparency; 0: as the first picture has them
  StoreOptions store = {};
  std::vector<std::string>* notes =
      nullptr;  // is given what the owner of the folder should hear of, a line each
};

struct Images {
  Dataset
      rows;  // "image": f32(height, width, channels), 0 to 1 (a byte each at rest); "label": i32
  std::vector<std::string>
      classes;  // names of the folders, in the order of their bytes; none with a dot in front
};

// All .png, .ppm and .pgm files; their order is that of their names, class by class. Pictures that are not
// of one size are refused.
Images images(const std::string& folder, ImagesOptions options = {});

}  // namespace ebb::data
