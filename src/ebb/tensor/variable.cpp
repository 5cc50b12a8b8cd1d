#include "ebb/tensor/variable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>

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

class Zeros final : public First {
 public:
  void fill(std::span<std::byte> to, std::uint64_t) const override {
    std::fill(to.begin(), to.end(), std::byte{0});
  }
  bool lasting() const override { return true; }
};

// First values are made one variable at a time: two threads may ask for the same one.
std::mutex& loading() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::shared_ptr<const First> zeros_first() {
  static const auto zeros = std::make_shared<const Zeros>();
  return zeros;
}

Variable::Variable(std::string name, const Tensor& initial, bool trainable, Category category)
    : Variable(std::move(name), initial.spec(), nullptr, trainable, category) {
  initial.check_known();
  set(owned(initial, category));
}

Variable::Variable(std::string name, const Spec& spec, std::shared_ptr<const First> first,
                   bool trainable, Category category)
    : state_(new State{std::move(name), spec, std::move(first), trainable, category,
                       Tensor::Value::next_id(), Scope::current()}) {}

// The next value of the same variable: to tapes it is the same source.
void Variable::set(Tensor next) const noexcept {
  next.handle()->trainable = watched();
  next.handle()->id = state_->id;
  state_->value = std::move(next);
  state_->there.store(true, std::memory_order_release);
}

void Variable::load() const {
  const std::lock_guard lock(loading());
  if (state_->there) return;
  const Scope scope(state_->scope);
  try {
    Tensor t = Tensor::uninitialized(spec(), "variable", state_->category);
    read({t.bytes(), t.spec().bytes()}, 0);
    set(std::move(t));
  } catch (...) {
    if (variable_load_failed()) variable_load_failed()();
    throw;
  }
}

void Variable::read(std::span<std::byte> to, std::uint64_t offset) const {
  const State& s = state();
  if (offset > s.spec.bytes() || to.size() > s.spec.bytes() - offset)
    throw Error(fmt::format("read: bytes {} to {} of variable {}, which has {}", offset,
                            offset + to.size(), s.name, s.spec.bytes()));
  if (s.there.load(std::memory_order_acquire)) {
    if (!to.empty()) std::memcpy(to.data(), s.value.raw() + offset, to.size());
  } else if (s.keeper) {
    s.keeper->read(*this, to, offset);
  } else {
    s.first->fill(to, offset / size_of(s.spec.dtype));
  }
}

void Variable::assign(const Tensor& value) {
  if (value.spec() != spec())
    throw Error(fmt::format("assign: variable {} is {}, the value is {}", name(), to_string(spec()),
                            to_string(value.spec())));
  if (VariableView* view = variable_view()) return view->assign(*this, value);
  set(owned(value, state_->category));
  if (state_->keeper) state_->keeper->written(*this);
}

void Variable::adopt(Tensor value) {
  if (VariableView* view = variable_view()) return view->assign(*this, std::move(value));
  memory::retag(value.handle(), state_->category);
  set(std::move(value));
  if (state_->keeper) state_->keeper->written(*this);
}

void Variable::own() {
  if (!state().there) load();
  if (!state_->value.unique()) set(owned(state_->value, state_->category));
  if (state_->keeper) state_->keeper->written(*this);
}

void Variable::give_to(std::shared_ptr<Keeper> keeper) {
  if (!keeper && !state().there) load();
  state().keeper = std::move(keeper);
  forget();
}

void Variable::forget() noexcept {
  if (!state_->keeper) return;
  state_->there = false;
  state_->value = Tensor();
}

void Variable::empty() {
  throw Error("variable: this handle names no variable; it was never assigned");
}

}  // namespace ebb
