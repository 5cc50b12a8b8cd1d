#include "models/task.hpp"

#include <array>
#include <cstdint>

#include "models/sha256.hpp"
#include "models/zoo.hpp"

namespace ebb::zoo {

template <class Model, class Optimizer>
void Task::train(Model model) {
  struct Both {
    Model model;
    Optimizer optimizer;
    explicit Both(Model m) : model(std::move(m)), optimizer(params(model), {.lr = 1e-3}) {}
  };
  auto both = std::make_shared<Both>(std::move(model));
  weights_ = params(both->model);
  step_ = [both](const Batch& b) {
    return both->optimizer.minimize(sparse_cross_entropy(both->model(b["x"]), b["y"]));
  };
}

Task::Task(std::string_view name, std::int64_t rows) {
  const nn::Init init(1);
  const auto image = [&](const Shape& shape, std::int64_t classes) {
    x_ = {shape, DType::f32};
    y_ = {{rows}, DType::i32};
    classes_ = classes;
  };
  const auto text = [&](const GptSize& size) {
    x_ = y_ = {{rows, size.length}, DType::i32};
    classes_ = size.vocabulary;
    train(Gpt(init, size));
  };
  if (name == "mlp") {
    image({rows, 784}, 10);
    train(Mlp(init, 784, 1024, 10, 3));
  } else if (name == "cnn") {
    image({rows, 28, 28, 1}, 10);
    train(Cnn(init));
  } else if (name == "gpt") {
    text({});
  } else if (name == "lstm") {
    image({rows, 28, 28}, 10);
    train(Lstm(init, 28, 128, 10));
  } else if (name == "gpt12" || name == "gpt4") {
    text({.layers = name == "gpt4" ? 4 : 12,
          .width = 384,
          .heads = 6,
          .length = 256,
          .vocabulary = 512});
  } else if (name == "mlp12") {
    image({rows, 2048}, 2048);
    train<Mlp, optim::Adam>(Mlp(init, 2048, 2048, 2048, 12));
  } else if (name == "tiny") {
    image({rows, 16}, 2);
    train<nn::Sequential<nn::Dense, nn::Dense>, optim::Adam>(
        nn::Sequential(nn::Dense(init / "up", 16, 32, {.activation = Activation::relu}),
                       nn::Dense(init / "down", 32, 2)));
  } else {
    throw Error("no model '" + std::string(name) + "' in the zoo");
  }
}

Batch Task::batch() const {
  const CategoryScope data(Category::data);
  const auto classes = [&](const Spec& spec, std::uint64_t stream) {
    Tensor t = Tensor::uninitialized(spec, "batch", Category::data);
    auto* to = reinterpret_cast<std::int32_t*>(t.bytes());
    std::uint64_t state = stream;
    for (std::int64_t i = 0; i < t.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      to[i] = static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(classes_));
    }
    return t;
  };
  return {{"x", x_.dtype == DType::f32 ? random::uniform(x_.shape, -1, 1, 1, 2) : classes(x_, 3)},
          {"y", classes(y_, 4)}};
}

std::string hash(const std::vector<Variable>& weights) {
  Sha256 sha;
  std::array<std::byte, First::kChunk * sizeof(float)> piece;
  for (const Variable& v : weights) {
    const std::uint64_t bytes = v.spec().bytes();
    for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
      const std::span part(piece.data(), std::min<std::uint64_t>(piece.size(), bytes - at));
      v.read(part, at);
      sha.add(part);
    }
  }
  return sha.hex();
}

}  // namespace ebb::zoo
