// A cheap handle to an immutable value: contiguous, row-major.
//
// A reshape, or a slice of the first axis, is a view: it shares the bytes and keeps them alive.
// Handles may be copied and dropped from any thread.
#pragma once

#include <atomic>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/tensor/spec.hpp"

namespace ebb {

namespace tensor_detail {

// Stands before a tensor's bytes, in the same block; a view has one of its own.
struct Value {
  std::atomic<std::uint32_t> refs{1};
  bool trainable = false;  // the value of a variable that tapes watch
  bool symbol = false;     // a spec without bytes: what a function is traced with
  std::uint64_t id = 0;    // never used twice
  Spec spec;
  std::byte* data = nullptr;
  Value* base = nullptr;  // whose bytes a view shares

  static Value* create(const Spec& spec, const char* site, Category category);
  static Value* create_symbol(const Spec& spec);
  static Value* view(Value* base, const Spec& spec, std::size_t offset_bytes);
  static std::uint64_t next_id();
  void drop() noexcept {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }

 private:
  void destroy() noexcept;
};

// Nested braces of numbers: {{1, 2}, {3, 4}}. They last as long as the expression they stand in.
template <class T>
struct Nested {
  Nested(T value) : value(value) {}
  Nested(std::initializer_list<Nested> items) : items(items), leaf(false) {}
  T value{};
  std::initializer_list<Nested> items;
  bool leaf = true;
};

}  // namespace tensor_detail

class Tensor {
 public:
  using Value = tensor_detail::Value;
  template <class T>
  using Nested = tensor_detail::Nested<T>;

  Tensor() = default;  // no tensor at all
  Tensor(const Tensor& other) : value_(other.value_) {
    if (value_) value_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Value* const old = std::exchange(value_, std::exchange(other.value_, nullptr));
    if (old) old->drop();
    return *this;
  }
  ~Tensor() {
    if (value_) value_->drop();
  }

  // Values from the program.
  //
  // Constants of integer types, here and in every op that takes one as a double: what becomes an
  // element (full, a number beside a tensor, the value of pad) must be one, a whole number in the
  // type's range (0 or 1 of bool), else it is an Error; nothing wraps and nothing is cut off. What
  // only limits elements (clip) may be any number but NaN: a lower limit counts from the next whole
  // number up, an upper one from the next down, and beyond the type's range there is no limit.
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32);
  static Tensor ones(const Shape& shape, DType dtype = DType::f32);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  static Tensor scalar(double value, DType dtype = DType::f32);
  static Tensor arange(std::int64_t count, DType dtype = DType::i64);  // 0, 1, …
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    return from_bytes(std::as_bytes(values), {shape, dtype_of<T>});
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  static Tensor from(const std::vector<bool>& values, const Shape& shape);
  template <class T = float>
  static Tensor of(std::initializer_list<Nested<std::type_identity_t<T>>> items);

  explicit operator bool() const { return value_ != nullptr; }
  const Spec& spec() const { return value().spec; }
  const Shape& shape() const { return value().spec.shape; }
  DType dtype() const { return value().spec.dtype; }
  int rank() const { return shape().rank(); }
  std::int64_t size() const { return shape().size(); }
  std::int64_t dim(int axis) const;  // negative counts from the back

  // The elements; T must be the tensor's own type.
  template <class T>
  std::span<const T> data() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(value_->data), static_cast<std::size_t>(size())};
  }
  template <class T>
  T item() const {
    check_single();
    return data<T>()[0];
  }
  double item() const;  // the single element, of any type, as a double
  template <class T>
  std::vector<T> to_vector() const {
    const auto all = data<T>();
    return {all.begin(), all.end()};
  }

  // Views, of data: no tape sees them. reshape() and slice() are the same as ops.
  Tensor viewed(const Shape& shape) const;                  // same number of elements
  Tensor rows(std::int64_t begin, std::int64_t end) const;  // [begin, end) of axis 0

  // For the layers above: raw bytes, identity, and writing into a value nobody has seen yet.
  static Tensor uninitialized(const Spec& spec, const char* site);
  static Tensor uninitialized(const Spec& spec, const char* site, Category category);
  static Tensor from_bytes(std::span<const std::byte> bytes, const Spec& spec);
  static std::uint64_t charge(const Spec& spec);  // what such a tensor takes of the process
  static Tensor adopt(Value* value) {
    Tensor t;
    t.value_ = value;
    return t;
  }
  static Tensor symbolic(const Spec& spec) { return adopt(Value::create_symbol(spec)); }
  bool symbol() const { return value_ && value_->symbol; }
  const std::byte* raw() const { return value_->data; }
  std::byte* bytes() { return value_->data; }
  std::uint64_t id() const { return value().id; }
  Value* handle() const { return value_; }
  // Nobody else holds this value or its bytes: it may be overwritten and given a new identity.
  bool unique() const {
    return value_ && !value_->base && value_->refs.load(std::memory_order_acquire) == 1;
  }
  void renew() { value_->id = Value::next_id(); }
  Tensor copy(const char* site = "copy") const;
  void check_known() const;  // throws where it is a symbol, inside a function that is compiled

 private:
  const Value& value() const {
    if (!value_) empty();
    return *value_;
  }
  [[noreturn]] static void empty();
  void check_dtype(DType wanted) const;
  void check_single() const;

  Value* value_ = nullptr;
};

}  // namespace ebb
