#include "ebb/kernels/update_factored.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/update_factored.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/update-inl.hpp"

#ifndef EBB_KERNELS_UPDATE_FACTORED_WORK_
#define EBB_KERNELS_UPDATE_FACTORED_WORK_
namespace ebb::kernels {
namespace {

constexpr std::size_t kPiece = 16384;  // elements, about: what one sum is made over

// How a tensor is cut into pieces (of whole rows where it is factored, else of kPiece elements),
// and where in the scratch things lie.
template <class T>
struct Work {
  FactoredUpdate<T> t;
  std::size_t piece_rows, pieces;  // factored: in each matrix
  T* col_sums;                     // (count, pieces, cols)
  T* row_factor;                   // (count, rows): 1 / sqrt(row / mean(row))
  T* col_factor;                   // (count, cols): 1 / sqrt(col)
  double* sums;                    // (count * pieces, 2): of u^2, of p^2
  std::size_t bytes;

  Work(const FactoredUpdate<T>& tensor, std::byte* scratch) : t(tensor) {
    std::size_t at = 0;
    const auto place = [&]<class E>(E*& pointer, std::size_t n) {
      pointer = scratch ? reinterpret_cast<E*>(scratch + at) : nullptr;
      at += round_up(n * sizeof(E), 64);
    };
    if (!t.col) {  // one row
      t.cols = t.size();
      t.count = t.rows = 1;
      piece_rows = 1;
      pieces = ceil_div(t.cols, kPiece);
    } else {
      piece_rows = std::max<std::size_t>(1, kPiece / std::max<std::size_t>(1, t.cols));
      pieces = ceil_div(t.rows, piece_rows);
      place(col_sums, t.count * pieces * t.cols);
      place(row_factor, t.count * t.rows);
      place(col_factor, t.count * t.cols);
    }
    place(sums, 2 * t.count * pieces);
    bytes = at;
  }
  std::size_t all_pieces() const { return t.count * pieces; }
};

}  // namespace
}  // namespace ebb::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// Rows of one piece of a factored tensor.
template <class T>
struct Rows {
  std::size_t matrix, begin, end;
  Rows(const Work<T>& w, std::size_t piece)
      : matrix(piece / w.pieces),
        begin(piece % w.pieces * w.piece_rows),
        end(std::min(w.t.rows, begin + w.piece_rows)) {}
};

// Squares of the gradient: sums by row, which are done, and by column, for this piece.
template <class T>
HWY_INLINE void square_piece(const Work<T>& w, const AdafactorRule& rule, GradientUse use,
                             std::size_t piece) {
  const Gradient<T> gradient(use, 0);
  const std::size_t cols = w.t.cols;
  const Rows<T> rows(w, piece);
  T* const sums = w.col_sums + piece * cols;
  const auto beta2 = static_cast<T>(rule.beta2), fresh = static_cast<T>(1 - rule.beta2);
  const auto eps = static_cast<T>(rule.eps1);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const std::size_t row = rows.matrix * w.t.rows + r;
    const T* grad = w.t.grad + row * cols;
    const bool first = r == rows.begin;
    const T sum = row_sum<T>(cols, [&](auto acc, std::size_t i, auto amount) EBB_LAMBDA {
      const auto g = gradient(load(grad + i, amount));
      const auto square = hn::Mul(g, g);
      store<T>(first ? square : hn::Add(load(sums + i, amount), square), sums + i, amount);
      return hn::Add(acc, square);
    });
    const T mean = sum / static_cast<T>(cols) + eps;
    w.t.row[row] = beta2 * w.t.row[row] + fresh * mean;
  }
}

// Columns [begin, end) of a matrix.
template <class T>
HWY_INLINE void join_columns(const Work<T>& w, const AdafactorRule& rule, std::size_t matrix,
                             std::size_t begin, std::size_t end) {
  const auto eps = constant<T>(rule.eps1), beta2 = constant<T>(rule.beta2);
  const auto fresh = constant<T>(1 - rule.beta2);
  const auto per_row = constant<T>(1 / static_cast<double>(w.t.rows));
  const std::size_t cols = w.t.cols;
  const T* sums = w.col_sums + matrix * w.pieces * cols + begin;
  T* col = w.t.col + matrix * cols + begin;
  T* factor = w.col_factor + matrix * cols + begin;
  each_vector<T>(end - begin, [&](std::size_t i, auto amount) EBB_LAMBDA {
    auto sum = load(sums + i, amount);
    for (std::size_t p = 1; p < w.pieces; ++p)
      sum = hn::Add(sum, load(sums + p * cols + i, amount));
    const auto mean = hn::MulAdd(sum, per_row, eps);
    const auto now = hn::MulAdd(beta2, load(col + i, amount), hn::Mul(fresh, mean));
    store<T>(now, col + i, amount);
    store<T>(hn::Div(constant<T>(1), hn::Sqrt(now)), factor + i, amount);
  });
}

template <class T>
HWY_INLINE void row_factors(const Work<T>& w, std::size_t matrix) {
  const std::size_t rows = w.t.rows;
  const T* row = w.t.row + matrix * rows;
  T* factor = w.row_factor + matrix * rows;
  const T sum = row_sum<T>(rows, [&](auto acc, std::size_t i, auto amount)
                                     EBB_LAMBDA { return hn::Add(acc, load(row + i, amount)); });
  const auto mean = hn::Set(RowTag<T>(), sum / static_cast<T>(rows));
  each_vector<T>(rows, [&](std::size_t i, auto amount) EBB_LAMBDA {
    store<T>(hn::Sqrt(hn::Div(mean, load(row + i, amount))), factor + i, amount);
  });
}

// Sums of u^2 and p^2 over elements [0, n), which lie in one row.
template <class T, class Move>
HWY_INLINE void add_sums(const T* param, std::size_t n, bool relative, double* sums, Move&& move) {
  sums[0] += row_sum<T>(n, [&](auto acc, std::size_t i, auto amount) EBB_LAMBDA {
    const auto u = move(i, amount);
    return hn::MulAdd(u, u, acc);
  });
  if (!relative) return;
  sums[1] += row_sum<T>(n, [&](auto acc, std::size_t i, auto amount) EBB_LAMBDA {
    const auto p = load(param + i, amount);
    return hn::MulAdd(p, p, acc);
  });
}

// u of the elements of a row or of a piece of it: f(first element, how many, move).
template <class T, class F>
HWY_INLINE void each_row(const Work<T>& w, GradientUse use, std::size_t piece, F&& f) {
  const Gradient<T> gradient(use, 0);
  if (!w.t.col) {
    const std::size_t at = piece * kPiece;
    const T *grad = w.t.grad + at, *v = w.t.row + at;
    f(at, std::min(kPiece, w.t.cols - at), [&](std::size_t i, auto amount) EBB_LAMBDA {
      // Elements that are not there have v = 0, and are counted nowhere.
      return hn::Div(gradient(load(grad + i, amount)), hn::Sqrt(load(v + i, amount)));
    });
    return;
  }
  const Rows<T> rows(w, piece);
  const T* col = w.col_factor + rows.matrix * w.t.cols;
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const std::size_t row = rows.matrix * w.t.rows + r;
    const T* grad = w.t.grad + row * w.t.cols;
    const auto factor = hn::Set(RowTag<T>(), w.row_factor[row]);
    f(row * w.t.cols, w.t.cols, [&](std::size_t i, auto amount) EBB_LAMBDA {
      return hn::Mul(hn::Mul(gradient(load(grad + i, amount)), factor), load(col + i, amount));
    });
  }
}

template <class T>
HWY_INLINE void measure_piece(const Work<T>& w, const AdafactorRule& rule, GradientUse use,
                              std::size_t piece) {
  if (!w.t.col) {  // its average first
    const Gradient<T> gradient(use, 0);
    const auto beta2 = constant<T>(rule.beta2), fresh = constant<T>(1 - rule.beta2);
    const auto eps = constant<T>(rule.eps1);
    const std::size_t at = piece * kPiece;
    each_vector<T>(std::min(kPiece, w.t.cols - at), [&](std::size_t i, auto amount) EBB_LAMBDA {
      const auto g = gradient(load(w.t.grad + at + i, amount));
      T* const place = w.t.row + at + i;
      const auto square = hn::Mul(fresh, hn::MulAdd(g, g, eps));
      store<T>(hn::MulAdd(beta2, load(place, amount), square), place, amount);
    });
  }
  double* const sums = w.sums + 2 * piece;
  sums[0] = sums[1] = 0;
  each_row(w, use, piece, [&](std::size_t first, std::size_t n, auto&& move) HWY_ATTR {
    add_sums(w.t.param + first, n, rule.relative, sums, move);
  });
}

template <class T>
HWY_INLINE void move_piece(const Work<T>& w, const AdafactorRule& rule, GradientUse use,
                           double rate, std::size_t piece) {
  const auto by = constant<T>(rate), shrink = constant<T>(1 - rule.lr * rule.weight_decay);
  each_row(w, use, piece, [&](std::size_t first, std::size_t n, auto&& move) HWY_ATTR {
    T* const param = w.t.param + first;
    each_vector<T>(n, [&](std::size_t i, auto amount) EBB_LAMBDA {
      const auto p = hn::Mul(load(param + i, amount), shrink);
      store<T>(hn::NegMulAdd(by, move(i, amount), p), param + i, amount);
    });
  });
}

#define EBB_FACTORED_TARGETS(T, suffix)                                                         \
  void square_##suffix(const Work<T>& w, const AdafactorRule& rule, GradientUse use,            \
                       std::size_t begin, std::size_t end) {                                    \
    for (std::size_t i = begin; i < end; ++i) square_piece(w, rule, use, i);                    \
  }                                                                                             \
  void columns_##suffix(const Work<T>& w, const AdafactorRule& rule, std::size_t matrix,        \
                        std::size_t begin, std::size_t end) {                                   \
    join_columns(w, rule, matrix, begin, end);                                                  \
  }                                                                                             \
  void rows_##suffix(const Work<T>& w, std::size_t matrix) { row_factors(w, matrix); }          \
  void measure_##suffix(const Work<T>& w, const AdafactorRule& rule, GradientUse use,           \
                        std::size_t begin, std::size_t end) {                                   \
    for (std::size_t i = begin; i < end; ++i) measure_piece(w, rule, use, i);                   \
  }                                                                                             \
  void move_##suffix(const Work<T>& w, const AdafactorRule& rule, GradientUse use, double rate, \
                     std::size_t begin, std::size_t end) {                                      \
    for (std::size_t i = begin; i < end; ++i) move_piece(w, rule, use, rate, i);                \
  }
EBB_FACTORED_TARGETS(float, f32)
EBB_FACTORED_TARGETS(double, f64)
#undef EBB_FACTORED_TARGETS

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

HWY_EXPORT(square_f32);
HWY_EXPORT(square_f64);
HWY_EXPORT(columns_f32);
HWY_EXPORT(columns_f64);
HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(measure_f32);
HWY_EXPORT(measure_f64);
HWY_EXPORT(move_f32);
HWY_EXPORT(move_f64);

// The passes, for one element type on the chosen target.
template <class T>
struct Passes {
  void (*square)(const Work<T>&, const AdafactorRule&, GradientUse, std::size_t, std::size_t);
  void (*columns)(const Work<T>&, const AdafactorRule&, std::size_t, std::size_t, std::size_t);
  void (*rows)(const Work<T>&, std::size_t);
  void (*measure)(const Work<T>&, const AdafactorRule&, GradientUse, std::size_t, std::size_t);
  void (*move)(const Work<T>&, const AdafactorRule&, GradientUse, double, std::size_t, std::size_t);
};

template <class T>
void one_tensor(const Passes<T>& pass, const Work<T>& w, const AdafactorRule& rule,
                GradientUse use) {
  const std::size_t pieces = w.all_pieces(), cols = w.t.cols;
  if (w.t.size() == 0) return;
  // As many pieces as make the fork worth it.
  const std::size_t grain = std::max<std::size_t>(1, 2 * kPiece * pieces / w.t.size());
  if (w.t.col) {
    pool::parallel_for(pieces, grain, [&](std::size_t begin, std::size_t end) {
      pass.square(w, rule, use, begin, end);
    });
    for (std::size_t m = 0; m < w.t.count; ++m) {
      const std::size_t few = std::max<std::size_t>(16, 2 * kPiece / w.pieces / 16 * 16);
      pool::parallel_for(cols, few, [&](std::size_t begin, std::size_t end) {
        pass.columns(w, rule, m, begin, end);
      });
      pass.rows(w, m);
    }
  }
  pool::parallel_for(pieces, grain, [&](std::size_t begin, std::size_t end) {
    pass.measure(w, rule, use, begin, end);
  });
  double moves = 0, params = 0;
  for (std::size_t p = 0; p < pieces; ++p) {
    moves += w.sums[2 * p];
    params += w.sums[2 * p + 1];
  }
  const auto n = static_cast<double>(w.t.size());
  double rate = rule.rate / std::max(1.0, std::sqrt(moves / n) / rule.clip);
  if (rule.relative) rate *= std::max(rule.eps2, std::sqrt(params / n));
  pool::parallel_for(pieces, grain, [&](std::size_t begin, std::size_t end) {
    pass.move(w, rule, use, rate, begin, end);
  });
}

// Large tensors one after the other, each on all threads; small ones side by side.
template <class T>
void all_tensors(const Passes<T>& pass, std::span<const FactoredUpdate<T>> tensors,
                 const AdafactorRule& rule, GradientUse use, std::span<std::byte> scratch) {
  const auto large = [](const FactoredUpdate<T>& t) { return t.size() > 2 * kPiece; };
  std::size_t at = 0, small = 0, elements = 0;
  for (const auto& t : tensors) {
    const Work<T> w(t, scratch.data() + at);
    if (large(t)) {
      one_tensor(pass, w, rule, use);
    } else {
      ++small;
      elements += t.size();
    }
    at += w.bytes;
  }
  if (small == 0) return;
  const std::size_t mean = std::max<std::size_t>(1, elements / small);
  pool::parallel_for(tensors.size(), std::max<std::size_t>(1, kPiece / mean),
                     [&](std::size_t begin, std::size_t end) {
                       std::size_t from = 0;
                       for (std::size_t i = 0; i < end; ++i) {
                         const Work<T> w(tensors[i], scratch.data() + from);
                         if (i >= begin && !large(tensors[i])) one_tensor(pass, w, rule, use);
                         from += w.bytes;
                       }
                     });
}

}  // namespace

template <class T>
std::size_t adafactor_scratch(const FactoredUpdate<T>& tensor) {
  return Work<T>(tensor, nullptr).bytes;
}
template std::size_t adafactor_scratch(const FactoredUpdate<float>&);
template std::size_t adafactor_scratch(const FactoredUpdate<double>&);

#define EBB_ADAFACTOR(T, suffix)                                                        \
  void adafactor(std::span<const FactoredUpdate<T>> tensors, const AdafactorRule& rule, \
                 GradientUse use, std::span<std::byte> scratch) {                       \
    const Passes<T> passes{                                                             \
        HWY_DYNAMIC_DISPATCH(square_##suffix), HWY_DYNAMIC_DISPATCH(columns_##suffix),  \
        HWY_DYNAMIC_DISPATCH(rows_##suffix), HWY_DYNAMIC_DISPATCH(measure_##suffix),    \
        HWY_DYNAMIC_DISPATCH(move_##suffix)};                                           \
    all_tensors(passes, tensors, rule, use, scratch);                                   \
  }
EBB_ADAFACTOR(float, f32)
EBB_ADAFACTOR(double, f64)
#undef EBB_ADAFACTOR

}  // namespace ebb::kernels
#endif
