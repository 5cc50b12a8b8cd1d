#include "ebb/kernels/elementwise.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/element.hpp"
#include "ebb/kernels/grain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/elementwise.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "ebb/kernels/elementwise-inl.hpp"
#include "ebb/kernels/math-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// An operand made just before: there is nothing to ask for ahead of it.
template <class T>
struct Made : map::Array<T> {
  HWY_INLINE void ahead(std::size_t, std::size_t) const {}
};

// A function in two parts, second(v, first(v)), each mapped over a block in turn. A long chain of
// operations fills the machine's queues with what has to wait; of two halves, more are under way.
template <class T, class First, class Second>
HWY_INLINE void map_in_two(const T* x, T* y, std::size_t n, bool stream, First first,
                           Second second) {
  HWY_ALIGN T between[map::kBlock];
  for (std::size_t i = 0; i < n; i += map::kBlock) {
    const std::size_t m = n - i < map::kBlock ? n - i : map::kBlock;
    map::apply<kWide>(between, m, false, first, map::Array<T>{x + i});
    map::apply<kWide>(y + i, m, stream, second, map::Array<T>{x + i}, Made<T>{{between}});
  }
}

// Of whole blocks, softplus of math-inl.hpp cut where the exponential is done.
template <class T>
HWY_INLINE void map_softplus(const T* x, T* y, std::size_t n, bool stream) {
  if constexpr (sizeof(T) == 4) {
    if (n >= map::kBlock) {
      return map_in_two(
          x, y, n, stream,
          [](auto d, auto v) EBB_LAMBDA { return detail::exp_raised_neg_abs(d, v); },
          [](auto d, auto v, auto e)
              EBB_LAMBDA { return Add(Max(Zero(d), v), detail::log1p_unit(d, e)); });
    }
  }
  map::apply<map::kStepOf<T>>(
      y, n, stream, [](auto d, auto v) EBB_LAMBDA { return softplus(d, v); }, map::Array<T>{x});
}

// One line for each function: what it gives for the vector v, with tag d and parameters a and b.
// Those that are two short chains beside a division go two vectors in step.
#define EBB_UNARY(name, expression) EBB_UNARY_BY(map::kStepOf<T>, name, expression)
#define EBB_UNARY_SHORT(name, expression) EBB_UNARY_BY((sizeof(T) == 4 ? 2 : 1), name, expression)
#define EBB_UNARY_BY(in_step, name, expression) \
  case Unary::name:                             \
    return map::apply<in_step>(                 \
        y, n, stream,                           \
        [=](auto d, auto v) EBB_LAMBDA {        \
          (void)d;                              \
          return expression;                    \
        },                                      \
        map::Array<T>{x})

// A whole number as an element, or the last one on its side.
template <class T>
T saturated(double whole) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  if (whole >= static_cast<double>(most)) return most;
  return whole <= static_cast<double>(least) ? least : static_cast<T>(whole);
}

template <class T>
void unary_row(Unary op, const T* x, T* y, std::size_t n, bool stream, Scalars scalars) {
  T a, b;
  if constexpr (std::is_integral_v<T>) {  // limits
    a = saturated<T>(std::ceil(scalars.a));
    b = saturated<T>(std::floor(scalars.b));
  } else {
    a = static_cast<T>(scalars.a);
    b = static_cast<T>(scalars.b);
  }
  switch (op) {
    EBB_UNARY(neg, Neg(v));
    EBB_UNARY(abs, Abs(v));
    EBB_UNARY(sign, IfThenElse(Gt(v, Zero(d)), Set(d, T(1)),
                               IfThenElse(Lt(v, Zero(d)), Set(d, T(-1)), v)));
    EBB_UNARY(relu, IfThenElse(Lt(v, Zero(d)), Zero(d), v));
    EBB_UNARY(clip,
              IfThenElse(Lt(v, Set(d, a)), Set(d, a), IfThenElse(Gt(v, Set(d, b)), Set(d, b), v)));
    case Unary::square:
      if constexpr (sizeof(T) == 8 && std::is_integral_v<T>) {  // no 64-bit vector product
        for (std::size_t i = 0; i < n; ++i) {
          const auto u = static_cast<std::uint64_t>(x[i]);
          y[i] = static_cast<T>(u * u);
        }
        return;
      } else {
        return map::apply<map::kStepOf<T>>(
            y, n, stream, [](auto, auto v) EBB_LAMBDA { return Mul(v, v); }, map::Array<T>{x});
      }
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      EBB_UNARY(exp, exp(d, v));
      EBB_UNARY_SHORT(log, log(d, v));
      EBB_UNARY(log1p, log1p(d, v));
      EBB_UNARY(expm1, expm1(d, v));
      EBB_UNARY(sqrt, Sqrt(v));
      EBB_UNARY(rsqrt, rsqrt(d, v));
      EBB_UNARY(reciprocal, Div(Set(d, T(1)), v));
      EBB_UNARY(sin, sin(d, v));
      EBB_UNARY(cos, cos(d, v));
      EBB_UNARY_SHORT(tanh, tanh(d, v));
      EBB_UNARY(erf, erf(d, v));
      EBB_UNARY(sigmoid, sigmoid(d, v));
      case Unary::softplus:
        return map_softplus(x, y, n, stream);
        EBB_UNARY(leaky_relu, IfThenElse(Lt(v, Zero(d)), Mul(v, Set(d, a)), v));
        EBB_UNARY(elu, IfThenElse(Lt(v, Zero(d)), Mul(expm1(d, v), Set(d, a)), v));
        EBB_UNARY(gelu, gelu(d, v));
        EBB_UNARY(gelu_tanh, gelu_tanh(d, v));
        EBB_UNARY(silu, silu(d, v));
      default:
        break;
    }
  }
  std::abort();  // no such function of integers: refused by the op
}
#undef EBB_UNARY
#undef EBB_UNARY_SHORT
#undef EBB_UNARY_BY

template <class Half>
void unary_half(Unary op, const Half* x, Half* y, std::size_t n, Scalars scalars) {
  HWY_ALIGN float block[map::kBlock];
  for (std::size_t i = 0; i < n; i += map::kBlock) {
    const std::size_t m = n - i < map::kBlock ? n - i : map::kBlock;
    widen_block(x + i, block, m);
    unary_row<float>(op, block, block, m, false, scalars);
    narrow_block(block, y + i, m);
  }
}

void unary_range(Element element, Unary op, const void* x, void* y, std::size_t begin,
                 std::size_t end, bool stream, Scalars scalars) {
  const auto row = [&]<class T>(T*) HWY_ATTR {
    const T* from = static_cast<const T*>(x) + begin;
    T* to = static_cast<T*>(y) + begin;
    if constexpr (sizeof(T) == 2) {
      unary_half<T>(op, from, to, end - begin, scalars);
    } else {
      unary_row<T>(op, from, to, end - begin, stream, scalars);
    }
  };
  map::with_element<float, double, bf16, f16, std::int32_t, std::int64_t>(element, row);
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
HWY_EXPORT(unary_range);

template <class T>
void unary(Unary op, const T* x, T* y, std::size_t n, Scalars scalars) {
  const bool stream = n * sizeof(T) >= kStreamBytes;
  pool::parallel_for(n, kGrain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(unary_range)(element_of<T>(), op, x, y, begin, end, stream, scalars);
  });
}

template void unary<float>(Unary, const float*, float*, std::size_t, Scalars);
template void unary<double>(Unary, const double*, double*, std::size_t, Scalars);
template void unary<bf16>(Unary, const bf16*, bf16*, std::size_t, Scalars);
template void unary<f16>(Unary, const f16*, f16*, std::size_t, Scalars);
template void unary<std::int32_t>(Unary, const std::int32_t*, std::int32_t*, std::size_t, Scalars);
template void unary<std::int64_t>(Unary, const std::int64_t*, std::int64_t*, std::size_t, Scalars);

}  // namespace ebb::kernels
#endif  // HWY_ONCE
