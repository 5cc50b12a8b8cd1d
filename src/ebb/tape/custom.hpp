// Gradient rules of the user's own, and blocks that are recomputed instead of kept. Both are plain
// functions of functions:
//
//   Tensor y = custom_gradient([](const Tensor& x) {
//     Tensor e = exp(x);
//     return Custom{log1p(e), [e](const Tensor& dy) { return std::vector{dy * (e / (e + 1.0))}; }};
//   }, x);
//
//   auto block = checkpoint([&](const Tensor& x) { return layer(relu(layer2(x))); });
//   Tensor y = block(x);     // keeps x only; the walk back calls the function once more
#pragma once

#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ebb/tensor/tensor.hpp"

namespace ebb {

// A result, and how gradients with respect to the function's inputs follow from the result's.
struct Custom {
  Tensor result;
  std::function<std::vector<Tensor>(const Tensor& output_gradient)> gradient;
};

namespace custom_detail {

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

Tensor custom_gradient_of(const std::function<Custom(std::span<const Tensor>)>& fn,
                          std::span<const Tensor> inputs);
std::vector<Tensor> checkpointed(const Function& fn, std::span<const Tensor> inputs);

template <class F, std::size_t... I>
auto spread(F& f, std::span<const Tensor> in, std::index_sequence<I...>) {
  return f(in[I]...);
}

}  // namespace custom_detail

template <class F, class... T>
Tensor custom_gradient(F fn, const T&... inputs) {
  const std::array<Tensor, sizeof...(T)> in{static_cast<const Tensor&>(inputs)...};
  return custom_detail::custom_gradient_of(
      [&](std::span<const Tensor> x) {
        return custom_detail::spread(fn, x, std::index_sequence_for<T...>{});
      },
      in);
}

// checkpoint(fn) is fn, except that what happens inside is not kept for the walk back but computed
// again, with the same random draws: the same bits. fn is copied, and must still be callable then.
template <class F>
auto checkpoint(F fn) {
  return [fn = std::move(fn)]<class... T>(const T&... inputs) {
    const std::array<Tensor, sizeof...(T)> in{static_cast<const Tensor&>(inputs)...};
    return std::move(custom_detail::checkpointed(
        [fn](std::span<const Tensor> x) {
          return std::vector<Tensor>{custom_detail::spread(fn, x, std::index_sequence_for<T...>{})};
        },
        in)[0]);
  };
}

}  // namespace ebb
