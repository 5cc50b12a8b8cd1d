// A model whose layers are worth a transfer to the spill file.
#pragma once

#include <string>
#include <vector>

#include "ebb/nn/layers.hpp"

namespace ebb::test {

struct Deep {  // 6 layers of 256: 256 KiB each
  std::vector<nn::Dense> layers;
  explicit Deep(const nn::Init& init) {
    for (int i = 0; i < 6; ++i)
      layers.emplace_back(init / i, 256, 256, nn::DenseOptions{.activation = Activation::tanh});
  }
  Tensor operator()(Tensor x) const {
    for (const nn::Dense& l : layers) x = l(x);
    return x;
  }
  void each(auto&& f) {
    for (std::size_t i = 0; i < layers.size(); ++i) f(std::to_string(i), layers[i]);
  }
};

}  // namespace ebb::test
