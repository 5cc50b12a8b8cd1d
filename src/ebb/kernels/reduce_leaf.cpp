#include "ebb/kernels/reduce_leaf.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/reduce_leaf.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "ebb/kernels/convert-inl.hpp"
#include "ebb/kernels/elementwise-inl.hpp"
#include "ebb/kernels/math-inl.hpp"
#include "ebb/kernels/softmax-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

template <Fold kFold, class D, class V>
HWY_INLINE V take_in(D d, V acc, V x, V c) {
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
    return hn::Add(acc, exp(d, hn::Sub(x, c)));
  }
}

// An element that changes nothing when taken in.
template <class A>
A neutral(Fold fold, A c) {
  if (fold == Fold::squares) return c;
  if (fold == Fold::exps) return -std::numeric_limits<A>::infinity();
  return identity<A>(fold);
}

// Two accumulators into one.
template <Fold kFold, class V>
HWY_INLINE V join(V a, V b) {
  if constexpr (kFold == Fold::squares || kFold == Fold::exps) {
    return hn::Add(a, b);
  } else {
    return take_in<kFold>(hn::DFromV<V>(), a, b, a);
  }
}

// Short stretches side by side: each has its own lanes and its own chain, which leaves gaps that the
// others fill. Long ones come one after the other, as the machine foresees them.
template <class A>
inline constexpr std::size_t kAbreast = kVirtualLanes / kRowLanes<A> <= 2 ? 4 : 2;
inline constexpr std::size_t kLongBytes = 2048;

template <Fold kFold, class A, std::size_t kCount>
HWY_INLINE void fold_lanes(const A* x, const Stretches& s, std::size_t first, const A* centres,
                           A* to) {
  const RowTag<A> d;
  x += first * s.step;
  A centre[kCount] = {};
  for (std::size_t r = 0; r < kCount && centres != nullptr; ++r)
    centre[r] = centres[s.one_centre ? 0 : first + r];
  constexpr std::size_t kWidth = kRowLanes<A>, kVectors = kVirtualLanes / kWidth;
  constexpr std::size_t kBytes = kVirtualLanes * sizeof(A);
  RowVec<A> acc[kCount][kVectors], c[kCount];
  for (std::size_t r = 0; r < kCount; ++r) {
    c[r] = hn::Set(d, centre[r]);
    for (auto& lanes : acc[r]) lanes = hn::Set(d, identity<A>(kFold));
  }
  // 16 elements of each stretch, those of stretch r at from + r * apart.
  const auto take_block = [&](const A* from, std::size_t apart) EBB_LAMBDA {
    constexpr std::size_t kAll = kCount * kVectors;
    RowVec<A> v[kAll];
    for (std::size_t j = 0; j < kAll; ++j)
      v[j] = hn::LoadU(d, from + j / kVectors * apart + j % kVectors * kWidth);
    if constexpr (kFold == Fold::exps) {
      for (std::size_t j = 0; j < kAll; ++j) v[j] = hn::Sub(v[j], c[j / kVectors]);
      exp_below_each<A, true>(v);
    }
    for (std::size_t j = 0; j < kAll; ++j) {
      auto& lanes = acc[j / kVectors][j % kVectors];
      lanes = take_in < kFold == Fold::exps ? Fold::sum : kFold > (d, lanes, v[j], c[j / kVectors]);
    }
  };
  const std::size_t after = s.count * s.step * sizeof(A);
  std::size_t i = 0;
  for (; i + kVirtualLanes <= s.n; i += kVirtualLanes) {
    std::size_t ahead = after;
    bool fetch = true;
    if (s.fetch == Stretches::Fetch::soon) {
      ahead = soon_after<A>(i, s.n, kCount, s.step);
    } else {
      fetch = (i / kVirtualLanes % 2 == 1) == (s.fetch == Stretches::Fetch::odd_lines_after);
    }
    if (fetch) {
      for (std::size_t r = 0; r < kCount; ++r) {
        for (std::size_t byte = 0; byte < kBytes; byte += 64)
          fetch_after(x + r * s.step + i, ahead + byte);
      }
    }
    take_block(x + i, s.step);
  }
  if (i < s.n) {
    HWY_ALIGN A rest[kCount][kVirtualLanes];
    for (std::size_t r = 0; r < kCount; ++r) {
      std::fill_n(rest[r], kVirtualLanes, neutral<A>(kFold, centre[r]));
      std::memcpy(rest[r], x + r * s.step + i, (s.n - i) * sizeof(A));
    }
    take_block(rest[0], kVirtualLanes);
  }
  for (std::size_t r = 0; r < kCount; ++r) {
    for (std::size_t half = kVectors / 2; half > 0; half /= 2)
      for (std::size_t k = 0; k < half; ++k) acc[r][k] = join<kFold>(acc[r][k], acc[r][k + half]);
    to[first + r] =
        fold_of_lanes(d, acc[r][0], [](auto a, auto b) EBB_LAMBDA { return join<kFold>(a, b); });
  }
}

template <Fold kFold, class A>
void fold_stretches(const A* x, const Stretches& s, const A* c, A* to) {
  constexpr std::size_t kCount = kFold == Fold::exps ? 2 : kAbreast<A>;
  std::size_t r = 0;
  if (kFold == Fold::exps || s.n * sizeof(A) < kLongBytes) {
    for (; r + kCount <= s.count; r += kCount) fold_lanes<kFold, A, kCount>(x, s, r, c, to);
  }
  for (; r < s.count; ++r) fold_lanes<kFold, A, 1>(x, s, r, c, to);
}

// Four rows at a time: the accumulators are read and written a quarter as often.
template <Fold kFold, class A>
HWY_INLINE void fold_columns(const A* x, std::size_t rows, std::size_t step, std::size_t n,
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
      if (j * sizeof(A) % 64 == 0) {
        const std::size_t ahead = soon_after<A>(j, n, 4, step);
        for (std::size_t k = 0; k < 4; ++k) fetch_after(row + k * step + j, ahead);
      }
      for (std::size_t k = 0; k < 4; ++k)
        v = take_in<kFold>(d, v, hn::LoadU(d, row + k * step + j), centre);
      hn::StoreU(v, d, acc + j);
    }
    if (j < n) {
      const auto centre = kCentred ? load_part(d, c + j, n - j) : hn::Zero(d);
      auto v = load_part(d, acc + j, n - j);
      for (std::size_t k = 0; k < 4; ++k)
        v = take_in<kFold>(d, v, load_part(d, row + k * step + j, n - j), centre);
      store_part(v, d, acc + j, n - j);
    }
  }
  for (; i < rows; ++i) {
    map::apply<1>(
        acc, n, false,
        [](auto tag, auto v, auto e, auto centre)
            EBB_LAMBDA { return take_in<kFold>(tag, v, e, centre); },
        map::Array<A>{acc}, map::Array<A>{x + i * step}, map::Array<A>{kCentred ? c : acc});
  }
}

template <class A>
void float_blocks(Fold fold, const A* x, const Stretches& s, const A* c, A* to) {
  switch (fold) {
    case Fold::sum:
      return fold_stretches<Fold::sum>(x, s, c, to);
    case Fold::prod:
      return fold_stretches<Fold::prod>(x, s, c, to);
    case Fold::max:
      return fold_stretches<Fold::max>(x, s, c, to);
    case Fold::min:
      return fold_stretches<Fold::min>(x, s, c, to);
    case Fold::squares:
      return fold_stretches<Fold::squares>(x, s, c, to);
    case Fold::exps:
      return fold_stretches<Fold::exps>(x, s, c, to);
  }
}

template <class A>
void float_rows(Fold fold, const A* x, std::size_t rows, std::size_t step, std::size_t n,
                const A* c, A* acc) {
  switch (fold) {
    case Fold::sum:
      return fold_columns<Fold::sum>(x, rows, step, n, c, acc);
    case Fold::prod:
      return fold_columns<Fold::prod>(x, rows, step, n, c, acc);
    case Fold::max:
      return fold_columns<Fold::max>(x, rows, step, n, c, acc);
    case Fold::min:
      return fold_columns<Fold::min>(x, rows, step, n, c, acc);
    case Fold::squares:
      return fold_columns<Fold::squares>(x, rows, step, n, c, acc);
    case Fold::exps:
      return fold_columns<Fold::exps>(x, rows, step, n, c, acc);
  }
}

// Integer sums have the same bits in any order: plain loops.
template <class A>
void integer_blocks(Fold fold, const A* x, const Stretches& s, A* to) {
  for (std::size_t r = 0; r < s.count; ++r) {
    to[r] = identity<A>(fold);
    for (std::size_t i = 0; i < s.n; ++i) to[r] = combine<A>(fold, to[r], x[r * s.step + i]);
  }
}

template <class A>
void integer_rows(Fold fold, const A* x, std::size_t rows, std::size_t step, std::size_t n,
                  A* acc) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < n; ++j) acc[j] = combine<A>(fold, acc[j], x[i * step + j]);
}

template <class Half>
void half_blocks(Fold fold, const Half* x, const Stretches& s, const float* c, float* to) {
  HWY_ALIGN float wide[kReduceBlock];
  for (std::size_t r = 0; r < s.count; ++r) {
    widen_block(x + r * s.step, wide, s.n);
    float_blocks<float>(fold, wide, {1, s.n, s.n}, c ? c + r : c, to + r);
  }
}

template <class Half>
void half_rows(Fold fold, const Half* x, std::size_t rows, std::size_t step, std::size_t n,
               const float* c, float* acc) {
  HWY_ALIGN float wide[map::kBlock];
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < n; j += map::kBlock) {
      const std::size_t m = n - j < map::kBlock ? n - j : map::kBlock;
      widen_block(x + i * step + j, wide, m);
      float_rows<float>(fold, wide, 1, 0, m, c ? c + j : nullptr, acc + j);
    }
  }
}

void blocks_of(Element element, Fold fold, const void* x, const Stretches& s, const void* c,
               void* to) {
  const auto* cf = static_cast<const float*>(c);
  auto* f = static_cast<float*>(to);
  switch (element) {
    case Element::f32:
      return float_blocks(fold, static_cast<const float*>(x), s, cf, f);
    case Element::f64:
      return float_blocks(fold, static_cast<const double*>(x), s, static_cast<const double*>(c),
                          static_cast<double*>(to));
    case Element::bf16:
      return half_blocks(fold, static_cast<const bf16*>(x), s, cf, f);
    case Element::f16:
      return half_blocks(fold, static_cast<const f16*>(x), s, cf, f);
    case Element::i32:
      return integer_blocks(fold, static_cast<const std::int32_t*>(x), s,
                            static_cast<std::int32_t*>(to));
    case Element::i64:
      return integer_blocks(fold, static_cast<const std::int64_t*>(x), s,
                            static_cast<std::int64_t*>(to));
    default:
      std::abort();
  }
}

void log_sums_of(Element element, const void* x, const Stretches& s, void* max, void* log_sum) {
  const auto fold = [&]<class A>(const A* from) HWY_ATTR {
    log_sums([&](std::size_t r) EBB_LAMBDA { return from + r * s.step; }, s.count, s.n,
             static_cast<A*>(max), static_cast<A*>(log_sum));
  };
  if (element == Element::f64) return fold(static_cast<const double*>(x));
  fold(static_cast<const float*>(x));
}

void rows_of(Element element, Fold fold, const void* x, std::size_t rows, std::size_t step,
             std::size_t n, const void* c, void* acc) {
  const auto* cf = static_cast<const float*>(c);
  auto* af = static_cast<float*>(acc);
  switch (element) {
    case Element::f32:
      return float_rows(fold, static_cast<const float*>(x), rows, step, n, cf, af);
    case Element::f64:
      return float_rows(fold, static_cast<const double*>(x), rows, step, n,
                        static_cast<const double*>(c), static_cast<double*>(acc));
    case Element::bf16:
      return half_rows(fold, static_cast<const bf16*>(x), rows, step, n, cf, af);
    case Element::f16:
      return half_rows(fold, static_cast<const f16*>(x), rows, step, n, cf, af);
    case Element::i32:
      return integer_rows(fold, static_cast<const std::int32_t*>(x), rows, step, n,
                          static_cast<std::int32_t*>(acc));
    case Element::i64:
      return integer_rows(fold, static_cast<const std::int64_t*>(x), rows, step, n,
                          static_cast<std::int64_t*>(acc));
    default:
      std::abort();
  }
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
HWY_EXPORT(blocks_of);
HWY_EXPORT(log_sums_of);
HWY_EXPORT(rows_of);

void fold_blocks(Element element, Fold fold, const void* x, const Stretches& stretches,
                 const void* c, void* acc) {
  HWY_DYNAMIC_DISPATCH(blocks_of)(element, fold, x, stretches, c, acc);
}

void fold_log_sums(Element element, const void* x, const Stretches& stretches, void* max,
                   void* log_sum) {
  HWY_DYNAMIC_DISPATCH(log_sums_of)(element, x, stretches, max, log_sum);
}

void fold_rows(Element element, Fold fold, const void* x, std::size_t rows, std::size_t step,
               std::size_t n, const void* c, void* acc) {
  HWY_DYNAMIC_DISPATCH(rows_of)(element, fold, x, rows, step, n, c, acc);
}

}  // namespace ebb::kernels
#endif  // HWY_ONCE
