// The presets with their gradients, written as .npy files, for another framework to compare with
// (benches/peers/presets.py).
//
//   bench_presets DIRECTORY              of each preset, small: weights, data, loss, gradients
//   bench_presets DIRECTORY STEPS        the character model: its text, first weights, losses
#include <sys/stat.h>

#include <cstdio>
#include <ebb/ebb.hpp>
#include <string>

#include "models/character.hpp"

namespace {

using namespace ebb;

constexpr std::int64_t kRows = 3;

void folder(const std::string& path) { mkdir(path.c_str(), 0777); }

Tensor ids(const Shape& shape, std::int64_t below, std::uint64_t stream) {
  const Tensor draws = random::uniform(shape, 0, static_cast<double>(below), 5, stream);
  return minimum(cast(draws, DType::i32),
                 Tensor::full({}, static_cast<double>(below - 1), DType::i32));
}

template <class Model, class LossOf>
void write(const std::string& directory, const char* name, Model model, const Batch& batch,
           LossOf loss_of) {
  const std::string to = directory + "/" + name;
  folder(to);
  const std::vector<Variable> all = params(model);
  std::vector<Tensor> gradients;
  double mean = 0;
  {
    Tape tape;
    const Loss loss = loss_of(model, batch);
    mean = loss.sum.item() / loss.count.item();
    gradients = tape.gradient(loss, all, {.unconnected = Unconnected::zeros});
    for (Tensor& g : gradients) g = g * (1.0 / loss.count.item());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    save_npy(to + "/" + all[i].name() + ".npy", all[i].value());
    save_npy(to + "/" + all[i].name() + ".grad.npy", gradients[i]);
  }
  for (std::size_t i = 0; i < batch.values().size(); ++i)
    save_npy(to + "/" + batch.names()[i] + ".npy", batch.values()[i]);
  std::printf("{\"preset\": \"%s\", \"parameters\": %zu, \"loss\": %.9g}\n", name, all.size(),
              mean);
}

const auto classify = [](const auto& model, const Batch& b) {
  return sparse_cross_entropy(model(b["x"]), b["y"]);
};
const auto predict_next = [](const auto& model, const Batch& b) {
  return model.loss(b["x"], b["y"]);
};

void write_all(const std::string& directory) {
  const nn::Init init(7, DType::f64);
  const auto reals = [](const Shape& shape) {
    return cast(random::uniform(shape, -1, 1, 5, 1), DType::f64);
  };
  const Tensor classes = ids({kRows}, 4, 2);
  const Batch text{{"x", ids({kRows, 11}, 13, 3)}, {"y", ids({kRows, 11}, 13, 4)}};

  write(directory, "mlp", nn::Mlp(init, {9, 16, 4}), {{"x", reals({kRows, 9})}, {"y", classes}},
        classify);
  write(directory, "resnet", nn::ResNet(init, {.channels = {8, 16}, .blocks = 2, .classes = 4}),
        {{"x", reals({kRows, 8, 8, 3})}, {"y", classes}}, classify);
  write(directory, "convnet",
        nn::ConvNet(init, {.channels = {8, 16}, .height = 8, .width = 8, .classes = 4}),
        {{"x", reals({kRows, 8, 8, 3})}, {"y", classes}}, classify);

  const Batch sequence{{"x", reals({kRows, 11, 5})}, {"y", classes}};
  const nn::SequenceOptions rnn{.in = 5, .hidden = 8, .classes = 4, .layers = 2};
  write(directory, "lstm", nn::LstmClassifier(init, rnn), sequence, classify);
  write(directory, "gru", nn::GruClassifier(init, rnn), sequence, classify);
  nn::RecurrentLmOptions lm{.vocabulary = 13, .embedding = 8, .hidden = 12, .attention = true};
  write(directory, "lstm-lm", nn::LstmLm(init, lm), text, predict_next);
  lm.attention = lm.bias = false;
  write(directory, "gru-lm", nn::GruLm(init, lm), text, predict_next);

  const nn::GptOptions gpt{.vocabulary = 13, .context = 16, .layers = 2, .width = 24, .heads = 4};
  write(directory, "gpt2", nn::Gpt(init, gpt), text, predict_next);

  nn::GptOptions llama = nn::GptOptions::llama();
  llama.vocabulary = 13;
  llama.layers = 2;
  llama.width = 32;
  llama.heads = 4;
  llama.kv_heads = 2;
  write(directory, "llama", nn::Gpt(init, llama), text, predict_next);

  const nn::EncoderOptions encoder{
      .vocabulary = 13, .context = 16, .classes = 4, .layers = 2, .width = 24, .heads = 4};
  write(directory, "encoder", nn::EncoderClassifier(init, encoder),
        {{"x", text["x"]}, {"y", classes}}, classify);
}

// The character model: what it reads, its first weights and its losses.
void learn(const std::string& directory, int steps) {
  const std::string text = zoo::invented_text();
  folder(directory);
  write_file(directory + "/text", text);
  const zoo::Characters characters(text);
  nn::Gpt model = characters.model();
  for (const Variable& v : params(model)) save_npy(directory + "/" + v.name() + ".npy", v.value());
  optim::AdamW adam(params(model), {.lr = 1e-3});
  auto step = compile(characters.batches.spec(), {}, [&](const Batch& b) {
    return adam.minimize(model.loss(b["input"], b["target"]));
  });
  int done = 0;
  for (const Batch& b : characters.batches.epochs(steps)) {
    const Loss loss = step(b);
    std::printf("{\"step\": %d, \"loss\": %.6f}\n", done, loss.sum.item() / loss.count.item());
    if (++done == steps) break;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2) {
    folder(argv[1]);
    write_all(argv[1]);
  } else if (argc == 3) {
    learn(argv[1], std::atoi(argv[2]));
  } else {
    std::fprintf(stderr, "usage: bench_presets DIRECTORY [STEPS]\n");
    return 2;
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_presets: %s\n", e.what());
  return 1;
}
