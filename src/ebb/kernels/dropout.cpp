#include "ebb/kernels/dropout.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/grain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/dropout.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/philox-inl.hpp"
#include "ebb/kernels/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// All bits of an element of T set where its draw is at least the threshold.
template <class T>
HWY_INLINE RowVec<T> keep(const std::uint16_t* draws, std::int32_t threshold) {
  const hn::Rebind<std::uint16_t, RowTag<T>> d16;
  const hn::Rebind<std::int32_t, RowTag<T>> d32;
  const auto draw = hn::PromoteTo(d32, hn::LoadU(d16, draws));
  const auto kept = hn::VecFromMask(d32, hn::Gt(draw, hn::Set(d32, threshold - 1)));
  if constexpr (sizeof(T) == 8) {
    return hn::BitCast(RowTag<T>(), hn::PromoteTo(hn::RebindToSigned<RowTag<T>>(), kept));
  } else {
    return hn::BitCast(RowTag<T>(), kept);
  }
}

template <class T, class Amount>
void apply_mask(const T* x, T* y, const std::uint16_t* draws, std::size_t n, std::int32_t threshold,
                T scale) {
  const auto vscale = hn::Set(RowTag<T>(), scale);
  each_vector<T, Amount>(n, [&](std::size_t i, auto amount) EBB_LAMBDA {
    if (i % (64 / sizeof(T)) == 0) fetch_after(x + i);
    const auto kept = keep<T>(draws + i, threshold);
    store<T>(hn::And(hn::Mul(load(x + i, amount), vscale), kept), y + i, amount);
  });
}

template <class T>
void dropout_part(const T* x, T* y, std::size_t n, std::int32_t threshold, T scale, Draws draws,
                  bool stream) {
  const std::size_t odd = draws.first % 2;  // the first word's low half is the element's before
  draws.first /= 2;
  const auto body = [&](const std::uint32_t* words, std::size_t at, std::size_t count) HWY_ATTR {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(words);
    const std::size_t skip = at == 0 ? odd : 0;
    const std::size_t first = 2 * at + skip - odd, end = std::min(n, 2 * (at + count) - odd);
    if (stream && reinterpret_cast<std::uintptr_t>(y + first) % 64 == 0) {
      apply_mask<T, Streamed>(x + first, y + first, halves + skip, end - first, threshold, scale);
    } else {
      apply_mask<T, Whole>(x + first, y + first, halves + skip, end - first, threshold, scale);
    }
  };
  each_words(draws, ceil_div(odd + n, 2), body);
  if (stream) hwy::FlushStream();
}

void dropout_f32(const float* x, float* y, std::size_t n, std::int32_t threshold, float scale,
                 Draws draws, bool stream) {
  dropout_part(x, y, n, threshold, scale, draws, stream);
}
void dropout_f64(const double* x, double* y, std::size_t n, std::int32_t threshold, double scale,
                 Draws draws, bool stream) {
  dropout_part(x, y, n, threshold, scale, draws, stream);
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

HWY_EXPORT(dropout_f32);
HWY_EXPORT(dropout_f64);

void dropout_part(const float* x, float* y, std::size_t n, std::int32_t threshold, float scale,
                  Draws draws, bool stream) {
  HWY_DYNAMIC_DISPATCH(dropout_f32)(x, y, n, threshold, scale, draws, stream);
}
void dropout_part(const double* x, double* y, std::size_t n, std::int32_t threshold, double scale,
                  Draws draws, bool stream) {
  HWY_DYNAMIC_DISPATCH(dropout_f64)(x, y, n, threshold, scale, draws, stream);
}

}  // namespace

template <class T>
void dropout(const T* x, T* y, std::size_t n, double rate, Draws draws) {
  const auto threshold = static_cast<std::int32_t>(std::round(rate * 65536));
  if (threshold >= 65536) {  // no draw is as large: nothing is kept
    std::fill_n(y, n, T(0));
    return;
  }
  const T scale = static_cast<T>(1.0 / (1.0 - rate));
  const bool stream = x != y && worth_streaming(y, n * sizeof(T), 1);
  pool::parallel_for(n, 16384, [&](std::size_t begin, std::size_t end) {
    dropout_part(x + begin, y + begin, end - begin, threshold, scale,
                 Draws{draws.key, draws.stream, draws.first + begin}, stream);
  });
}

template void dropout(const float*, float*, std::size_t, double, Draws);
template void dropout(const double*, double*, std::size_t, double, Draws);

}  // namespace ebb::kernels
#endif
