// A named, mutable tensor: a parameter, optimizer state, a running statistic.
//
// A Variable is a handle; copies name the same thing. Reading gives the current value, which stays
// what it is even when the variable moves on: writing copies first where somebody still holds it.
// To a tape all values of a variable are one source.
#pragma once

#include <memory>
#include <string>

#include "ebb/tensor/tensor.hpp"

namespace ebb {

class Variable {
 public:
  Variable() = default;
  Variable(std::string name, const Tensor& initial, bool trainable = true,
           Category category = Category::parameters);

  explicit operator bool() const { return state_ != nullptr; }
  const std::string& name() const { return state().name; }
  const Spec& spec() const { return state().value.spec(); }
  const Shape& shape() const { return spec().shape; }
  bool trainable() const { return state().trainable; }

  const Tensor& value() const { return state().value; }
  operator const Tensor&() const { return state().value; }

  void assign(const Tensor& value);  // same dtype and shape

  void adopt(Tensor value) noexcept;  // likewise, where nobody else holds it: no copy, cannot fail

  // Makes writing possible without an allocation: afterwards the value is held by nobody else.
  // May throw OutOfMemory, and then nothing has changed.
  void own();
  std::byte* bytes() {  // for writing in place; call own() first
    return state_->value.bytes();
  }

  bool operator==(const Variable& other) const { return state_ == other.state_; }

 private:
  struct State {
    std::string name;
    Tensor value;
    bool trainable;
    Category category;
  };
  State& state() const {
    if (!state_) empty();
    return *state_;
  }
  [[noreturn]] static void empty();
  std::shared_ptr<State> state_;
};

}  // namespace ebb
