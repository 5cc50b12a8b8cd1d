// The loops under the elementwise kernels: a function of vectors, mapped over arrays.
//
// The last few elements of an array go through the same vector function as the rest, so a value's
// result does not depend on where it stands. 16-bit floats are widened and narrowed in registers.

#if defined(EBB_KERNELS_ELEMENTWISE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_ELEMENTWISE_INL_HPP_
#undef EBB_KERNELS_ELEMENTWISE_INL_HPP_
#else
#define EBB_KERNELS_ELEMENTWISE_INL_HPP_
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "ebb/kernels/convert-inl.hpp"
#include "ebb/kernels/element.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/partial-inl.hpp"
#include "ebb/kernels/wide-inl.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE::map {
namespace hn = hwy::HWY_NAMESPACE;

// f(static_cast<T*>(nullptr)), T that of Types which the element is: one of them.
template <class... Types, class F>
HWY_INLINE void with_element(Element element, F&& f) {
  const bool found =
      ((element == element_of<Types>() && (f(static_cast<Types*>(nullptr)), true)) || ...);
  if (!found) std::abort();
}

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;
template <class T>  // the type of the lanes in which elements of T are computed
using LaneFor = std::conditional_t<kIsHalf<T>, float, T>;

// Whole vectors (D plain or wide) of elements in memory.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_whole(D d, const T* p) {
  if constexpr (kIsHalf<T>) {
    return load_half(d, p);
  } else {
    return hn::LoadU(d, p);
  }
}
template <class D, std::size_t kCount, class T>
HWY_INLINE Wide<hn::Vec<D>, kCount> load_whole(WideTag<D, kCount>, const T* p) {
  Wide<hn::Vec<D>, kCount> r;
  for (std::size_t k = 0; k < kCount; ++k) r.v[k] = load_whole(D(), p + k * hn::Lanes(D()));
  return r;
}
template <class D, class T>
HWY_INLINE void store_whole(hn::Vec<D> v, D d, T* p) {
  if constexpr (kIsHalf<T>) {
    store_half(v, d, p);
  } else {
    hn::StoreU(v, d, p);
  }
}
template <class D, std::size_t kCount, class T>
HWY_INLINE void store_whole(Wide<hn::Vec<D>, kCount> v, WideTag<D, kCount>, T* p) {
  for (std::size_t k = 0; k < kCount; ++k) store_whole(v.v[k], D(), p + k * hn::Lanes(D()));
}
// Past the caches; p on a whole vector of T. Two vectors of floats make one of halves.
template <class D, std::size_t kCount, class T>
HWY_INLINE void stream_whole(Wide<hn::Vec<D>, kCount> v, WideTag<D, kCount> w, T* p) {
  if constexpr (kIsHalf<T>) {
    const hn::Repartition<std::uint16_t, D> d16;
    static_assert(kCount % 2 == 0);
    for (std::size_t k = 0; k < kCount; k += 2) {
      const auto low = half_bits(D(), v.v[k], p), high = half_bits(D(), v.v[k + 1], p);
      hn::Stream(hn::Combine(d16, high, low), d16,
                 reinterpret_cast<std::uint16_t*>(p + k * hn::Lanes(D())));
    }
  } else {
    Stream(v, w, p);
  }
}
template <class D, class T>
HWY_INLINE void stream_whole(hn::Vec<D> v, D d, T* p) {
  if constexpr (kIsHalf<T>) {  // half a vector: nothing goes past the caches by halves
    store_half(v, d, p);
  } else {
    hn::Stream(v, d, p);
  }
}

// Vectors of bf16 as pairs of even and odd elements: for maps from bf16 to bf16, in which it does
// not matter in what order the lanes stand.
template <class D, std::size_t kCount>
HWY_INLINE Wide<hn::Vec<D>, kCount> load_pairs(WideTag<D, kCount>, const bf16* p) {
  Wide<hn::Vec<D>, kCount> r;
  for (std::size_t k = 0; k < kCount; k += 2)
    load_even_odd(D(), p + k * hn::Lanes(D()), r.v[k], r.v[k + 1]);
  return r;
}
template <class D, std::size_t kCount>
HWY_INLINE void store_pairs(Wide<hn::Vec<D>, kCount> v, WideTag<D, kCount>, bf16* p, bool stream) {
  static_assert(kCount % 2 == 0);
  const hn::Repartition<std::uint16_t, D> d16;
  for (std::size_t k = 0; k < kCount; k += 2) {
    const auto bits = even_odd_bits(D(), v.v[k], v.v[k + 1]);
    auto* to = reinterpret_cast<std::uint16_t*>(p + k * hn::Lanes(D()));
    if (stream) {
      hn::Stream(bits, d16, to);
    } else {
      hn::StoreU(bits, d16, to);
    }
  }
}

// Parts of vectors, those of 16-bit floats as well.
using kernels::HWY_NAMESPACE::load_part;
using kernels::HWY_NAMESPACE::store_part;
template <class D, class Half>
requires kIsHalf<Half> HWY_INLINE hn::Vec<D> load_part(D d, const Half* p, std::size_t n) {
  HWY_ALIGN Half lanes[hn::MaxLanes(d)] = {};
  std::memcpy(lanes, p, n * sizeof(Half));
  return load_half(d, lanes);
}
template <class D, class Half>
requires kIsHalf<Half> HWY_INLINE void store_part(hn::Vec<D> v, D d, Half* p, std::size_t n) {
  HWY_ALIGN Half lanes[hn::MaxLanes(d)];
  store_half(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(Half));
}

// Vectors in step for a function of T: several where it has a vector form, as in f32.
template <class T>
inline constexpr std::size_t kStepOf = sizeof(T) == 4 ? kWide : 1;

// How far ahead of its use a stretch of a long array is asked for: over the edge of a page, where
// the machine's own prefetching stops.
inline constexpr std::size_t kAheadBytes = 4096;

// An operand of a row: an array, or one value that stands for all.
template <class T>
struct Array {
  using Element = T;
  const T* p;
  template <class D>
  HWY_INLINE VecOf<D> whole(D d, std::size_t i) const {
    return load_whole(d, p + i);
  }
  template <class D>
  HWY_INLINE VecOf<D> pairs(D d, std::size_t i) const {
    return load_pairs(d, p + i);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> part(D d, std::size_t i, std::size_t n) const {
    return load_part(d, p + i, n);
  }
  // Asks for what comes kAheadBytes after the elements [i, i + n).
  HWY_INLINE void ahead(std::size_t i, std::size_t n) const {
    const auto from = reinterpret_cast<std::uintptr_t>(p + i) + kAheadBytes;
    for (std::size_t byte = 0; byte < n * sizeof(T); byte += 64)
      hwy::Prefetch(reinterpret_cast<const char*>(from + byte));
  }
};
template <class T>
struct Same {
  using Element = T;
  LaneFor<T> value;
  template <class D>
  HWY_INLINE VecOf<D> whole(D d, std::size_t) const {
    return Set(d, value);
  }
  template <class D>
  HWY_INLINE VecOf<D> pairs(D d, std::size_t) const {
    return Set(d, value);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> part(D d, std::size_t, std::size_t) const {
    return hn::Set(d, value);
  }
  HWY_INLINE void ahead(std::size_t, std::size_t) const {}
};

// y[i] = f(d, operands[i]...). kInStep vectors go through f side by side: more than one pays where
// f is long, and f must then take wide vectors. Large outputs (`stream`) take the way past the
// caches: they would not stay there, and reading them in to be overwritten costs bandwidth.
template <std::size_t kInStep, class T, class F, class... Operand>
HWY_INLINE void apply(T* y, std::size_t n, bool stream, F f, Operand... in) {
  const hn::ScalableTag<LaneFor<T>> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0, stop = 0;
  if (stream) {  // up to the first whole vector of y
    const std::size_t whole = lanes * sizeof(LaneFor<T>) / sizeof(T);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(y) / sizeof(T) % whole;
    stop = past == 0 ? 0 : n < whole - past ? n : whole - past;
  }
  for (;;) {
    while (i < stop) {
      const std::size_t part = stop - i < lanes ? stop - i : lanes;
      store_part(f(d, in.part(d, i, part)...), d, y + i, part);
      i += part;
    }
    if (stop == n) return;
    if constexpr (kInStep > 1) {
      const WideTag<hn::ScalableTag<LaneFor<T>>, kInStep> w;
      for (; i + kInStep * lanes <= n; i += kInStep * lanes) {
        if (stream) (in.ahead(i, kInStep * lanes), ...);
        if constexpr ((std::is_same_v<T, bf16> && ... &&
                       std::is_same_v<typename Operand::Element, bf16>)) {
          store_pairs(f(w, in.pairs(w, i)...), w, y + i, stream);
        } else {
          const auto v = f(w, in.whole(w, i)...);
          if (stream) {
            stream_whole(v, w, y + i);
          } else {
            store_whole(v, w, y + i);
          }
        }
      }
    } else {
      for (; i + lanes <= n; i += lanes) {
        const auto v = f(d, in.whole(d, i)...);
        if (stream) {
          stream_whole(v, d, y + i);
        } else {
          store_whole(v, d, y + i);
        }
      }
    }
    stop = n;
  }
}

// Two operands, each an array (step 1) or one value (step 0).
template <std::size_t kInStep, class T, class F>
HWY_INLINE void apply2(const T* a, std::size_t step_a, const T* b, std::size_t step_b, T* y,
                       std::size_t n, bool stream, F f) {
  const auto one = [](const T* p) -> Same<T> {
    if constexpr (kIsHalf<T>)
      return {to_float(*p)};
    else
      return {*p};
  };
  if (step_a && step_b) return apply<kInStep>(y, n, stream, f, Array<T>{a}, Array<T>{b});
  if (step_a) return apply<kInStep>(y, n, stream, f, Array<T>{a}, one(b));
  if (step_b) return apply<kInStep>(y, n, stream, f, one(a), Array<T>{b});
  apply<kInStep>(y, n, stream, f, one(a), one(b));
}

// Work that goes through a buffer is done in blocks of this many elements.
inline constexpr std::size_t kBlock = 512;

// n elements to `to`, past the caches where they lie on whole vectors.
template <class T>
HWY_INLINE void stream_block(const T* from, T* to, std::size_t n) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  if (reinterpret_cast<std::uintptr_t>(to) % (lanes * sizeof(T)) == 0)
    for (; i + lanes <= n; i += lanes) hn::Stream(hn::Load(d, from + i), d, to + i);
  if (i < n) std::memcpy(to + i, from + i, (n - i) * sizeof(T));
}

// make(i, m, p) writes elements [i, i + m) to p; with `stream` they go past the caches from there.
template <class T, class F>
HWY_INLINE void in_blocks(T* y, std::size_t n, bool stream, F make) {
  if (!stream) return make(std::size_t{0}, n, y);
  HWY_ALIGN T block[kBlock];
  for (std::size_t i = 0; i < n; i += kBlock) {
    const std::size_t m = n - i < kBlock ? n - i : kBlock;
    make(i, m, block);
    stream_block(block, y + i, m);
  }
}

}  // namespace ebb::kernels::HWY_NAMESPACE::map
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_ELEMENTWISE_INL_HPP_
