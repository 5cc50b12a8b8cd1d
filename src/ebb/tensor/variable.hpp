// A named, mutable tensor: a parameter, optimizer state, a running statistic.
//
// A Variable is a handle; copies name the same thing. Reading gives the current value, which stays
// what it is even when the variable moves on: writing copies first where somebody still holds it.
// To a tape all values of a variable are one source.
//
// A variable that knows how it begins (an InitialValue) takes its bytes when they are first asked for; so a
// model can be made, and its step planned, in less memory than its parameters need.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

// How a variable begins: any run of its elements, from nothing but their positions.
class InitialValue {
 public:
  virtual ~InitialValue() = default;
  // Elements from `element` on, as many as fit into `to`; `element` is a multiple of kChunk.
  virtual void fill(std::span<std::byte> to, std::uint64_t element) const = 0;
  // Whether it may be asked at any later time, by any thread, and says the same: it reads nothing
  // that changes, and takes no memory.
  virtual bool lasting() const { return false; }
  static constexpr std::uint64_t kChunk = 4096;
};
std::shared_ptr<const InitialValue> zeros_initially();

class Variable {
 public:
  Variable() = default;
  Variable(std::string name, const Tensor& initial, bool trainable = true,
           Category category = Category::parameters);
  Variable(std::string name, const Spec& spec, std::shared_ptr<const InitialValue> first,
           bool trainable = true, Category category = Category::parameters);

  explicit operator bool() const { return state_ != nullptr; }
  const std::string& name() const { return state().name; }
  const Spec& spec() const { return state().spec; }
  const Shape& shape() const { return spec().shape; }
  bool trainable() const { return state().trainable; }
  Category category() const { return state().category; }
  std::uint64_t id() const { return state().id; }  // that of every value it ever has
  bool watched() const { return trainable() && is_float(spec().dtype); }  // by tapes

  const Tensor& value() const;
  operator const Tensor&() const { return value(); }

  // Same dtype and shape. What somebody else keeps goes straight there, and out of memory: the new
  // value, or an error and the old one.
  void assign(const Tensor& value);

  // Likewise, where nobody else holds it: no copy. Cannot fail, except in a traced function that
  // assigns a variable twice.
  void adopt(Tensor value);

  // Makes writing possible without an allocation: afterwards the value is held by nobody else.
  // May throw OutOfMemory, and then nothing has changed.
  void own();
  std::byte* bytes() {  // for writing in place; call own() first
    return state_->value.bytes();
  }

  // Bytes from `offset` on, wherever they are now; for hashing and saving without a copy of it all.
  // `offset` is a multiple of InitialValue::kChunk elements.
  void read(std::span<std::byte> to, std::uint64_t offset) const;
  // Likewise, from any byte on: all of it, or an error and nothing. What somebody else keeps goes
  // straight there. For new values of whole models: ebb/tensor/rewrite.hpp.
  void write(std::span<const std::byte> from, std::uint64_t offset);

  // Another variable with the same name and value.
  Variable clone() const;

  // Set before a model is traced or a tape begins: neither looks again.
  void set_trainable(bool trainable);
  // An optimizer was told of it, be it to train it or to leave it as it is.
  void claim() const { state().claimed = true; }
  bool claimed() const { return state().claimed; }

  // What its value takes of the process where it is in memory, and the promise that counts it.
  std::uint64_t charge() const { return Tensor::charge(spec()); }
  void draw_from(const memory::Promise* promise);

  bool operator==(const Variable& other) const { return state_ == other.state_; }
  bool operator<(const Variable& other) const { return state_ < other.state_; }

  // Somebody who keeps a variable's bytes elsewhere, such as in a spill file.
  class Backing {
   public:
    virtual void read(const Variable& variable, std::span<std::byte> to, std::uint64_t offset) = 0;
    virtual void written(const Variable& variable) = 0;  // it was given another value in memory
    // Beside what is there, which commit() replaces and rollback() leaves. A commit that throws has
    // replaced nothing.
    virtual void write(const Variable& variable, std::span<const std::byte> from,
                       std::uint64_t offset) = 0;
    virtual void commit() = 0;
    virtual void rollback() noexcept = 0;

    virtual ~Backing() = default;
  };
  bool in_memory() const { return state().there; }
  // How it begins, while nobody has asked for its bytes and if that lasts; else nothing.
  std::shared_ptr<const InitialValue> begins() const {
    const State& s = state();
    return s.there || s.backing || !s.first || !s.first->lasting() ? nullptr : s.first;
  }
  // The backing has its bytes now; those in memory are dropped. Null: into memory, to stay.
  void give_to(std::shared_ptr<Backing> backing);
  bool backed() const { return state().backing != nullptr; }
  bool backed_by(const Backing* backing) const { return state().backing.get() == backing; }
  void forget() noexcept;  // drops what was read back from the backing into memory

 private:
  friend class Rewrite;
  struct State {
    std::string name;
    Spec spec;
    std::shared_ptr<const InitialValue> first;  // where the bytes come from until there is a value
    bool trainable;
    Category category;
    std::uint64_t id;
    Scope::Id scope;  // where it was made
    Tensor value{};
    std::atomic<bool> there{false};  // the value; two threads may ask for it first
    std::shared_ptr<Backing> backing{};
    const memory::Promise* promise = nullptr;  // what its value is drawn from; it outlives all
    bool claimed = false;
  };
  State& state() const {
    if (!state_) empty();
    return *state_;
  }
  [[noreturn]] static void empty();
  void load() const;
  const memory::Promise* draws_from() const;
  void check_range(const char* what, std::uint64_t bytes, std::uint64_t offset) const;
  void set(Tensor next) const noexcept;
  std::shared_ptr<State> state_;
};

// Stands between this thread and its variables while a function is traced.
class VariableView {
 public:
  virtual const Tensor& value(const Variable& variable) = 0;
  virtual void assign(const Variable& variable, Tensor value) = 0;

 protected:
  ~VariableView() = default;
};
inline VariableView*& variable_view() {
  thread_local VariableView* view = nullptr;
  return view;
}

// Called when a variable's bytes could not be taken: a step that reads it has failed.
inline void (*&variable_load_failed())() {
  static void (*hook)() = nullptr;
  return hook;
}

inline const Tensor& Variable::value() const {
  if (VariableView* view = variable_view()) return view->value(*this);
  if (!state().there.load(std::memory_order_acquire)) load();
  return state_->value;
}

}  // namespace ebb
