// A program of a user, with all that one needs: a model, data, an optimizer, a few steps, and
// derivatives checked against what they are by hand.
#include <ebb/ebb.hpp>

#include <cstdio>

using namespace ebb;

struct Mlp {
  nn::Dense up, down;
  Mlp(nn::Init init) : up(init / "up", 784, 64), down(init / "down", 64, 10) {}
  Tensor operator()(Tensor x) const { return down(relu(up(x))); }
  void each(auto&& f) {
    f("up", up);
    f("down", down);
  }
};

// Made before main, in whatever order the linker puts the library's own globals.
Mlp early(nn::Init(/*seed=*/2));
optim::AdamW early_adam(params(early), {.lr = 1e-2});
auto early_step =
    compile(BatchSpec{{"image", {{8, 784}, DType::f32}}, {"label", {{8}, DType::i32}}}, {},
            [](const Batch& b) {
              return early_adam.minimize(sparse_cross_entropy(early(b["image"]), b["label"]));
            });

int main() {
  const Tensor x = Tensor::of({1.0f, 2.0f, 3.0f});
  Tape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x, z = y * y;
  const Tensor dy_dx = tape.gradient(y, x), dz_dx = tape.gradient(z, x);
  for (int i = 0; i < 3; ++i) {
    const float v = x.data<float>()[i];
    if (dy_dx.data<float>()[i] != 2 * v || dz_dx.data<float>()[i] != 4 * v * v * v) {
      std::printf("wrong derivative at %g\n", v);
      return 1;
    }
  }

  Mlp model(nn::Init(/*seed=*/1));
  optim::AdamW adam(params(model), {.lr = 1e-2});
  auto data = data::digits(512, 1).shuffle(1).batch(64).prefetch(2);
  for (const Batch& b : data.batch(8).epoch(0)) early_step(b);
  if (early_adam.steps() != 64) {
    std::printf("%ld steps of one compiled before main, expected 64\n",
                static_cast<long>(early_adam.steps()));
    return 1;
  }
  double first = 0, last = 0;
  for (const Batch& b : data.epochs(4)) {
    Tape step;
    last = adam.minimize(sparse_cross_entropy(model(b["image"]), b["label"])).mean().item();
    if (first == 0) first = last;
  }

  auto step = compile(data.spec(), {.memory = 64_MiB}, [&](const Batch& b) {
    return adam.minimize(sparse_cross_entropy(model(b["image"]), b["label"]));
  });
  std::cout << step.plan();
  for (const Batch& b : data.epochs(1)) last = step(b).mean().item();
  std::printf("derivatives are right; the loss went from %.3f to %.3f\n", first, last);
  return last < first / 2 ? 0 : 1;
}
