#include "models/task.hpp"

#include <cstdint>

#include "ebb/base/sha256.hpp"
#include "models/pieces.hpp"
#include "models/row.hpp"
#include "models/zoo.hpp"

namespace ebb::zoo {

Task::Task(std::string_view name, std::int64_t rows) {
  if (rows) {
    zoo(name, rows);
  } else {
    peer(name.starts_with('{') ? Row(name) : Row::named(name));
  }
}

void Task::zoo(std::string_view name, std::int64_t rows) {
  const nn::Init init(1);
  const auto classify = [](const auto& model, const Batch& b) {
    return sparse_cross_entropy(model(b["x"]), b["y"]);
  };
  const auto image = [&](const Shape& shape, std::int64_t classes) {
    given_ = {{"x", {shape, DType::f32}}, {"y", {{rows}, DType::i32}, classes}};
  };
  const auto adamw = [&](auto model) {
    train<optim::AdamW>(std::move(model), optim::AdamWOptions{.lr = 1e-3}, classify);
  };
  const auto adam = [&](auto model) {
    train<optim::Adam>(std::move(model), optim::AdamOptions{.lr = 1e-3}, classify);
  };
  const auto text = [&](const GptSize& size) {
    const Spec ids{{rows, size.length}, DType::i32};
    given_ = {{"x", ids, size.vocabulary}, {"y", ids, size.vocabulary}};
    adamw(Gpt(init, size));
  };
  units_ = static_cast<double>(rows);
  if (name == "mlp") {
    image({rows, 784}, 10);
    adamw(Mlp(init, 784, 1024, 10, 3));
  } else if (name == "cnn") {
    image({rows, 28, 28, 1}, 10);
    adamw(Cnn(init));
  } else if (name == "gpt") {
    text({});
  } else if (name == "lstm") {
    image({rows, 28, 28}, 10);
    adamw(Lstm(init, 28, 128, 10));
  } else if (name == "gpt12" || name == "gpt4") {
    text({.layers = name == "gpt4" ? 4 : 12,
          .width = 384,
          .heads = 6,
          .length = 256,
          .vocabulary = 512});
  } else if (name == "mlp12") {
    image({rows, 2048}, 2048);
    adam(Mlp(init, 2048, 2048, 2048, 12));
  } else if (name == "tiny") {
    image({rows, 16}, 2);
    adam(nn::Sequential(nn::Dense(init / "up", 16, 32, {.activation = Activation::relu}),
                        nn::Dense(init / "down", 32, 2)));
  } else {
    throw Error("no model '" + std::string(name) + "' in the zoo");
  }
}

BatchSpec Task::spec() const {
  auto names = std::make_shared<Names>();
  std::vector<Spec> specs;
  for (const Given& g : given_) {
    names->push_back(g.name);
    specs.push_back(g.spec);
  }
  return {std::move(names), std::move(specs)};
}

Batch Task::batch() const {
  const CategoryScope data(Category::data);
  auto names = std::make_shared<Names>();
  std::vector<Tensor> values;
  for (const Given& g : given_) {
    const std::uint64_t stream = 3 + values.size();
    names->push_back(g.name);
    if (!g.classes) {
      values.push_back(random::uniform(g.spec.shape, -1, 1, 1, stream));
      continue;
    }
    Tensor t = Tensor::uninitialized(g.spec, "batch", Category::data);
    std::uint64_t state = stream;
    for (std::int64_t i = 0; i < t.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto drawn = (state >> 33) % static_cast<std::uint64_t>(g.classes);
      if (g.spec.dtype == DType::i32) {
        reinterpret_cast<std::int32_t*>(t.bytes())[i] = static_cast<std::int32_t>(drawn);
      } else {
        reinterpret_cast<float*>(t.bytes())[i] = static_cast<float>(drawn);
      }
    }
    values.push_back(std::move(t));
  }
  return {std::move(names), std::move(values)};
}

std::string hash(const std::vector<Variable>& weights) {
  Sha256 sha;
  each_piece(weights, [&](std::span<const std::byte> part) { sha.add(part); });
  return sha.hex();
}

}  // namespace ebb::zoo
