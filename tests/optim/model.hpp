// A small classifier with everything in it that a step can stumble over.
#pragma once

#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/bytes.hpp"

namespace ebb::test {

struct Example {
  Tensor x, labels;
  Example rows(std::int64_t begin, std::int64_t end) const {
    return {x.rows(begin, end), labels.rows(begin, end)};
  }
};

inline Example examples(std::int64_t count, std::int64_t width, std::int64_t classes, int seed) {
  const Tensor x = random::uniform({count, width}, -1, 1, static_cast<std::uint64_t>(seed), 1);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(seed)) %
                                          static_cast<std::size_t>(classes));
  return {x, Tensor::from(labels, {count})};
}

struct Mlp {
  nn::Dense up, mid, down;
  nn::LayerNorm norm;
  nn::Dropout dropout;
  explicit Mlp(nn::Init init, double rate = 0.25)
      : up(init / "up", 12, 33, {.activation = Activation::relu}),
        mid(init / "mid", 33, 17),
        down(init / "down", 17, 5),
        norm(init / "norm", 17),
        dropout(rate) {}
  Tensor operator()(const Tensor& x) const { return down(gelu(norm(mid(dropout(up(x)))))); }
  void each(auto&& f) {
    f("up", up);
    f("mid", mid);
    f("norm", norm);
    f("down", down);
  }
};

inline std::vector<std::vector<float>> values(const std::vector<Variable>& vs) {
  std::vector<std::vector<float>> all;
  for (const Variable& v : vs)
    if (v.spec().dtype == DType::f32) all.push_back(v.value().to_vector<float>());
  return all;
}

}  // namespace ebb::test
