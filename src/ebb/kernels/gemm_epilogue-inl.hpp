// What follows the last k of a product: bias, a copy of the value before the activation, and the
// activation, on a block of C that is still in cache.

#if defined(EBB_KERNELS_GEMM_EPILOGUE_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_GEMM_EPILOGUE_INL_
#undef EBB_KERNELS_GEMM_EPILOGUE_INL_
#else
#define EBB_KERNELS_GEMM_EPILOGUE_INL_
#endif

#include <cstddef>

#include "ebb/kernels/gemm.hpp"
#include "ebb/kernels/math-inl.hpp"
#include "ebb/kernels/partial-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <Activation kActivation, class D, class V>
HWY_INLINE V activate(D d, V v) {
  if constexpr (kActivation == Activation::relu) {  // a NaN and a -0 stay
    return hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
  }
  if constexpr (kActivation == Activation::tanh) return tanh(d, v);
  if constexpr (kActivation == Activation::sigmoid) return sigmoid(d, v);
  if constexpr (kActivation == Activation::gelu) return gelu(d, v);
  if constexpr (kActivation == Activation::gelu_tanh) return gelu_tanh(d, v);
  if constexpr (kActivation == Activation::silu) return silu(d, v);
  return v;
}

// rows × columns of C from c, and of pre from pre unless null; bias[0] belongs to the first column
// (and, with bias_step 0, to all).
template <class T>
struct Finish {
  T* c;
  T* pre;
  size_t ld, rows, columns;
  const T* bias;
  size_t bias_step;
};

template <Activation kActivation, class T>
HWY_NOINLINE void finish_with(const Finish<T>& f) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const auto bias_of = [&](size_t j, size_t real) HWY_ATTR {
    if (!f.bias) return hn::Zero(d);
    if (f.bias_step == 0) return hn::Set(d, f.bias[0]);
    return load_part(d, f.bias + j, real);
  };
  const auto whole = [&](size_t i, size_t j, V bias) HWY_ATTR {
    T* c = f.c + i * f.ld + j;
    V v = hn::LoadU(d, c);
    if (f.bias) v = hn::Add(v, bias);
    if (f.pre) hn::StoreU(v, d, f.pre + i * f.ld + j);
    hn::StoreU(activate<kActivation>(d, v), d, c);
  };
  size_t j = 0;
  for (; j + 2 * lanes <= f.columns; j += 2 * lanes) {  // a line of C at a time
    const V left = bias_of(j, lanes), right = bias_of(j + lanes, lanes);
    for (size_t i = 0; i < f.rows; ++i) {
      whole(i, j, left);
      whole(i, j + lanes, right);
    }
  }
  if (j + lanes <= f.columns) {
    const V bias = bias_of(j, lanes);
    for (size_t i = 0; i < f.rows; ++i) whole(i, j, bias);
    j += lanes;
  }
  if (j < f.columns) {
    const size_t real = f.columns - j;
    const V bias = bias_of(j, real);
    for (size_t i = 0; i < f.rows; ++i) {
      T* c = f.c + i * f.ld + j;
      V v = load_part(d, c, real);
      if (f.bias) v = hn::Add(v, bias);
      if (f.pre) store_part(v, d, f.pre + i * f.ld + j, real);
      store_part(activate<kActivation>(d, v), d, c, real);
    }
  }
}

template <class T>
void finish_block(Activation activation, const Finish<T>& f) {
  switch (activation) {
    case Activation::none:
      return finish_with<Activation::none, T>(f);
    case Activation::relu:
      return finish_with<Activation::relu, T>(f);
    case Activation::tanh:
      return finish_with<Activation::tanh, T>(f);
    case Activation::sigmoid:
      return finish_with<Activation::sigmoid, T>(f);
    case Activation::gelu:
      return finish_with<Activation::gelu, T>(f);
    case Activation::gelu_tanh:
      return finish_with<Activation::gelu_tanh, T>(f);
    case Activation::silu:
      return finish_with<Activation::silu, T>(f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_GEMM_EPILOGUE_INL_
