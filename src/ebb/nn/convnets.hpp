// Models of images and of plain rows.
//
//   nn::ResNet net(nn::Init(1), {.channels = {16, 32, 64}, .blocks = 3});   // ResNet-20
//   nn::Mlp mlp(nn::Init(1), {784, 1024, 10});
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/nn/layers.hpp"

namespace ebb::nn {

struct MlpOptions {
  Activation activation = Activation::relu;  // between the layers
  double dropout = 0;                        // behind each activation
};

struct Mlp {  // (…, sizes.front()) → (…, sizes.back())
  MlpOptions options;
  std::vector<Dense> layers;
  Mlp(const Init& init, const std::vector<std::int64_t>& sizes, MlpOptions options = {});
  Tensor operator()(Tensor x) const;
  void each(auto&& f) { f("layers", layers); }
};

struct ConvNorm {  // a 3×3 or 1×1 convolution without bias, then batch norm
  Conv2d conv;
  BatchNorm norm;
  ConvNorm(const Init& init, std::int64_t in, std::int64_t out, std::int64_t kernel,
           std::int64_t stride = 1);
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
  void each(auto&& f) {
    f("conv", conv);
    f("norm", norm);
  }
};

struct ResBlock {  // relu(b(relu(a x)) + shortcut x); the first product may take every second pixel
  ConvNorm a, b;
  std::optional<ConvNorm> shortcut;  // where the shape changes
  ResBlock(const Init& init, std::int64_t in, std::int64_t out, std::int64_t stride);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) {
    f("a", a);
    f("b", b);
    if (shortcut) f("shortcut", *shortcut);
  }
};

struct ResNetOptions {
  std::vector<std::int64_t> channels = {16, 32, 64};  // of the stages, each half as high and wide
  int blocks = 3;                                     // in a stage
  std::int64_t in = 3, classes = 10;
  bool winograd = false;  // see Conv2dOptions
};

struct ResNet {  // (batch, height, width, in) → logits (batch, classes)
  ConvNorm first;
  std::vector<ResBlock> blocks;
  Dense head;
  ResNet(const Init& init, const ResNetOptions& options = {});
  Tensor operator()(Tensor x) const;
  void each(auto&& f) {
    f("first", first);
    f("blocks", blocks);
    f("head", head);
  }
};

struct ConvNetOptions {
  std::vector<std::int64_t> channels = {64, 128, 256};  // of the stages
  int convolutions = 2;                                 // in a stage, before its 2×2 max pool
  std::int64_t height = 32, width = 32, in = 3, classes = 10;
  bool winograd = false;  // see Conv2dOptions
};

struct ConvNet {  // (batch, height, width, in) → logits (batch, classes); no norms
  ConvNetOptions options;
  std::vector<Conv2d> layers;
  Dense head;
  ConvNet(const Init& init, const ConvNetOptions& options = {});
  Tensor operator()(Tensor x) const;
  void each(auto&& f) {
    f("layers", layers);
    f("head", head);
  }
};

}  // namespace ebb::nn
