#include "ebb/nn/convnets.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb::nn {
namespace {

Conv2d same_size(const Init& init, std::int64_t in, std::int64_t out, std::int64_t kernel,
                 std::int64_t stride, bool bias) {
  return Conv2d(init, in, out, kernel, {.stride = stride, .padding = kernel / 2}, bias);
}

template <class T>
T last_of(const std::vector<T>& all, const char* model, const char* what) {
  if (all.empty()) throw Error(fmt::format("{}: no {} given, expected at least one", model, what));
  return all.back();
}

}  // namespace

Mlp::Mlp(const Init& init, const std::vector<std::int64_t>& sizes, MlpOptions o) : options(o) {
  if (sizes.size() < 2)
    throw Error(
        fmt::format("Mlp: {} sizes were given, expected at least two: in and out", sizes.size()));
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const bool last = i + 2 == sizes.size();
    layers.emplace_back(init / "layers" / static_cast<int>(i), sizes[i], sizes[i + 1],
                        DenseOptions{.activation = last ? Activation::none : o.activation});
  }
}

Tensor Mlp::operator()(Tensor x) const {
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    x = layers[i](x);
    if (training() && options.dropout > 0) x = dropout(x, options.dropout);
  }
  return layers.back()(x);
}

ConvNorm::ConvNorm(const Init& init, std::int64_t in, std::int64_t out, std::int64_t kernel,
                   std::int64_t stride)
    : conv(same_size(init / "conv", in, out, kernel, stride, false)), norm(init / "norm", out) {}

ResBlock::ResBlock(const Init& init, std::int64_t in, std::int64_t out, std::int64_t stride)
    : a(init / "a", in, out, 3, stride), b(init / "b", out, out, 3) {
  if (stride != 1 || in != out) shortcut.emplace(init / "shortcut", in, out, 1, stride);
}

Tensor ResBlock::operator()(const Tensor& x) const {
  return relu(b(relu(a(x))) + (shortcut ? (*shortcut)(x) : x));
}

ResNet::ResNet(const Init& init, const ResNetOptions& o)
    : first(init / "first", o.in, o.channels.empty() ? 1 : o.channels.front(), 3),
      head(init / "head", last_of(o.channels, "ResNet", "channels"), o.classes) {
  std::int64_t in = o.channels.front();
  for (std::size_t stage = 0; stage < o.channels.size(); ++stage)
    for (int block = 0; block < o.blocks; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      blocks.emplace_back(init / "blocks" / static_cast<int>(blocks.size()), in, o.channels[stage],
                          stride);
      in = o.channels[stage];
    }
  first.conv.options.winograd = o.winograd;
  for (ResBlock& block : blocks)
    block.a.conv.options.winograd = block.b.conv.options.winograd = o.winograd;
}

Tensor ResNet::operator()(Tensor x) const {
  x = relu(first(x));
  for (const ResBlock& block : blocks) x = block(x);
  return head(mean(x, {1, 2}));
}

ConvNet::ConvNet(const Init& init, const ConvNetOptions& o)
    : options(o),
      head(init / "head",
           last_of(o.channels, "ConvNet", "channels") * (o.height >> o.channels.size()) *
               (o.width >> o.channels.size()),
           o.classes) {
  std::int64_t in = o.in;
  for (const std::int64_t out : o.channels)
    for (int i = 0; i < o.convolutions; ++i) {
      layers.push_back(
          same_size(init / "layers" / static_cast<int>(layers.size()), in, out, 3, 1, true));
      layers.back().options.winograd = o.winograd;
      in = out;
    }
}

Tensor ConvNet::operator()(Tensor x) const {
  const auto per_stage = static_cast<std::size_t>(options.convolutions);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    x = relu(layers[i](x));
    if ((i + 1) % per_stage == 0) x = max_pool2d(x);
  }
  return head(reshape(x, {x.dim(0), -1}));
}

}  // namespace ebb::nn
