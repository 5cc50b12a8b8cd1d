// By type, in few calls, 16-bit parameters through f32 piece by piece.
#include "ebb/optim/run_rule.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "ebb/base/half.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/convert.hpp"

namespace ebb::optim {
namespace {

using kernels::AdafactorRule;
using kernels::Adam8Rule;
using kernels::GradientUse;
using kernels::Update;
using kernels::Update8;

constexpr std::size_t kAtOnce = 128;  // tensors in a call
constexpr std::size_t kPiece = 1024;  // elements widened at a time: a multiple of kStateBlock

template <class T>
T* at(std::byte* p, std::size_t i) {
  return p ? reinterpret_cast<T*>(p) + i : nullptr;
}
template <class T>
const T* at(const std::byte* p, std::size_t i) {
  return reinterpret_cast<const T*>(p) + i;
}

// Elements [from, from + n) of an entry as the kernel of a rule takes them.
template <class T, class Rule>
Update<T> piece_of(const Entry& e, T* param, const T* grad, std::size_t from, std::size_t n,
                   const Rule&) {
  return {param, grad, {at<T>(e.state[0], from), at<T>(e.state[1], from)}, n};
}
template <class T>
Update8 piece_of(const Entry& e, T* param, const T* grad, std::size_t from, std::size_t n,
                 const Adam8Rule&) {
  return part_of(kernels::update8(nullptr, nullptr, e.state[0], e.size()), param, grad, from, n);
}

template <class T, class Rule>
void call(std::span<const Update<T>> tensors, const Rule& rule, GradientUse use) {
  kernels::update(tensors, rule, use);
}
void call(std::span<const Update8> tensors, const Adam8Rule& rule, GradientUse use) {
  kernels::adam8(tensors, rule, use);
}

// All entries of a type, many in a call: one fork for them all.
template <class T, class Rule>
void run_plain(std::span<const Entry> entries, DType type, const Rule& rule, GradientUse use) {
  using Piece = decltype(piece_of<T>(entries[0], nullptr, nullptr, 0, 0, rule));
  std::array<Piece, kAtOnce> pieces;
  std::size_t count = 0;
  const auto flush = [&] {
    call(std::span<const Piece>(pieces.data(), count), rule, use);
    count = 0;
  };
  for (const Entry& e : entries) {
    if (e.spec->dtype != type || e.grad_type != type || e.index_spec) continue;
    pieces[count++] = piece_of(e, at<T>(e.param, 0), at<T>(e.grad, 0), 0, e.size(), rule);
    if (count == kAtOnce) flush();
  }
  if (count > 0) flush();
}

void widen(DType type, const std::byte* from, std::size_t first, std::size_t n, float* to) {
  if (type == DType::bf16) {
    kernels::convert(at<bf16>(from, first), to, n);
  } else {
    kernels::convert(at<f16>(from, first), to, n);
  }
}
void narrow(DType type, const float* from, std::byte* to, std::size_t first, std::size_t n) {
  if (type == DType::bf16) {
    kernels::convert(from, at<bf16>(to, first), n);
  } else {
    kernels::convert(from, at<f16>(to, first), n);
  }
}

template <class Rule>
void run_half(const Entry& e, const Rule& rule, GradientUse use) {
  const std::size_t size = e.size();
  pool::parallel_for((size + kPiece - 1) / kPiece, 16, [&](std::size_t begin, std::size_t end) {
    alignas(64) float params[kPiece], grads[kPiece];
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i * kPiece, n = std::min(kPiece, size - first);
      const bool half_grad = is_half(e.grad_type), half_param = is_half(e.spec->dtype);
      float* param = half_param ? at<float>(e.master, first) : at<float>(e.param, first);
      if (!param) widen(e.spec->dtype, e.param, first, n, param = params);
      if (half_grad) widen(e.grad_type, e.grad, first, n, grads);
      const float* grad = half_grad ? grads : at<float>(e.grad, first);
      const auto piece = piece_of(e, param, grad, first, n, rule);
      call(std::span(&piece, 1), rule, use);
      if (half_param) narrow(e.spec->dtype, param, e.param, first, n);
    }
  });
}

template <class T>
kernels::FactoredUpdate<T> factored_update(const Entry& e) {
  const Shape& shape = e.spec->shape;
  std::size_t rows = 1, cols = e.size(), count = 1;
  if (factored(*e.spec)) {
    rows = static_cast<std::size_t>(shape[shape.rank() - 2]);
    cols = static_cast<std::size_t>(shape[shape.rank() - 1]);
    for (int i = 0; i + 2 < shape.rank(); ++i) count *= static_cast<std::size_t>(shape[i]);
  }
  T* const place = reinterpret_cast<T*>(64);  // for sizes alone: whether there are columns
  T* const col = e.state[1] ? at<T>(e.state[1], 0) : factored(*e.spec) ? place : nullptr;
  return {at<T>(e.param, 0), at<T>(e.grad, 0), at<T>(e.state[0], 0), col, count, rows, cols};
}

template <class T>
void run_factored(std::span<const Entry> entries, DType type, const AdafactorRule& rule,
                  GradientUse use, std::span<std::byte> scratch) {
  std::array<kernels::FactoredUpdate<T>, kAtOnce> pieces;
  std::size_t count = 0;
  const auto flush = [&] {
    kernels::adafactor(std::span<const kernels::FactoredUpdate<T>>(pieces.data(), count), rule, use,
                       scratch);
    count = 0;
  };
  for (const Entry& e : entries) {
    if (e.spec->dtype != type) continue;
    pieces[count++] = factored_update<T>(e);
    if (count == kAtOnce) flush();
  }
  if (count > 0) flush();
}

template <class T>
Update<T> gradient_only(const std::byte* gradient, std::size_t size) {
  return {nullptr, at<T>(gradient, 0), {nullptr, nullptr}, size};
}

}  // namespace

template <class Rule>
Spec state_spec(const Spec& param, int, int) {
  return {param.shape, working_type(param.dtype)};
}
template <>
Spec state_spec<Adam8Rule>(const Spec& param, int, int) {
  const auto size = static_cast<std::size_t>(param.size());
  return {{static_cast<std::int64_t>(kernels::adam8_state_bytes(size))}, DType::u8};
}
template <>
Spec state_spec<AdafactorRule>(const Spec& param, int index, int slots) {
  if (slots == 1) return {param.shape, working_type(param.dtype)};
  std::vector<std::int64_t> dims(param.shape.begin(), param.shape.end());
  dims.erase(dims.end() - (index == 0 ? 1 : 2));
  return {Shape(dims), working_type(param.dtype)};
}

template <class Rule>
std::size_t rule_scratch(std::span<const Entry> entries) {
  return sparse_scratch(entries);
}
template <>
std::size_t rule_scratch<AdafactorRule>(std::span<const Entry> entries) {
  std::size_t bytes = 0;
  for (const Entry& e : entries)
    bytes += e.spec->dtype == DType::f64 ? adafactor_scratch(factored_update<double>(e))
                                         : adafactor_scratch(factored_update<float>(e));
  return bytes;
}

template <class Rule>
void run_rule(std::span<const Entry> entries, const Rule& rule, GradientUse use,
              std::span<std::byte> scratch) {
  if constexpr (std::is_same_v<Rule, kernels::LazyAdamRule>) {
    for (const Entry& e : entries)
      if (!e.index_spec) run_lazy(e, rule, use);
  } else {
    run_plain<float>(entries, DType::f32, rule, use);
    if constexpr (!std::is_same_v<Rule, Adam8Rule>)
      run_plain<double>(entries, DType::f64, rule, use);
    for (const Entry& e : entries)
      if (is_half(e.spec->dtype) || is_half(e.grad_type)) run_half(e, rule, use);
  }
  if constexpr (takes_sparse<Rule>(0))
    for (const Entry& e : entries)
      if (e.index_spec) run_sparse(e, rule, use, scratch);
}
template <>
void run_rule(std::span<const Entry> entries, const AdafactorRule& rule, GradientUse use,
              std::span<std::byte> scratch) {
  run_factored<float>(entries, DType::f32, rule, use, scratch);
  run_factored<double>(entries, DType::f64, rule, use, scratch);
}

#define EBB_RULE(Rule)                                             \
  template Spec state_spec<Rule>(const Spec&, int, int);           \
  template std::size_t rule_scratch<Rule>(std::span<const Entry>); \
  template void run_rule(std::span<const Entry>, const Rule&, GradientUse, std::span<std::byte>);
EBB_RULE(kernels::SgdRule)
EBB_RULE(kernels::AdamRule)
EBB_RULE(kernels::LazyAdamRule)
EBB_RULE(kernels::RmspropRule)
EBB_RULE(kernels::AdagradRule)
EBB_RULE(kernels::LionRule)
EBB_RULE(kernels::EmaRule)
#undef EBB_RULE
template std::size_t rule_scratch<Adam8Rule>(std::span<const Entry>);
template void run_rule(std::span<const Entry>, const Adam8Rule&, GradientUse, std::span<std::byte>);

std::size_t sum_of_squares_scratch(const Spec& g) {
  const auto size = static_cast<std::size_t>(g.size());
  if (is_half(g.dtype)) return (size + kPiece - 1) / kPiece * sizeof(double);
  const auto t = gradient_only<float>(nullptr, size);
  return kernels::sum_of_squares_scratch(std::span<const Update<float>>(&t, 1));
}

double sum_of_squares(const Entry& e, std::span<std::byte> scratch) {
  if (e.grad_type == DType::f32) {
    const auto t = gradient_only<float>(e.grad, e.size());
    return kernels::sum_of_squares(std::span<const Update<float>>(&t, 1), scratch);
  }
  if (e.grad_type == DType::f64) {
    const auto t = gradient_only<double>(e.grad, e.size());
    return kernels::sum_of_squares(std::span<const Update<double>>(&t, 1), scratch);
  }
  auto* const sums = reinterpret_cast<double*>(scratch.data());
  const std::size_t pieces = (e.size() + kPiece - 1) / kPiece;
  pool::parallel_for(pieces, 16, [&](std::size_t begin, std::size_t end) {
    alignas(64) float grads[kPiece];
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t n = std::min(kPiece, e.size() - i * kPiece);
      widen(e.grad_type, e.grad, i * kPiece, n, grads);
      const auto t = gradient_only<float>(reinterpret_cast<const std::byte*>(grads), n);
      sums[i] = kernels::sum_of_squares(std::span<const Update<float>>(&t, 1),
                                        {reinterpret_cast<std::byte*>(sums + i), sizeof(double)});
    }
  });
  double total = 0;
  for (std::size_t i = 0; i < pieces; ++i) total += sums[i];
  return total;
}

}  // namespace ebb::optim
