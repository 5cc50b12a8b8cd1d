// A small program whose parts share one budget: a model that is trained and evaluated.
#pragma once

#include <vector>

#include "ebb/data/dataset.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"

namespace ebb::test {

struct Program {
  nn::Mlp model{nn::Init(1), {256, 512, 512, 10}, {.dropout = 0.1}};
  optim::AdamW adam{params(model), {.lr = 1e-3}};
  Dataset data = [] {
    std::vector<std::int32_t> labels(150);
    for (int i = 0; i < 150; ++i) labels[static_cast<std::size_t>(i)] = i % 10;
    return Dataset::of(
               {{"x", random::normal({150, 256}, 0, 1, 3, 4)}, {"y", Tensor::from(labels, {150})}})
        .shuffle(1)
        .batch(32);
  }();

  Loss loss(const Batch& b) { return sparse_cross_entropy(model(b["x"]), b["y"]); }
  auto train(CompileOptions options) {
    return compile(data.spec(), options, [this](const Batch& b) { return adam.minimize(loss(b)); });
  }
  auto test(CompileOptions options) {
    const nn::Evaluation quiet;
    return compile(data.spec(), options, [this](const Batch& b) { return loss(b); });
  }
};

}  // namespace ebb::test
