#include "ebb/kernels/random.hpp"

#include <algorithm>

#include "ebb/base/pool.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/random.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/math-inl.hpp"
#include "ebb/kernels/philox-inl.hpp"
#include "ebb/kernels/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// Elements made of one group of words.
template <class T>
inline constexpr std::size_t kGroupElements = kGroup * sizeof(std::uint32_t) / sizeof(T);

// u of the elements whose words start here.
template <class T>
HWY_INLINE RowVec<T> unit(const std::uint32_t* words) {
  const RowTag<T> d;
  if constexpr (sizeof(T) == 4) {
    const hn::RebindToSigned<RowTag<T>> di;
    const auto bits = hn::BitCast(di, hn::LoadU(hn::RebindToUnsigned<RowTag<T>>(), words));
    const auto top = hn::ShiftRight<8>(hn::BitCast(hn::RebindToUnsigned<RowTag<T>>(), bits));
    return hn::Mul(hn::ConvertTo(d, hn::BitCast(di, top)), hn::Set(d, 0x1p-24f));
  } else {
    // 53 bits as 21 and 32, each put into a double by its exponent: no target lacks that.
    const hn::RebindToUnsigned<RowTag<T>> du;
    const auto bits =
        hn::ShiftRight<11>(hn::LoadU(du, reinterpret_cast<const std::uint64_t*>(words)));
    const auto top = hn::Or(hn::ShiftRight<32>(bits), hn::Set(du, 0x4330000000000000u));
    const auto low =
        hn::Or(hn::And(bits, hn::Set(du, 0xFFFFFFFFu)), hn::Set(du, 0x4330000000000000u));
    const auto base = hn::Set(d, 0x1p52);
    const auto high_part = hn::Mul(hn::Sub(hn::BitCast(d, top), base), hn::Set(d, 0x1p-21));
    return hn::Add(high_part, hn::Mul(hn::Sub(hn::BitCast(d, low), base), hn::Set(d, 0x1p-53)));
  }
}

template <class T>
void uniform_group(const std::uint32_t* words, T* out, T low, T size) {
  const RowTag<T> d;
  for (std::size_t i = 0; i < kGroupElements<T>; i += kRowLanes<T>) {
    const auto u = unit<T>(words + i * sizeof(T) / sizeof(std::uint32_t));
    hn::Store(hn::MulAdd(u, hn::Set(d, size), hn::Set(d, low)), d, out + i);
  }
}

template <class T>
void normal_group(const std::uint32_t* words, T* out, T mean, T stddev) {
  const RowTag<T> d;
  constexpr std::size_t kWide = sizeof(T) / sizeof(std::uint32_t);
  for (std::size_t pair = 0; pair < kGroupElements<T>; pair += 32) {
    for (std::size_t i = pair; i < pair + 16; i += kRowLanes<T>) {
      const auto u = unit<T>(words + i * kWide), v = unit<T>(words + (i + 16) * kWide);
      const auto one = hn::Set(d, T(1));
      const auto r = hn::Sqrt(hn::Mul(hn::Set(d, T(-2)), log(d, hn::Sub(one, u))));
      const auto angle = hn::Mul(v, hn::Set(d, T(6.283185307179586477)));
      const auto spread = hn::Mul(hn::Set(d, stddev), r), center = hn::Set(d, mean);
      hn::Store(hn::MulAdd(spread, cos(d, angle), center), d, out + i);
      hn::Store(hn::MulAdd(spread, sin(d, angle), center), d, out + i + 16);
    }
  }
}

// Whole groups are made, and the part of them that is wanted copied.
template <class T, class Group>
HWY_INLINE void each_group(T* out, std::size_t n, Draws draws, Group&& group) {
  constexpr std::size_t kElements = kGroupElements<T>;
  HWY_ALIGN std::uint32_t words[kGroup];
  HWY_ALIGN T made[kElements];
  for (std::size_t done = 0; done < n;) {
    const std::uint64_t position = draws.first + done;
    const std::size_t skip = static_cast<std::size_t>(position % kElements);
    const std::size_t count = std::min(kElements - skip, n - done);
    philox_groups(draws, position / kElements, 1, words);
    group(words, made);
    std::copy_n(made + skip, count, out + done);
    done += count;
  }
}

#define EBB_RANDOM_TARGETS(T, suffix)                                             \
  void uniform_##suffix(T* out, std::size_t n, T low, T size, Draws draws) {      \
    each_group(out, n, draws, [&](const std::uint32_t* words, T* made) HWY_ATTR { \
      uniform_group(words, made, low, size);                                      \
    });                                                                           \
  }                                                                               \
  void normal_##suffix(T* out, std::size_t n, T mean, T stddev, Draws draws) {    \
    each_group(out, n, draws, [&](const std::uint32_t* words, T* made) HWY_ATTR { \
      normal_group(words, made, mean, stddev);                                    \
    });                                                                           \
  }
EBB_RANDOM_TARGETS(float, f32)
EBB_RANDOM_TARGETS(double, f64)
#undef EBB_RANDOM_TARGETS

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

HWY_EXPORT(uniform_f32);
HWY_EXPORT(uniform_f64);
HWY_EXPORT(normal_f32);
HWY_EXPORT(normal_f64);

template <class T>
void in_parts(void (*part)(T*, std::size_t, T, T, Draws), T* out, std::size_t n, double a, double b,
              Draws draws) {
  pool::parallel_for(n, 8192, [&](std::size_t begin, std::size_t end) {
    part(out + begin, end - begin, static_cast<T>(a), static_cast<T>(b),
         Draws{draws.key, draws.stream, draws.first + begin});
  });
}

}  // namespace

template <>
void uniform(float* out, std::size_t n, double low, double high, Draws draws) {
  in_parts<float>(HWY_DYNAMIC_DISPATCH(uniform_f32), out, n, low, high - low, draws);
}
template <>
void uniform(double* out, std::size_t n, double low, double high, Draws draws) {
  in_parts<double>(HWY_DYNAMIC_DISPATCH(uniform_f64), out, n, low, high - low, draws);
}
template <>
void normal(float* out, std::size_t n, double mean, double stddev, Draws draws) {
  in_parts<float>(HWY_DYNAMIC_DISPATCH(normal_f32), out, n, mean, stddev, draws);
}
template <>
void normal(double* out, std::size_t n, double mean, double stddev, Draws draws) {
  in_parts<double>(HWY_DYNAMIC_DISPATCH(normal_f64), out, n, mean, stddev, draws);
}

}  // namespace ebb::kernels
#endif
