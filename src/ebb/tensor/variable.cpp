#include "ebb/tensor/variable.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/base/memory.hpp"

namespace ebb {
namespace {

// A value of its own: nobody else holds it, and it is entered in the right category.
Tensor owned(const Tensor& from, Category category) {
  Tensor t = Tensor::uninitialized(from.spec(), "variable", category);
  std::memcpy(t.bytes(), from.raw(), from.spec().bytes());
  return t;
}

// The next value of the same variable: to tapes it is the same source.
Tensor succeed(Tensor next, const Tensor& before) {
  next.handle()->trainable = before.handle()->trainable;
  next.handle()->id = before.id();
  return next;
}

}  // namespace

Variable::Variable(std::string name, const Tensor& initial, bool trainable, Category category)
    : state_(std::make_shared<State>(
          State{std::move(name), owned(initial, category), trainable, category})) {
  state_->value.handle()->trainable = trainable && is_float(initial.dtype());
}

void Variable::assign(const Tensor& value) {
  if (value.spec() != spec())
    throw Error(fmt::format("assign: variable {} is {}, the value is {}", name(), to_string(spec()),
                            to_string(value.spec())));
  state_->value = succeed(owned(value, state_->category), state_->value);
}

void Variable::adopt(Tensor value) noexcept {
  memory::retag(value.handle(), state_->category);
  state_->value = succeed(std::move(value), state_->value);
}

void Variable::own() {
  if (!state().value.unique())
    state_->value = succeed(owned(state_->value, state_->category), state_->value);
}

void Variable::empty() {
  throw Error("variable: this handle names no variable; it was never assigned");
}

}  // namespace ebb
