// A small program of a user: derivatives with the tape, checked against what they are by hand.
#include <ebb/ebb.hpp>

#include <cstdio>

int main() {
  const ebb::Tensor x = ebb::Tensor::of({1.0f, 2.0f, 3.0f});
  ebb::Tape tape({.persistent = true});
  tape.watch(x);
  const ebb::Tensor y = x * x, z = y * y;
  const ebb::Tensor dy_dx = tape.gradient(y, x), dz_dx = tape.gradient(z, x);
  for (int i = 0; i < 3; ++i) {
    const float v = x.data<float>()[i];
    if (dy_dx.data<float>()[i] != 2 * v || dz_dx.data<float>()[i] != 4 * v * v * v) {
      std::printf("wrong derivative at %g\n", v);
      return 1;
    }
  }
  std::puts("derivatives are right");
}
