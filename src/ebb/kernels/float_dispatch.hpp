// Kernels of f32 and f64 that are one template. For each target the two functions by name, as HWY_EXPORT
// wants them; then, once, their tables; then a call of the one for T on the chosen target:
//
//   EBB_FLOAT_TARGETS(rotary, turn_blocks);  // rotary_f32 is turn_blocks<float>
//   …
//   EBB_FLOAT_EXPORT(rotary);
//   EBB_FLOAT_DISPATCH(T, rotary)(r, x, y);
#pragma once

#include <type_traits>

#define EBB_FLOAT_TARGETS(name, function)       \
  constexpr auto& name##_f32 = function<float>; \
  constexpr auto& name##_f64 = function<double>
#define EBB_FLOAT_EXPORT(name) \
  HWY_EXPORT(name##_f32);      \
  HWY_EXPORT(name##_f64)
#define EBB_FLOAT_DISPATCH(T, name) \
  ::ebb::kernels::float_case<T>(HWY_DYNAMIC_DISPATCH(name##_f32), HWY_DYNAMIC_DISPATCH(name##_f64))

namespace ebb::kernels {

template <class T, class F32, class F64>
constexpr auto& float_case(F32& f32, F64& f64) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  if constexpr (std::is_same_v<T, float>) {
    return f32;
  } else {
    return f64;
  }
}

}  // namespace ebb::kernels
