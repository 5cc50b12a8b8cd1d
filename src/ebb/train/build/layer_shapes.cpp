// From [[model.layers]] to layers: shapes follow from one to the next.
#include <fmt/format.h>

#include "ebb/base/error.hpp"
#include "ebb/train/build/layer_list.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

class Maker {
 public:
  Maker(nn::Init init, const std::vector<LayerConfig>& all, const Sizes& sizes)
      : init_(std::move(init)),
        all_(all),
        sizes_(sizes),
        shape_(sizes.example.shape),
        ids_(sizes.tokens()) {}

  AnyLayer next(std::size_t index) {
    at_ = index;
    const LayerConfig& c = all_[index];
    const nn::Init init = init_ / "layers" / static_cast<int>(index);
    if (ids_ && c.kind != LayerKind::embedding && c.kind != LayerKind::reshape)
      refuse("an embedding first, as the data is token ids");
    switch (c.kind) {
      case LayerKind::dense:
        return dense(init, c);
      case LayerKind::dropout:
        return nn::Dropout(c.rate);
      case LayerKind::conv:
        return conv(init, c);
      case LayerKind::max_pool:
        return pool<nn::MaxPool2d, nn::MaxPool1d>(c);
      case LayerKind::avg_pool:
        return pool<nn::AvgPool2d, nn::AvgPool1d>(c);
      case LayerKind::mean:
        if (rank() < 2) refuse("(length, channels) or (height, width, channels)");
        shape_ = {width()};
        return MeanOverPositions{};
      case LayerKind::batch_norm:
        return nn::BatchNorm(init, width(), {.eps = c.eps.value_or(1e-5), .momentum = c.momentum});
      case LayerKind::layer_norm:
        return nn::LayerNorm(init, width(), c.eps.value_or(1e-5));
      case LayerKind::rms_norm:
        return nn::RMSNorm(init, width(), c.eps.value_or(1e-6));
      case LayerKind::flatten:
        shape_ = {shape_.size()};
        return ReshapeExamples{shape_};
      case LayerKind::reshape:
        return reshape(c);
      case LayerKind::embedding:
        return embedding(init, c);
      case LayerKind::positions:
        if (rank() != 2) refuse("(length, width)");
        return AddPositions{nn::Embedding(init, shape_[0], width(), nn::normal(0, 0.02))};
      case LayerKind::lstm:
        return recurrent<nn::Lstm>(init, c);
      case LayerKind::gru:
        return recurrent<nn::Gru>(init, c);
      case LayerKind::transformer:
        return transformer(init, c);
      default:
        return Elementwise{c.kind};
    }
  }

  // That the list ends with what the data asks for.
  void check_end(bool language) const {
    const Shape wanted =
        language ? Shape{sizes_.example.shape[0], sizes_.outputs} : Shape{sizes_.outputs};
    if (!ids_ && shape_ == wanted) return;
    throw Error(fmt::format("model.layers: the last one gives {}, and the data asks for {}",
                            to_string(shape_), to_string(wanted)));
  }

 private:
  int rank() const { return shape_.rank(); }
  std::int64_t width() const {
    if (rank() == 0) refuse("at least one feature");
    return shape_[rank() - 1];
  }
  [[noreturn]] void refuse(const std::string& takes) const {
    throw Error(fmt::format("model.layers[{}] ({}) takes {}, and is given {}", at_,
                            name_of(all_[at_].kind), takes, to_string(shape_)));
  }

  AnyLayer dense(const nn::Init& init, const LayerConfig& c) {
    const bool last = at_ + 1 == all_.size();
    if (!c.out && !last)
      throw Error(fmt::format(
          "model.layers[{}] (dense) has no out, which only the last layer may leave to the data",
          at_));
    const std::int64_t in = width(), out = c.out.value_or(sizes_.outputs);
    shape_ = shape_.with_axis(rank() - 1, out);
    return nn::Dense(init, in, out, {.bias = c.bias, .activation = c.activation});
  }

  // How long an axis is behind windows of `taps` taps.
  std::int64_t windows(std::int64_t size, std::int64_t taps, std::int64_t stride,
                       std::int64_t padding) const {
    if (size + 2 * padding < taps) refuse(fmt::format("at least {} positions each way", taps));
    return (size + 2 * padding - taps) / stride + 1;
  }
  void slide(std::int64_t taps, std::int64_t stride, std::int64_t padding) {
    for (int axis = 0; axis + 1 < rank(); ++axis)
      shape_ = shape_.with_axis(axis, windows(shape_[axis], taps, stride, padding));
  }

  AnyLayer conv(const nn::Init& init, const LayerConfig& c) {
    if (rank() != 2 && rank() != 3) refuse("(length, channels) or (height, width, channels)");
    if (!c.out)
      throw Error(
          fmt::format("model.layers[{}] (conv) has no out: how many channels it makes", at_));
    const std::int64_t in = width(), taps = c.dilation * (c.kernel - 1) + 1;
    const std::int64_t padding = c.padding.value_or((taps - 1) / 2);
    if (in % c.groups != 0 || *c.out % c.groups != 0)
      refuse(fmt::format("channels, in and out, that divide into {} groups", c.groups));
    slide(taps, c.stride, padding);
    shape_ = shape_.with_axis(rank() - 1, *c.out);
    if (rank() == 3)
      return nn::Conv2d(
          init, in, *c.out, c.kernel,
          {.stride = c.stride, .padding = padding, .dilation = c.dilation, .groups = c.groups},
          c.bias);
    return nn::Conv1d(
        init, in, *c.out, c.kernel,
        {.stride = c.stride, .padding = padding, .dilation = c.dilation, .groups = c.groups},
        c.bias);
  }

  template <class Pool2d, class Pool1d>
  AnyLayer pool(const LayerConfig& c) {
    if (rank() != 2 && rank() != 3) refuse("(length, channels) or (height, width, channels)");
    const std::int64_t stride = c.pool_stride.value_or(c.window), padding = c.padding.value_or(0);
    if (padding >= c.window)
      throw Error(
          fmt::format("model.layers[{}] ({}) has padding {}, expected less than its window {}", at_,
                      name_of(c.kind), padding, c.window));
    slide(c.window, stride, padding);
    if (rank() == 3) return Pool2d{{.window = c.window, .stride = stride, .padding = padding}};
    return Pool1d{{.window = c.window, .stride = stride, .padding = padding}};
  }

  AnyLayer reshape(const LayerConfig& c) {
    const Shape to(c.shape);
    if (to.size() != shape_.size())
      refuse(fmt::format("{} numbers, to make {} of them", to.size(), to_string(to)));
    shape_ = to;
    return ReshapeExamples{to};
  }

  AnyLayer embedding(const nn::Init& init, const LayerConfig& c) {
    if (!ids_ || rank() != 1) refuse("rows of token ids");
    ids_ = false;
    const std::int64_t count = c.count.value_or(sizes_.vocabulary);
    if (count < sizes_.vocabulary)
      throw Error(
          fmt::format("model.layers[{}] (embedding) has count {}, and the data has {} tokens", at_,
                      count, sizes_.vocabulary));
    shape_ = {shape_[0], c.width};
    return nn::Embedding(init, count, c.width);
  }

  template <class Layer>
  AnyLayer recurrent(const nn::Init& init, const LayerConfig& c) {
    if (rank() != 2) refuse("(length, features)");
    const nn::RecurrentLayers o{.layers = static_cast<int>(c.depth),
                                .bidirectional = c.bidirectional,
                                .dropout = c.dropout,
                                .bias = c.bias};
    Layer layer(init, width(), c.width, o);
    const std::int64_t out = c.bidirectional ? 2 * c.width : c.width;
    shape_ = c.take == Take::last ? Shape{out} : Shape{shape_[0], out};
    return Recurrent<Layer>{std::move(layer), c.take};
  }

  AnyLayer transformer(const nn::Init& init, const LayerConfig& c) const {
    if (rank() != 2) refuse("(length, width)");
    if (width() % c.heads != 0) refuse(fmt::format("a width that {} heads divide", c.heads));
    nn::TransformerOptions o;
    o.width = width();
    o.heads = c.heads;
    o.hidden = c.feed_forward.value_or(0);
    o.causal = c.causal;
    o.dropout = c.dropout;
    o.layers = 0;
    for (const LayerConfig& l : all_) o.layers += l.kind == LayerKind::transformer;
    return nn::TransformerBlock(init, o);
  }

  nn::Init init_;
  const std::vector<LayerConfig>& all_;
  const Sizes& sizes_;
  Shape shape_;
  bool ids_;  // what comes next is given token ids
  std::size_t at_ = 0;
};

}  // namespace

LayerList make_layers(const nn::Init& init, const std::vector<LayerConfig>& layers,
                      const Sizes& sizes, bool language) {
  if (layers.empty()) throw Error("model.layers is empty, expected at least one layer");
  Maker maker(init, layers, sizes);
  LayerList list;
  if (sizes.reshaped) list.layers.push_back(ReshapeExamples{sizes.example.shape});
  for (std::size_t i = 0; i < layers.size(); ++i) list.layers.push_back(maker.next(i));
  maker.check_end(language);
  return list;
}

}  // namespace ebb::train
