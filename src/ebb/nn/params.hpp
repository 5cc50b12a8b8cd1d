// The variables of a model, found through its each().
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ebb/tensor/tensor.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb {
namespace nn {

// Throws where two of them share a name; a variable met twice (tied weights) counts once.
class Collected {
 public:
  void add(const Variable& v, bool only_trainable);
  std::vector<Variable> take() { return std::move(all_); }

 private:
  std::vector<Variable> all_;
};

template <class Part>
void collect(Part& part, Collected& into, bool only_trainable) {
  if constexpr (std::is_same_v<std::remove_const_t<Part>, Variable>) {
    into.add(part, only_trainable);
  } else if constexpr (requires { part.each([](auto&&...) {}); }) {
    part.each([&](auto&&, auto& inner) { collect(inner, into, only_trainable); });
  } else if constexpr (requires { part.begin(); part.end(); }) {
    for (auto& inner : part) collect(inner, into, only_trainable);
  } else {
    // What is trivially copyable (a function, a pooling layer) holds no variable.
    static_assert(std::is_trivially_copyable_v<Part>,
                  "params: this part may have variables; let it list them with each(), and pass the "
                  "model as non-const");
  }
}

// Layers called one after the other: Sequential(Dense(…), relu, Dense(…)).
template <class... L>
struct Sequential {
  std::tuple<L...> layers;
  explicit Sequential(L... l) : layers(std::move(l)...) {}
  Tensor operator()(Tensor x) const {
    std::apply([&](const auto&... l) { ((x = l(x)), ...); }, layers);
    return x;
  }
  void each(auto&& f) {
    int i = 0;
    std::apply([&](auto&... l) { (visit(f, i++, l), ...); }, layers);
  }

 private:
  static void visit(auto&& f, int index, auto& layer) {
    if constexpr (requires { layer.each([](auto&&...) {}); }) f(std::to_string(index), layer);
  }
};

}  // namespace nn

// Trainable parameters, in the order each() lists them.
template <class Model>
std::vector<Variable> params(Model& model) {
  nn::Collected all;
  nn::collect(model, all, true);
  return all.take();
}

// These and what is not trained, such as running statistics: what a checkpoint holds.
template <class Model>
std::vector<Variable> variables(Model& model) {
  nn::Collected all;
  nn::collect(model, all, false);
  return all.take();
}

}  // namespace ebb
