#include "ebb/train/build/layer_list.hpp"

#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb::train {

Tensor Elementwise::operator()(const Tensor& x) const {
  switch (kind) {
    case LayerKind::tanh:
      return tanh(x);
    case LayerKind::sigmoid:
      return sigmoid(x);
    case LayerKind::gelu:
      return gelu(x);
    case LayerKind::gelu_tanh:
      return gelu_tanh(x);
    case LayerKind::silu:
      return silu(x);
    case LayerKind::leaky_relu:
      return leaky_relu(x);
    case LayerKind::elu:
      return elu(x);
    case LayerKind::softplus:
      return softplus(x);
    default:
      return relu(x);
  }
}

Tensor ReshapeExamples::operator()(const Tensor& x) const {
  std::vector<std::int64_t> dims(shape.begin(), shape.end());
  dims.insert(dims.begin(), x.dim(0));
  return reshape(x, dims);
}

Tensor MeanOverPositions::operator()(const Tensor& x, const Tensor& mask) const {
  if (x.rank() == 4) return mean(x, {1, 2});
  if (!mask) return mean(x, {1});
  const Tensor counts = expand_dims(cast(mask, x.dtype()), 2);  // (rows, length, 1)
  return sum(x * counts, {1}) / maximum(sum(counts, {1}), Tensor::scalar(1, x.dtype()));
}

Tensor AddPositions::operator()(const Tensor& x) const {
  const Scope in(table.scope);
  return x + expand_dims(slice(table.weight, 0, 0, x.dim(1)), 0);
}

Tensor LayerList::operator()(const Features& features) const {
  Tensor x = features.x;
  for (const AnyLayer& any : layers)
    x = std::visit(
        [&](const auto& layer) {
          using L = std::decay_t<decltype(layer)>;
          constexpr bool recurrent =
              std::is_same_v<L, Recurrent<nn::Lstm>> || std::is_same_v<L, Recurrent<nn::Gru>>;
          if constexpr (recurrent)
            return layer(x, features.lengths);
          else if constexpr (std::is_same_v<L, MeanOverPositions> ||
                             std::is_same_v<L, nn::TransformerBlock>)
            return layer(x, features.mask);
          else
            return layer(x);
        },
        any);
  return x;
}

}  // namespace ebb::train
