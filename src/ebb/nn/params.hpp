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

// Calls f with every variable of a part, in the order each() lists them.
template <class Part, class F>
void each_variable(Part& part, F&& f) {
  if constexpr (std::is_same_v<std::remove_const_t<Part>, Variable>) {
    f(part);
  } else if constexpr (requires { part.each([](auto&&...) {}); }) {
    part.each([&](auto&&, auto& inner) { each_variable(inner, f); });
  } else if constexpr (requires {
                         part.begin();
                         part.end();
                       }) {
    for (auto& inner : part) each_variable(inner, f);
  } else {
    // What is trivially copyable (a function, a pooling layer) holds no variable.
    static_assert(
        std::is_trivially_copyable_v<Part>,
        "params: this part may have variables; let it list them with each(), and pass the "
        "model as non-const");
  }
}

template <class Part>
void collect(Part& part, Collected& into, bool only_trainable) {
  each_variable(part, [&](const Variable& v) { into.add(v, only_trainable); });
}

// The copy of a variable; one met again (tied weights) has one copy.
class Cloned {
 public:
  const Variable& of(const Variable& v);

 private:
  std::vector<std::pair<Variable, Variable>> known_;
};

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

// The same model with variables of its own, of the same names and values. Compiled steps and
// optimizers know those of the first one.
template <class Model>
Model clone(const Model& model) {
  Model copy = model;
  nn::Cloned cloned;
  nn::each_variable(copy, [&](Variable& v) { v = cloned.of(v); });
  return copy;
}

// No optimizer trains this part from now on, and no tape watches it. To be said before params() is
// asked and before a step is compiled.
template <class Part>
void freeze(Part& part) {
  nn::each_variable(part, [](Variable& v) { v.set_trainable(false); });
}

}  // namespace ebb
