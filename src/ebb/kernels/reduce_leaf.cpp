#include "ebb/kernels/reduce_leaf.hpp"

#include <cstdlib>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/reduce_leaf.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "ebb/kernels/convert-inl.hpp"
#include "ebb/kernels/elementwise-inl.hpp"
#include "ebb/kernels/math-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

inline constexpr std::size_t kLanes = 16;  // virtual: the same for every vector width

template <Fold kFold, class D, class V>
HWY_INLINE V TakeIn(D d, V acc, V x, V c) {
  if constexpr (kFold == Fold::sum) {
    return hn::Add(acc, x);
  } else if constexpr (kFold == Fold::prod) {
    return hn::Mul(acc, x);
  } else if constexpr (kFold == Fold::max) {
    return hn::IfThenElse(hn::Or(hn::Gt(acc, x), hn::IsNaN(acc)), acc, x);
  } else if constexpr (kFold == Fold::min) {
    return hn::IfThenElse(hn::Or(hn::Lt(acc, x), hn::IsNaN(acc)), acc, x);
  } else if constexpr (kFold == Fold::squares) {
    const V centred = hn::Sub(x, c);
    return hn::MulAdd(centred, centred, acc);
  } else {
    return hn::Add(acc, Exp(d, hn::Sub(x, c)));
  }
}

// An element that changes nothing when taken in.
template <class A>
A Neutral(Fold fold, A c) {
  if (fold == Fold::squares) return c;
  if (fold == Fold::exps) return -std::numeric_limits<A>::infinity();
  return identity<A>(fold);
}

template <Fold kFold, class A>
HWY_INLINE A FoldLanes(const A* x, std::size_t n, A centre) {
  const hn::CappedTag<A, kLanes> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kWidth = hn::MaxLanes(d), kVectors = kLanes / kWidth;
  const V c = hn::Set(d, centre);
  V acc[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) acc[k] = hn::Set(d, identity<A>(kFold));
  std::size_t i = 0;
  if constexpr (kFold == Fold::exps && sizeof(A) == 4) {
    // The exponentials of several vectors in step; each is added to its lanes in turn, as below.
    const WideTag<hn::CappedTag<A, kLanes>> w;
    constexpr std::size_t kStep = kWide * kWidth;
    static_assert(kStep % kLanes == 0);
    for (; i + kStep <= n; i += kStep) {
      const auto e = Exp(w, Sub(LoadU(w, x + i), Set(w, centre)));
      for (std::size_t k = 0; k < kWide; ++k)
        acc[k % kVectors] = hn::Add(acc[k % kVectors], e.v[k]);
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    // The next row, or block, is on its way while this one ends.
    hwy::Prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(x + i) +
                                                map::kAheadBytes));
    for (std::size_t k = 0; k < kVectors; ++k)
      acc[k] = TakeIn<kFold>(d, acc[k], hn::LoadU(d, x + i + k * kWidth), c);
  }
  HWY_ALIGN A lanes[kLanes];
  if (i < n) {
    for (std::size_t k = 0; k < kLanes; ++k)
      lanes[k] = i + k < n ? x[i + k] : Neutral<A>(kFold, centre);
    for (std::size_t k = 0; k < kVectors; ++k)
      acc[k] = TakeIn<kFold>(d, acc[k], hn::Load(d, lanes + k * kWidth), c);
  }
  for (std::size_t k = 0; k < kVectors; ++k) hn::Store(acc[k], d, lanes + k * kWidth);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lanes[l] = combine<A>(kFold, lanes[l], lanes[l + half]);
  return lanes[0];
}

// Four rows at a time: the accumulators are read and written a quarter as often.
template <Fold kFold, class A>
HWY_INLINE void FoldColumns(const A* x, std::size_t rows, std::size_t step, std::size_t n,
                            const A* c, A* acc) {
  const hn::ScalableTag<A> d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr bool kCentred = kFold == Fold::squares || kFold == Fold::exps;
  std::size_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const A* row = x + i * step;
    std::size_t j = 0;
    for (; j + lanes <= n; j += lanes) {
      const auto centre = kCentred ? hn::LoadU(d, c + j) : hn::Zero(d);
      auto v = hn::LoadU(d, acc + j);
      for (std::size_t k = 0; k < 4; ++k)
        v = TakeIn<kFold>(d, v, hn::LoadU(d, row + k * step + j), centre);
      hn::StoreU(v, d, acc + j);
    }
    if (j < n) {
      const auto centre = kCentred ? map::LoadPart(d, c + j, n - j) : hn::Zero(d);
      auto v = map::LoadPart(d, acc + j, n - j);
      for (std::size_t k = 0; k < 4; ++k)
        v = TakeIn<kFold>(d, v, map::LoadPart(d, row + k * step + j, n - j), centre);
      map::StorePart(v, d, acc + j, n - j);
    }
  }
  for (; i < rows; ++i) {
    map::Map<false>(
        acc, n, false,
        [](auto tag, auto v, auto e, auto centre) EBB_MAP_LAMBDA {
          return TakeIn<kFold>(tag, v, e, centre);
        },
        map::Array<A>{acc}, map::Array<A>{x + i * step}, map::Array<A>{kCentred ? c : acc});
  }
}

template <class A>
A FloatBlock(Fold fold, const A* x, std::size_t n, A c) {
  switch (fold) {
    case Fold::sum: return FoldLanes<Fold::sum>(x, n, c);
    case Fold::prod: return FoldLanes<Fold::prod>(x, n, c);
    case Fold::max: return FoldLanes<Fold::max>(x, n, c);
    case Fold::min: return FoldLanes<Fold::min>(x, n, c);
    case Fold::squares: return FoldLanes<Fold::squares>(x, n, c);
    case Fold::exps: return FoldLanes<Fold::exps>(x, n, c);
  }
  std::abort();
}

template <class A>
void FloatRows(Fold fold, const A* x, std::size_t rows, std::size_t step, std::size_t n, const A* c,
               A* acc) {
  switch (fold) {
    case Fold::sum: return FoldColumns<Fold::sum>(x, rows, step, n, c, acc);
    case Fold::prod: return FoldColumns<Fold::prod>(x, rows, step, n, c, acc);
    case Fold::max: return FoldColumns<Fold::max>(x, rows, step, n, c, acc);
    case Fold::min: return FoldColumns<Fold::min>(x, rows, step, n, c, acc);
    case Fold::squares: return FoldColumns<Fold::squares>(x, rows, step, n, c, acc);
    case Fold::exps: return FoldColumns<Fold::exps>(x, rows, step, n, c, acc);
  }
}

// Integer sums have the same bits in any order: plain loops.
template <class A>
A IntegerBlock(Fold fold, const A* x, std::size_t n) {
  A acc = identity<A>(fold);
  for (std::size_t i = 0; i < n; ++i) acc = combine<A>(fold, acc, x[i]);
  return acc;
}

template <class A>
void IntegerRows(Fold fold, const A* x, std::size_t rows, std::size_t step, std::size_t n, A* acc) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < n; ++j) acc[j] = combine<A>(fold, acc[j], x[i * step + j]);
}

template <class Half>
float HalfBlock(Fold fold, const Half* x, std::size_t n, float c) {
  HWY_ALIGN float wide[kReduceBlock];
  WidenBlock(x, wide, n);
  return FloatBlock<float>(fold, wide, n, c);
}

template <class Half>
void HalfRows(Fold fold, const Half* x, std::size_t rows, std::size_t step, std::size_t n,
              const float* c, float* acc) {
  HWY_ALIGN float wide[map::kBlock];
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < n; j += map::kBlock) {
      const std::size_t m = n - j < map::kBlock ? n - j : map::kBlock;
      WidenBlock(x + i * step + j, wide, m);
      FloatRows<float>(fold, wide, 1, 0, m, c ? c + j : nullptr, acc + j);
    }
  }
}

void BlockOf(Element element, Fold fold, const void* x, std::size_t n, const void* c, void* acc) {
  const auto put = [&]<class A>(A value) { std::memcpy(acc, &value, sizeof(A)); };
  const auto centre = [&]<class A>(A zero) { return c ? *static_cast<const A*>(c) : zero; };
  switch (element) {
    case Element::f32:
      return put(FloatBlock(fold, static_cast<const float*>(x), n, centre(0.0f)));
    case Element::f64:
      return put(FloatBlock(fold, static_cast<const double*>(x), n, centre(0.0)));
    case Element::bf16:
      return put(HalfBlock(fold, static_cast<const bf16*>(x), n, centre(0.0f)));
    case Element::f16:
      return put(HalfBlock(fold, static_cast<const f16*>(x), n, centre(0.0f)));
    case Element::i32: return put(IntegerBlock(fold, static_cast<const std::int32_t*>(x), n));
    case Element::i64: return put(IntegerBlock(fold, static_cast<const std::int64_t*>(x), n));
    default: std::abort();
  }
}

void RowsOf(Element element, Fold fold, const void* x, std::size_t rows, std::size_t step,
            std::size_t n, const void* c, void* acc) {
  const auto* cf = static_cast<const float*>(c);
  auto* af = static_cast<float*>(acc);
  switch (element) {
    case Element::f32:
      return FloatRows(fold, static_cast<const float*>(x), rows, step, n, cf, af);
    case Element::f64:
      return FloatRows(fold, static_cast<const double*>(x), rows, step, n,
                       static_cast<const double*>(c), static_cast<double*>(acc));
    case Element::bf16: return HalfRows(fold, static_cast<const bf16*>(x), rows, step, n, cf, af);
    case Element::f16: return HalfRows(fold, static_cast<const f16*>(x), rows, step, n, cf, af);
    case Element::i32:
      return IntegerRows(fold, static_cast<const std::int32_t*>(x), rows, step, n,
                         static_cast<std::int32_t*>(acc));
    case Element::i64:
      return IntegerRows(fold, static_cast<const std::int64_t*>(x), rows, step, n,
                         static_cast<std::int64_t*>(acc));
    default: std::abort();
  }
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
HWY_EXPORT(BlockOf);
HWY_EXPORT(RowsOf);

void fold_block(Element element, Fold fold, const void* x, std::size_t n, const void* c,
                void* acc) {
  HWY_DYNAMIC_DISPATCH(BlockOf)(element, fold, x, n, c, acc);
}

void fold_rows(Element element, Fold fold, const void* x, std::size_t rows, std::size_t step,
               std::size_t n, const void* c, void* acc) {
  HWY_DYNAMIC_DISPATCH(RowsOf)(element, fold, x, rows, step, n, c, acc);
}

}  // namespace ebb::kernels
#endif  // HWY_ONCE
