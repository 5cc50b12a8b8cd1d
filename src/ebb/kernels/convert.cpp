#include "ebb/kernels/convert.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/element.hpp"
#include "ebb/kernels/grain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/convert.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "ebb/kernels/convert-inl.hpp"
#include "ebb/kernels/elementwise-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

template <class T>
inline constexpr bool kHalf = map::kIsHalf<T>;

// One value. The vector loops below give the same bits.
template <class To, class From>
HWY_INLINE To convert_one(From v) {
  if constexpr (kHalf<From>) {
    return convert_one<To>(to_float(v));
  } else if constexpr (std::is_same_v<To, bf16>) {
    return to_bf16(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, f16>) {
    return to_f16(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From above = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    constexpr From least = static_cast<From>(std::numeric_limits<To>::min());
    if (v >= above) return std::numeric_limits<To>::max();
    if (v < least) return std::numeric_limits<To>::min();
    return v == v ? static_cast<To>(v) : To(0);
  } else {
    return static_cast<To>(v);
  }
}

// Lanes(d) values of To from p, by vectors; d is the tag of the wider side.
HWY_INLINE void convert_vector(const float* from, double* to) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  hn::StoreU(hn::PromoteTo(d, hn::LoadU(df, from)), d, to);
}
HWY_INLINE void convert_vector(const double* from, float* to) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  hn::StoreU(hn::DemoteTo(df, hn::LoadU(d, from)), df, to);
}
HWY_INLINE void convert_vector(const std::int32_t* from, float* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, from)), d, to);
}
HWY_INLINE void convert_vector(const float* from, std::int32_t* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto v = hn::LoadU(d, from);
  const auto number = hn::IfThenElseZero(hn::Eq(v, v), v);
  const auto above = hn::RebindMask(di, hn::Ge(v, hn::Set(d, 2147483648.0f)));
  const auto below = hn::Max(number, hn::Set(d, -2147483648.0f));
  hn::StoreU(hn::IfThenElse(above, hn::Set(di, std::numeric_limits<std::int32_t>::max()),
                            hn::ConvertTo(di, below)),
             di, to);
}
template <class From, class To>
inline constexpr bool kByVectors =
    (std::is_same_v<From, float> &&
     (std::is_same_v<To, double> || std::is_same_v<To, std::int32_t>)) ||
    (std::is_same_v<To, float> &&
     (std::is_same_v<From, double> || std::is_same_v<From, std::int32_t>));

// Those between f32 and 16 bits are loads and stores of a map that computes nothing.
template <class From, class To>
inline constexpr bool kByMap = (std::is_same_v<From, float> && kHalf<To>) ||
                               (kHalf<From> && std::is_same_v<To, float>);

template <class From, class To>
void convert_typed(const From* from, To* to, std::size_t n) {
  std::size_t i = 0;
  if constexpr (std::is_same_v<From, To>) {
    if (n != 0) std::memcpy(to, from, n * sizeof(To));
    return;
  } else if constexpr (kByVectors<From, To>) {
    constexpr std::size_t kWider = sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To);
    const std::size_t lanes = hn::Lanes(hn::ScalableTag<std::uint8_t>()) / kWider;
    for (; i + lanes <= n; i += lanes) convert_vector(from + i, to + i);
  }
  for (; i < n; ++i) to[i] = convert_one<To>(from[i]);
}

// Large outputs go past the caches.
template <class From, class To>
void convert_large(const From* from, To* to, std::size_t n) {
  map::in_blocks(to, n, true, [&](std::size_t i, std::size_t m, To* p) {
    convert_typed<From, To>(from + i, p, m);
  });
}

template <class From>
void convert_from(const From* from, Element to_element, void* to, std::size_t begin,
                  std::size_t end, bool stream) {
  const auto go = [&]<class To>(To* first) HWY_ATTR {
    if constexpr (kByMap<From, To>) {
      map::apply<kWide>(
          first + begin, end - begin, stream, [](auto, auto v) EBB_LAMBDA { return v; },
          map::Array<From>{from + begin});
    } else {
      if constexpr (kByVectors<From, To>) {
        if (stream) return convert_large<From, To>(from + begin, first + begin, end - begin);
      }
      convert_typed<From, To>(from + begin, first + begin, end - begin);
    }
  };
  switch (to_element) {
    case Element::f32:
      return go(static_cast<float*>(to));
    case Element::f64:
      return go(static_cast<double*>(to));
    case Element::bf16:
      return go(static_cast<bf16*>(to));
    case Element::f16:
      return go(static_cast<f16*>(to));
    case Element::i32:
      return go(static_cast<std::int32_t*>(to));
    case Element::i64:
      return go(static_cast<std::int64_t*>(to));
    case Element::u8:
      return go(static_cast<std::uint8_t*>(to));
    case Element::boolean:
      return go(static_cast<bool*>(to));
  }
}

void convert_range(Element from_element, const void* from, Element to_element, void* to,
                   std::size_t begin, std::size_t end, bool stream) {
  const auto go = [&]<class From>(const From* first) {
    convert_from<From>(first, to_element, to, begin, end, stream);
  };
  switch (from_element) {
    case Element::f32:
      return go(static_cast<const float*>(from));
    case Element::f64:
      return go(static_cast<const double*>(from));
    case Element::bf16:
      return go(static_cast<const bf16*>(from));
    case Element::f16:
      return go(static_cast<const f16*>(from));
    case Element::i32:
      return go(static_cast<const std::int32_t*>(from));
    case Element::i64:
      return go(static_cast<const std::int64_t*>(from));
    case Element::u8:
    case Element::boolean:
      return go(static_cast<const std::uint8_t*>(from));
  }
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
HWY_EXPORT(convert_range);

template <class From, class To>
void convert(const From* from, To* to, std::size_t n) {
  const bool stream = n * sizeof(To) >= kStreamBytes;
  pool::parallel_for(n, kGrain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(convert_range)
    (element_of<From>(), from, element_of<To>(), to, begin, end, stream);
  });
}

#define EBB_CONVERT(From, To) template void convert<From, To>(const From*, To*, std::size_t);
// clang-format off
#define EBB_CONVERT_FROM(From)    \
  EBB_CONVERT(From, float)        \
  EBB_CONVERT(From, double)       \
  EBB_CONVERT(From, bf16)         \
  EBB_CONVERT(From, f16)          \
  EBB_CONVERT(From, std::int32_t) \
  EBB_CONVERT(From, std::int64_t) \
  EBB_CONVERT(From, std::uint8_t) \
  EBB_CONVERT(From, bool)
// clang-format on
EBB_CONVERT_FROM(float)
EBB_CONVERT_FROM(double)
EBB_CONVERT_FROM(bf16)
EBB_CONVERT_FROM(f16)
EBB_CONVERT_FROM(std::int32_t)
EBB_CONVERT_FROM(std::int64_t)
EBB_CONVERT_FROM(std::uint8_t)
EBB_CONVERT_FROM(bool)
#undef EBB_CONVERT_FROM
#undef EBB_CONVERT

}  // namespace ebb::kernels
#endif  // HWY_ONCE
