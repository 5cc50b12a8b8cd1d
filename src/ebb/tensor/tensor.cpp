#include "ebb/tensor/tensor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/tensor/constant.hpp"
#include "ebb/tensor/with_type.hpp"

namespace ebb {
namespace {

constexpr std::size_t kHead = 128;
static_assert(sizeof(Tensor::Value) <= kHead);

template <class T>
void fill_with(Tensor& t, double value) {
  std::fill_n(reinterpret_cast<T*>(t.bytes()), t.size(), element_of<T>(value));
}

[[noreturn]] void ragged() {
  throw Error("tensor: the nested values are ragged; every row needs the same length");
}

// Every list at the same depth has the length of the first one there, and values stand at the end.
template <class T>
void check_even(const tensor_detail::Nested<T>& n, std::span<const std::int64_t> dims) {
  if (n.leaf != dims.empty()) ragged();
  if (n.leaf) return;
  if (static_cast<std::int64_t>(n.items.size()) != dims[0]) ragged();
  for (const auto& item : n.items) check_even(item, dims.subspan(1));
}

template <class T>
void flatten(const tensor_detail::Nested<T>& n, T*& to) {
  if (n.leaf) *to++ = n.value;
  for (const auto& item : n.items) flatten(item, to);
}

}  // namespace

template <class T>
Tensor Tensor::of(std::initializer_list<Nested<std::type_identity_t<T>>> items) {
  std::vector<std::int64_t> dims;
  const Nested<T> root(items);
  for (const Nested<T>* n = &root; !n->leaf; n = n->items.begin()) {
    dims.push_back(static_cast<std::int64_t>(n->items.size()));
    if (n->items.size() == 0) break;
  }
  check_even<T>(root, dims);
  Tensor out = uninitialized({Shape(dims), dtype_of<T>}, "of");
  T* to = reinterpret_cast<T*>(out.bytes());
  flatten(root, to);
  return out;
}
template Tensor Tensor::of<float>(std::initializer_list<Nested<float>>);
template Tensor Tensor::of<double>(std::initializer_list<Nested<double>>);
template Tensor Tensor::of<bf16>(std::initializer_list<Nested<bf16>>);
template Tensor Tensor::of<f16>(std::initializer_list<Nested<f16>>);
template Tensor Tensor::of<std::int32_t>(std::initializer_list<Nested<std::int32_t>>);
template Tensor Tensor::of<std::int64_t>(std::initializer_list<Nested<std::int64_t>>);
template Tensor Tensor::of<std::uint8_t>(std::initializer_list<Nested<std::uint8_t>>);
template Tensor Tensor::of<bool>(std::initializer_list<Nested<bool>>);

std::uint64_t Tensor::Value::next_id() {
  static std::atomic<std::uint64_t> next{1};
  thread_local std::uint64_t mine = 0, end = 0;
  if (mine == end) {
    mine = next.fetch_add(4096, std::memory_order_relaxed);
    end = mine + 4096;
  }
  return mine++;
}

std::uint64_t Tensor::charge(const Spec& spec) { return memory::charge_of(kHead + spec.bytes()); }

Tensor::Value* Tensor::Value::create(const Spec& spec, const char* site, Category category) {
  void* block = memory::take(kHead + spec.bytes(), site, category);
  Value* v = new (block) Value;
  v->id = next_id();
  v->spec = spec;
  v->data = static_cast<std::byte*>(block) + kHead;
  return v;
}

// The bytes of a symbol lie nowhere; offsets of its views are counted from there.
Tensor::Value* Tensor::Value::create_symbol(const Spec& spec) {
  Value* v = new (memory::take(kHead, "symbol", Category::workspace)) Value;
  v->id = next_id();
  v->symbol = true;
  v->spec = spec;
  v->data = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 46);
  return v;
}

Tensor::Value* Tensor::Value::view(Value* base, const Spec& spec, std::size_t offset_bytes) {
  Value* v = new (memory::take(kHead, "view", Category::workspace)) Value;
  v->id = next_id();
  v->spec = spec;
  v->data = base->data + offset_bytes;
  v->symbol = base->symbol;
  v->base = base->base ? base->base : base;
  v->base->refs.fetch_add(1, std::memory_order_relaxed);
  return v;
}

void Tensor::Value::destroy() noexcept {
  Value* base_value = base;
  this->~Value();
  memory::give(this);
  if (base_value) base_value->drop();
}

Tensor Tensor::uninitialized(const Spec& spec, const char* site) {
  return adopt(Value::create(spec, site, CategoryScope::current()));
}

Tensor Tensor::uninitialized(const Spec& spec, const char* site, Category category) {
  return adopt(Value::create(spec, site, category));
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, const Spec& spec) {
  if (bytes.size() != spec.bytes())
    throw Error(fmt::format("tensor: {} values were given for {}, which has {} elements",
                            bytes.size() / size_of(spec.dtype), to_string(spec), spec.size()));
  Tensor t = uninitialized(spec, "from");
  if (!bytes.empty()) std::memcpy(t.bytes(), bytes.data(), bytes.size());
  return t;
}

Tensor Tensor::from(const std::vector<bool>& values, const Shape& shape) {
  std::vector<std::byte> bytes(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) bytes[i] = std::byte{values[i]};
  return from_bytes(bytes, {shape, DType::boolean});
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  check_constant("full", value, dtype);
  Tensor t = uninitialized({shape, dtype}, "full");
  with_type(dtype, [&](auto zero) { fill_with<decltype(zero)>(t, value); });
  return t;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor t = uninitialized({shape, dtype}, "zeros");
  std::memset(t.bytes(), 0, t.spec().bytes());
  return t;
}

Tensor Tensor::ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor Tensor::scalar(double value, DType dtype) { return full({}, value, dtype); }

Tensor Tensor::arange(std::int64_t count, DType dtype) {
  if (is_half(dtype) || dtype == DType::boolean)
    throw Error(fmt::format("arange: {} cannot count; use f32, f64, i32, i64 or u8", name(dtype)));
  if (count > 0 && dtype != DType::i64)
    check_constant("arange", static_cast<double>(count - 1), dtype);
  Tensor t = uninitialized({{count}, dtype}, "arange");
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>) {
      T* to = reinterpret_cast<T*>(t.bytes());
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(i);
    }
  });
  return t;
}

std::int64_t Tensor::dim(int axis) const { return shape()[axis_of("dim", axis, rank())]; }

double Tensor::item() const {
  check_single();
  return with_type(dtype(), [&](auto zero) -> double {
    using T = decltype(zero);
    return number_of(*reinterpret_cast<const T*>(value_->data));
  });
}

Tensor Tensor::viewed(const Shape& to) const {
  if (to.size() != size())
    throw Error(fmt::format("reshape: {} has {} elements, {} has {}", to_string(shape()), size(),
                            to_string(to), to.size()));
  return adopt(Value::view(value_, {to, dtype()}, 0));
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t end) const {
  if (rank() == 0 || begin < 0 || end < begin || end > shape()[0])
    throw Error(
        fmt::format("rows: [{}, {}) of {} is out of range", begin, end, to_string(shape())));
  std::size_t row_bytes = size_of(dtype());
  for (int i = 1; i < rank(); ++i) row_bytes *= static_cast<std::size_t>(shape()[i]);
  return adopt(Value::view(value_, spec().with_axis(0, end - begin),
                           static_cast<std::size_t>(begin) * row_bytes));
}

Tensor Tensor::copy(const char* site) const {
  check_known();
  Tensor t = uninitialized(spec(), site);
  std::memcpy(t.bytes(), raw(), spec().bytes());
  return t;
}

void Tensor::empty() { throw Error("tensor: this handle holds no tensor; it was never assigned"); }

void Tensor::check_known() const {
  if (value().symbol)
    throw Error(
        fmt::format("data: {} is only known when the compiled step runs; a function that is "
                    "compiled cannot read "
                    "or decide by values, so return it as a result, or use where()",
                    to_string(spec())));
}

void Tensor::check_dtype(DType wanted) const {
  check_known();
  if (dtype() != wanted)
    throw Error(fmt::format("data: asked for {} elements of a tensor that is {}; cast it first",
                            name(wanted), to_string(spec())));
}

void Tensor::check_single() const {
  check_known();
  if (size() != 1)
    throw Error(fmt::format("item: {} has {} elements, expected one", to_string(spec()), size()));
}

}  // namespace ebb
