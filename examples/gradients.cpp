// The tape as people know it: gradients, gradients of gradients, Jacobians, rules of one's own.
#include <ebb/ebb.hpp>
using namespace ebb;

int main() {
  const Tensor x = Tensor::of({1, 2, 3});
  {
    Tape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = x * x, z = y * y;
    std::cout << "d(x^4)/dx = " << tape.gradient(z, x) << '\n';
    std::cout << "d(x^2)/dx = " << tape.gradient(y, x) << '\n';
  }
  {
    Tape outer;
    outer.watch(x);
    Tensor first;
    {
      Tape inner;
      inner.watch(x);
      first = inner.gradient(exp(x), x);
    }
    std::cout << "second derivative of exp(x) = " << outer.gradient(first, x) << '\n';
  }
  {
    Tape tape;
    tape.watch(x);
    std::cout << "Jacobian of cumsum(x) = " << tape.jacobian(cumsum(x, 0), x) << '\n';
  }
  {
    Tape tape;
    tape.watch(x);
    const Tensor y = custom_gradient(  // passes a gradient through rounding to whole numbers
        [](const Tensor& v) {
          return Custom{cast(cast(v, DType::i32), DType::f32),
                        [](const Tensor& dy) { return std::vector<Tensor>{dy}; }};
        },
        x * 1.5);
    std::cout << "straight through = " << tape.gradient(y, x) << '\n';
  }
}
