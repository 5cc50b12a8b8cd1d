// Trains a convolutional classifier of digits twice, each time in a process of its own: inside a
// budget, and with all the memory it likes. The forecast stands beside the measured peak, and the
// weights are the same to the bit.
//
//   train_budget [BUDGET]        such as 48MiB
#include <cstdio>
#include <ebb/ebb.hpp>

#include "apart.hpp"
#include "progress.hpp"
using namespace ebb;

struct Cnn {  // (batch, 784) → (batch, 10)
  nn::Conv2d first, second, third;
  nn::Dropout drop{0.1};
  nn::Dense out;
  explicit Cnn(const nn::Init& init)
      : first(init / "first", 1, 16, 3, {.padding = 1}),
        second(init / "second", 16, 32, 3, {.stride = 2, .padding = 1}),
        third(init / "third", 32, 64, 3, {.stride = 2, .padding = 1}),
        out(init / "out", 7 * 7 * 64, 10) {}
  Tensor operator()(const Tensor& images) const {
    Tensor x = reshape(images, {images.dim(0), 28, 28, 1});
    x = relu(third(relu(second(gelu(first(x))))));
    return out(drop(reshape(x, {images.dim(0), 7 * 7 * 64})));
  }
  void each(auto&& f) { f("first", first), f("second", second), f("third", third), f("out", out); }
};

constexpr int kEpochs = 20;

struct Outcome {
  std::uint64_t weights = 0, forecast = 0, peak = 0;
  double seconds = 0, loss = 0;
};

Outcome train(ByteSize budget) {
  random::seed(1);
  Cnn model(nn::Init(1));
  optim::AdamW adam(params(model), {.lr = 2e-3});
  const Dataset data = data::digits(4096, 1).shuffle(1).batch(256);
  auto step =
      compile(data.spec(), {.memory = budget, .allow = Allow::same_bits}, [&](const Batch& b) {
        return adam.minimize(sparse_cross_entropy(model(b["image"]), b["label"]));
      });
  std::cout << step.plan() << '\n';
  Outcome o;
  Progress progress("digits", data.batches(), kEpochs);
  for (const Batch& b : data.epochs(kEpochs)) o.loss = progress(step(b));
  o.seconds = progress.seconds();
  o.weights = digest(params(model));
  o.forecast = step.plan().forecast.process;
  o.peak = process::peak_resident();
  return o;
}

int main(int argc, char** argv) try {
  const ByteSize budget = argc > 1 ? ByteSize::parse(argv[1]) : 40_MiB;
  const Outcome inside = apart<Outcome>([&] { return train(budget); });
  const Outcome free = apart<Outcome>([] { return train({}); });
  std::printf("\n%-22s %14s %14s\n", "", "in the budget", "no budget");
  std::printf("%-22s %10.1f MiB %10.1f MiB\n", "forecast of the peak",
              static_cast<double>(inside.forecast) / 1048576,
              static_cast<double>(free.forecast) / 1048576);
  std::printf("%-22s %10.1f MiB %10.1f MiB\n", "measured peak (VmHWM)",
              static_cast<double>(inside.peak) / 1048576, static_cast<double>(free.peak) / 1048576);
  std::printf("%-22s %12.1f s %12.1f s\n", "time", inside.seconds, free.seconds);
  std::printf("%-22s %14.4f %14.4f\n", "loss", inside.loss, free.loss);
  std::printf("%-22s %14lx %14lx  %s\n", "weights", inside.weights >> 16, free.weights >> 16,
              inside.weights == free.weights ? "the same bits" : "DIFFERENT");
  return inside.weights == free.weights && inside.peak <= budget.bytes ? 0 : 1;
} catch (const Error& e) {
  std::cerr << "train_budget: " << e.what() << '\n';
  return 2;
}
