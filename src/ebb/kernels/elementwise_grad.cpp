#include <limits>
#include <type_traits>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/element.hpp"
#include "ebb/kernels/elementwise.hpp"
#include "ebb/kernels/grain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/elementwise_grad.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "ebb/kernels/elementwise-inl.hpp"
#include "ebb/kernels/math-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// One line for each function: the gradient for the saved vector s and the incoming vector g, with
// tag d and parameters a and b.
#define EBB_UNARY_GRAD(name, expression)         \
  case UnaryGrad::name:                          \
    return map::apply<map::kStepOf<T>>(          \
        dx, n, stream,                           \
        [=](auto d, auto s, auto g) EBB_LAMBDA { \
          (void)d;                               \
          return expression;                     \
        },                                       \
        map::Array<T>{saved}, map::Array<T>{dy})

template <class T>
void unary_grad_row(UnaryGrad op, const T* saved, const T* dy, T* dx, std::size_t n, bool stream,
                    Scalars scalars) {
  const T a = static_cast<T>(scalars.a), b = static_cast<T>(scalars.b);
  const T two_over_sqrt_pi = static_cast<T>(1.12837916709551257);
  switch (op) {
    EBB_UNARY_GRAD(relu, IfThenElseZero(Gt(s, Zero(d)), g));
    EBB_UNARY_GRAD(leaky_relu, IfThenElse(Gt(s, Zero(d)), g, Mul(g, Set(d, a))));
    EBB_UNARY_GRAD(elu, IfThenElse(Gt(s, Zero(d)), g, Mul(g, Add(s, Set(d, a)))));
    EBB_UNARY_GRAD(tanh, Mul(g, NegMulAdd(s, s, Set(d, T(1)))));
    EBB_UNARY_GRAD(sigmoid, Mul(g, Mul(s, Sub(Set(d, T(1)), s))));
    EBB_UNARY_GRAD(softplus, Mul(g, sigmoid(d, s)));
    EBB_UNARY_GRAD(gelu, Mul(g, gelu_grad(d, s)));
    EBB_UNARY_GRAD(gelu_tanh, Mul(g, gelu_tanh_grad(d, s)));
    EBB_UNARY_GRAD(silu, Mul(g, silu_grad(d, s)));
    EBB_UNARY_GRAD(erf, Mul(Mul(g, Set(d, two_over_sqrt_pi)), exp(d, Neg(Mul(s, s)))));
    EBB_UNARY_GRAD(abs, IfThenElse(Gt(s, Zero(d)), g, IfThenElseZero(Lt(s, Zero(d)), Neg(g))));
    EBB_UNARY_GRAD(clip, IfThenElseZero(And(Ge(s, Set(d, a)), Le(s, Set(d, b))), g));
  }
}
#undef EBB_UNARY_GRAD

template <class Half>
void unary_grad_half(UnaryGrad op, const Half* saved, const Half* dy, Half* dx, std::size_t n,
                     Scalars scalars) {
  HWY_ALIGN float block[map::kBlock], grad[map::kBlock];
  for (std::size_t i = 0; i < n; i += map::kBlock) {
    const std::size_t m = n - i < map::kBlock ? n - i : map::kBlock;
    widen_block(saved + i, block, m);
    widen_block(dy + i, grad, m);
    unary_grad_row<float>(op, block, grad, grad, m, false, scalars);
    narrow_block(grad, dx + i, m);
  }
}

void unary_grad_range(Element element, UnaryGrad op, const void* saved, const void* dy, void* dx,
                      std::size_t begin, std::size_t end, bool stream, Scalars scalars) {
  const auto row = [&]<class T>(T*) HWY_ATTR {
    const T* s = static_cast<const T*>(saved) + begin;
    const T* g = static_cast<const T*>(dy) + begin;
    T* to = static_cast<T*>(dx) + begin;
    if constexpr (sizeof(T) == 2) {
      unary_grad_half<T>(op, s, g, to, end - begin, scalars);
    } else {
      unary_grad_row<T>(op, s, g, to, end - begin, stream, scalars);
    }
  };
  map::with_element<float, double, bf16, f16>(element, row);
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
HWY_EXPORT(unary_grad_range);

template <class T>
void unary_grad(UnaryGrad op, const T* saved, const T* dy, T* dx, std::size_t n, Scalars scalars) {
  const bool stream = n * sizeof(T) >= kStreamBytes;
  pool::parallel_for(n, kGrain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(unary_grad_range)
    (element_of<T>(), op, saved, dy, dx, begin, end, stream, scalars);
  });
}

template void unary_grad<float>(UnaryGrad, const float*, const float*, float*, std::size_t,
                                Scalars);
template void unary_grad<double>(UnaryGrad, const double*, const double*, double*, std::size_t,
                                 Scalars);
template void unary_grad<bf16>(UnaryGrad, const bf16*, const bf16*, bf16*, std::size_t, Scalars);
template void unary_grad<f16>(UnaryGrad, const f16*, const f16*, f16*, std::size_t, Scalars);

}  // namespace ebb::kernels
#endif  // HWY_ONCE
