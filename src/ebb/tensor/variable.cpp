#include "ebb/tensor/variable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"

namespace ebb {
namespace {

// A value of its own: nobody else holds it, and it is entered in the right category.
Tensor owned(const Tensor& from, Category category) {
  Tensor t = Tensor::uninitialized(from.spec(), "variable", category);
  std::memcpy(t.bytes(), from.raw(), from.spec().bytes());
  return t;
}

class Zeros final : public InitialValue {
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

// Counts a value to a promise; one that a tensor is a view of stays where it is.
void count_to(const memory::Promise* promise, const Tensor& value) {
  if (value && !value.symbol()) memory::draw(value.handle(), promise);
}

}  // namespace

std::shared_ptr<const InitialValue> zeros_initially() {
  static const auto zeros = std::make_shared<const Zeros>();
  return zeros;
}

Variable::Variable(std::string name, const Tensor& initial, bool trainable, Category category)
    : Variable(std::move(name), initial.spec(), nullptr, trainable, category) {
  initial.check_known();
  set(owned(initial, category));
}

Variable::Variable(std::string name, const Spec& spec, std::shared_ptr<const InitialValue> first,
                   bool trainable, Category category)
    : state_(new State{std::move(name), spec, std::move(first), trainable, category,
                       Tensor::Value::next_id(), Scope::current()}) {}

// The next value of the same variable: to tapes it is the same source. What the program still holds
// of the old one is its own.
void Variable::set(Tensor next) const noexcept {
  next.handle()->trainable = watched();
  next.handle()->id = state_->id;
  if (state_->promise) {
    if (!state_->backing) count_to(state_->promise, next);
    if (state_->value && !state_->value.unique()) count_to(nullptr, state_->value);
  }
  state_->value = std::move(next);
  state_->there.store(true, std::memory_order_release);
}

void Variable::draw_from(const memory::Promise* promise) {
  state().promise = promise;
  if (state_->there && !state_->backing) count_to(promise, state_->value);
}

// What somebody else keeps was promised no place in memory: whoever reads it, be it a step or the
// program, has it until the backing's next step.
const memory::Promise* Variable::draws_from() const {
  return state_->backing ? nullptr : state_->promise;
}

void Variable::load() const {
  const std::lock_guard lock(loading());
  if (state_->there) return;
  const Scope scope(state_->scope);
  const memory::Drawing draws(draws_from());
  try {
    Tensor t = Tensor::uninitialized(spec(), "variable", state_->category);
    read({t.bytes(), t.spec().bytes()}, 0);
    set(std::move(t));
  } catch (...) {
    if (variable_load_failed()) variable_load_failed()();
    throw;
  }
}

void Variable::check_range(const char* what, std::uint64_t bytes, std::uint64_t offset) const {
  if (offset > spec().bytes() || bytes > spec().bytes() - offset)
    throw Error(fmt::format("{}: bytes {} to {} of variable {}, which has {}", what, offset,
                            offset + bytes, name(), spec().bytes()));
}

void Variable::read(std::span<std::byte> to, std::uint64_t offset) const {
  check_range("read", to.size(), offset);
  const State& s = state();
  if (s.there.load(std::memory_order_acquire)) {
    if (!to.empty()) std::memcpy(to.data(), s.value.raw() + offset, to.size());
  } else if (s.backing) {
    s.backing->read(*this, to, offset);
  } else {
    s.first->fill(to, offset / size_of(s.spec.dtype));
  }
}

namespace {

void write_through(Variable::Backing& backing, const Variable& variable,
                   std::span<const std::byte> from, std::uint64_t offset) {
  try {
    backing.write(variable, from, offset);
    backing.commit();
  } catch (...) {
    backing.rollback();
    throw;
  }
}

}  // namespace

void Variable::write(std::span<const std::byte> from, std::uint64_t offset) {
  check_range("write", from.size(), offset);
  if (variable_view())
    throw Error(
        fmt::format("write: bytes of variable {} inside a compiled function, which notes only "
                    "values; assign it there, or write outside",
                    name()));
  if (state_->backing && !state_->there)
    return write_through(*state_->backing, *this, from, offset);
  own();
  if (!from.empty()) std::memcpy(bytes() + offset, from.data(), from.size());
}

void Variable::assign(const Tensor& value) {
  if (value.spec() != spec())
    throw Error(fmt::format("assign: variable {} is {}, the value is {}", name(), to_string(spec()),
                            to_string(value.spec())));
  if (VariableView* view = variable_view()) return view->assign(*this, value);
  value.check_known();
  if (state_->backing) {
    write_through(*state_->backing, *this, {value.raw(), value.spec().bytes()}, 0);
    forget();
  } else if (state_->there && state_->value.unique() && state_->value.handle() != value.handle()) {
    std::memcpy(state_->value.bytes(), value.raw(), value.spec().bytes());  // in its place
  } else {
    const memory::Drawing draws(draws_from());
    set(owned(value, state_->category));
  }
}

void Variable::adopt(Tensor value) {
  if (VariableView* view = variable_view()) return view->assign(*this, std::move(value));
  memory::retag(value.handle(), state_->category);
  set(std::move(value));
  if (state_->backing) state_->backing->written(*this);
}

void Variable::own() {
  if (!state().there) load();
  if (!state_->value.unique()) {
    const memory::Drawing draws(draws_from());
    set(owned(state_->value, state_->category));
  }
  if (state_->backing) state_->backing->written(*this);
}

Variable Variable::clone() const {
  const State& s = state();
  const Scope scope(s.scope);
  Variable other(s.name, s.spec, s.first, s.trainable, s.category);
  if (!s.there && !s.backing) return other;
  Tensor t = Tensor::uninitialized(s.spec, "variable", s.category);
  read({t.bytes(), s.spec.bytes()}, 0);
  other.set(std::move(t));
  return other;
}

void Variable::set_trainable(bool trainable) {
  state().trainable = trainable;
  if (state_->there) state_->value.handle()->trainable = watched();
}

void Variable::give_to(std::shared_ptr<Backing> backing) {
  if (!backing && !state().there) load();
  state().backing = std::move(backing);
  forget();
  if (!state_->backing) draw_from(state_->promise);
}

void Variable::forget() noexcept {
  if (!state_->backing) return;
  state_->there = false;
  state_->value = Tensor();
}

void Variable::empty() {
  throw Error("variable: this handle names no variable; it was never assigned");
}

}  // namespace ebb
