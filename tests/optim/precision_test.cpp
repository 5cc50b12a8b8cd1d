// Optimizers that keep less: what they learn, beside AdamW in f32.
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

// Two layers learn what two other, fixed layers do. There is noise in it, so that the loss does not
// go to zero, where one percent would mean nothing.
struct Student {
  nn::Dense up, down;
  explicit Student(nn::Init init)
      : up(init / "up", 16, 96, {.activation = Activation::gelu}), down(init / "down", 96, 8) {}
  Tensor operator()(const Tensor& x) const { return down(up(x)); }
  void each(auto&& f) {
    f("up", up);
    f("down", down);
  }
};

template <class Optimizer, class Options>
double loss_after(int steps, const Options& options) {
  random::seed(1);
  const Student teacher(nn::Init(99));
  Student model(nn::Init(1));
  Optimizer optimizer(params(model), options);
  double late = 0;
  for (int i = 0; i < steps; ++i) {
    const auto key = static_cast<std::uint64_t>(i);
    const Tensor x = random::normal({64, 16}, 0, 1, 5, key);
    const Tensor y = teacher(x) + random::normal({64, 8}, 0, 0.3, 6, key);
    Tape tape;
    const double loss = optimizer.minimize(mse(model(x), y)).mean().item();
    if (i >= steps - 100) late += loss / 100;
  }
  return late;
}

TEST(Precision, AdamWIn8BitsLearnsAsAdamW) {
  const optim::AdamWOptions options{.lr = 2e-3};
  const double start = loss_after<optim::AdamW>(100, optim::AdamWOptions{.lr = 1e-9});
  const double full = loss_after<optim::AdamW>(600, options);
  const double small = loss_after<optim::AdamW8bit>(600, options);
  EXPECT_LT(full, 0.6 * start) << "it has learned something";
  EXPECT_NEAR(small / full, 1, 0.01) << small << " beside " << full;
  // Also where it is still on its way, and a wrong step size would show.
  const double early = loss_after<optim::AdamW>(150, options);
  EXPECT_NEAR(loss_after<optim::AdamW8bit>(150, options) / early, 1, 0.01);
}

TEST(Precision, LionAndAdafactorLearn) {
  const double start = loss_after<optim::AdamW>(100, optim::AdamWOptions{.lr = 1e-9});
  EXPECT_LT(loss_after<optim::Lion>(500, optim::LionOptions{.lr = 1e-3}), 0.5 * start);
  EXPECT_LT(loss_after<optim::Adafactor>(500, optim::AdafactorOptions{}), 0.5 * start);
}

}  // namespace
}  // namespace ebb
