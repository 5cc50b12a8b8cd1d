// A model that is a list of layers, each made for the shape that the one before it gives.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ebb/nn/layers.hpp"
#include "ebb/nn/recurrent.hpp"
#include "ebb/nn/transformer.hpp"
#include "ebb/train/build/model.hpp"
#include "ebb/train/build/sizes.hpp"

namespace ebb::train {

struct Elementwise {
  LayerKind kind;
  Tensor operator()(const Tensor& x) const;
};
struct ReshapeExamples {  // x (rows, …) → (rows, shape…)
  Shape shape;
  Tensor operator()(const Tensor& x) const;
};
struct MeanOverPositions {  // over all axes of an example but the last, where the mask counts them
  Tensor operator()(const Tensor& x, const Tensor& mask) const;
};
struct AddPositions {  // learned, one for each place: (length, width) → the same
  nn::Embedding table;
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) { table.each(f); }
};
template <class Layer>
struct Recurrent {  // (length, in) → (length, width), or the last state
  Layer layer;
  Take take;
  Tensor operator()(const Tensor& x, const Tensor& lengths) const {
    return take == Take::last ? layer.last(x, {.lengths = lengths})
                              : layer(x, {.lengths = lengths}).output;
  }
  void each(auto&& f) { layer.each(f); }
};

using AnyLayer =
    std::variant<nn::Dense, Elementwise, nn::Dropout, nn::Conv2d, nn::Conv1d, nn::MaxPool2d,
                 nn::AvgPool2d, nn::MaxPool1d, nn::AvgPool1d, MeanOverPositions, nn::BatchNorm,
                 nn::LayerNorm, nn::RMSNorm, ReshapeExamples, nn::Embedding, AddPositions,
                 Recurrent<nn::Lstm>, Recurrent<nn::Gru>, nn::TransformerBlock>;

struct LayerList {
  std::vector<AnyLayer> layers;
  Tensor operator()(const Features& features) const;
  void each(auto&& f) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      std::visit(
          [&](auto& layer) {
            if constexpr (requires { layer.each(f); }) f(std::to_string(i), layer);
          },
          layers[i]);
  }
};

// `language`: a result for each token. An Error names the layer that does not fit, what it takes and what it
// is given.
LayerList make_layers(const nn::Init& init, const std::vector<LayerConfig>& layers,
                      const Sizes& sizes, bool language);

}  // namespace ebb::train
