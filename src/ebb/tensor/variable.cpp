#include "ebb/tensor/variable.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/base/memory.hpp"

namespace ebb {
namespace {

// A value of its own: nobody else holds it, and it is entered in the right category.
Tensor owned(const Tensor& from, Category category, bool trainable) {
  Tensor t = Tensor::uninitialized(from.spec(), "variable", category);
  std::memcpy(t.bytes(), from.raw(), from.spec().bytes());
  t.handle()->trainable = trainable;
  return t;
}

}  // namespace

Variable::Variable(std::string name, const Tensor& initial, bool trainable, Category category)
    : state_(std::make_shared<State>(
          State{std::move(name), owned(initial, category, trainable && is_float(initial.dtype())),
                trainable, category})) {}

void Variable::assign(const Tensor& value) {
  if (value.spec() != spec())
    throw Error(fmt::format("assign: variable {} is {}, the value is {}", name(), to_string(spec()),
                            to_string(value.spec())));
  state_->value = owned(value, state_->category, state_->value.handle()->trainable);
}

void Variable::adopt(Tensor value) noexcept {
  memory::retag(value.handle(), state_->category);
  value.handle()->trainable = state_->value.handle()->trainable;
  state_->value = std::move(value);
}

void Variable::own() {
  if (!state_->value.unique())
    state_->value = owned(state_->value, state_->category, state_->value.handle()->trainable);
}

}  // namespace ebb
