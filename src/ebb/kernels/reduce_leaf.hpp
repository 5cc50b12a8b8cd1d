// What a reduction does innermost; vector code behind one dispatched call each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ebb/kernels/element.hpp"

namespace ebb::kernels {

// How an element x enters an accumulator. c is a value per output; for exps, at least x.
enum class Fold { sum, prod, max, min, squares /* (x - c)^2 */, exps /* e^(x - c) */ };

inline constexpr std::size_t kReduceBlock = 4096;

// 16-bit floats are accumulated in f32, everything else in its own type.
template <class T>
using AccumulatorOf = std::conditional_t<sizeof(T) == 2, float, T>;

template <class A>
constexpr A identity(Fold fold) {
  using Limits = std::numeric_limits<A>;
  switch (fold) {
    case Fold::prod:
      return A(1);
    case Fold::max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Fold::min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return A(0);
  }
}

// Two accumulators into one; NaN wins in max and min.
template <class A>
inline A combine(Fold fold, A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    switch (fold) {
      case Fold::prod:
        return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
      case Fold::max:
        return a > b ? a : b;
      case Fold::min:
        return a < b ? a : b;
      default:
        return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    }
  } else {
    switch (fold) {
      case Fold::prod:
        return a * b;
      case Fold::max:
        return a > b || a != a ? a : b;
      case Fold::min:
        return a < b || a != a ? a : b;
      default:
        return a + b;
    }
  }
}

// Stretches of n elements, `step` apart.
struct Stretches {
  std::size_t count, n, step;
  bool one_centre = false;  // c is one value for all of them; else a value for each
  // What is asked of memory meanwhile: all lines soon to be read; or, where the stretches are read
  // twice, every second line of what follows them in one pass and the others in the other, so that
  // neither pass leaves memory idle.
  enum class Fetch { soon, even_lines_after, odd_lines_after } fetch = Fetch::soon;
};

// acc[s] = the fold of the n <= 4096 elements of stretch s in the canonical order of a block.
void fold_blocks(Element element, Fold fold, const void* x, const Stretches& stretches,
                 const void* c, void* acc);

// Of each stretch its largest element, and the logarithm of the sum of e^(x - max), the sum in the
// same order; float and double alone. With a NaN among them max is some element and the logarithm
// NaN, as it is where max is infinite.
void fold_log_sums(Element element, const void* x, const Stretches& stretches, void* max,
                   void* log_sum);

// acc[j] takes in x[i * step + j] for i = 0, 1, ... rows - 1, for each j < n. c[j], where used.
void fold_rows(Element element, Fold fold, const void* x, std::size_t rows, std::size_t step,
               std::size_t n, const void* c, void* acc);

}  // namespace ebb::kernels
