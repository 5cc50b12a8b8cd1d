#include "ebb/kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/batch_norm_strips.hpp"
#include "ebb/kernels/grain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/batch_norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// f(column, row offset, amount) adds to sums; four rows at a time, in order.
template <class T, class F>
HWY_INLINE void each_column(const Strip<T>& s, F&& f) {
  constexpr std::size_t kRows = 4;
  std::size_t row = 0;
  for (; row + kRows <= s.rows; row += kRows) {
    each_vector<T>(s.columns, [&](std::size_t j, auto amount) EBB_LAMBDA {
      const std::size_t at = row * s.stride + j;
      if (j * sizeof(T) % 64 == 0) {
        const std::size_t after = soon_after<T>(j, s.columns, kRows, s.stride);
        for (std::size_t r = 0; r < kRows; ++r) {
          fetch_after(s.x + at + r * s.stride, after);
          if (s.dy != nullptr) fetch_after(s.dy + at + r * s.stride, after);
        }
      }
      f(j, at, amount, std::integral_constant<std::size_t, kRows>());
    });
  }
  for (; row <= s.rows; ++row) {
    each_vector<T>(row < s.rows ? s.columns : s.extra, [&](std::size_t j, auto amount) EBB_LAMBDA {
      f(j, row * s.stride + j, amount, std::integral_constant<std::size_t, 1>());
    });
  }
}

// Mean, and sum of squared distances from it, in one pass: sums of x - c and of its square, c being
// the block's first row. Taking c for the mean costs little: as c is itself one of the n values,
// the sum of squares around it is at most n + 1 times the one wanted.
template <class T>
void moments(const Strip<T>& s, T* HWY_RESTRICT mean, T* HWY_RESTRICT squares) {
  std::fill_n(mean, s.columns, T(0));
  std::fill_n(squares, s.columns, T(0));
  each_column(s, [&](std::size_t j, std::size_t at, auto amount, auto rows) EBB_LAMBDA {
    const auto center = load(s.x + j, amount);
    RowVec<T> v[rows], squared[rows];
    for (std::size_t r = 0; r < rows; ++r) {
      v[r] = hn::Sub(load(s.x + at + r * s.stride, amount), center);
    }
    // Rows in pairs, so that the chain is short and loses little.
    for (std::size_t r = 0; r < rows; r += 2) {
      squared[r] = hn::Mul(v[r], v[r]);
      if (r + 1 < rows) {
        squared[r] = hn::MulAdd(v[r + 1], v[r + 1], squared[r]);
        v[r] = hn::Add(v[r], v[r + 1]);
      }
    }
    if constexpr (rows == 4) {
      v[0] = hn::Add(v[0], v[2]);
      squared[0] = hn::Add(squared[0], squared[2]);
    }
    store<T>(hn::Add(load(mean + j, amount), v[0]), mean + j, amount);
    store<T>(hn::Add(load(squares + j, amount), squared[0]), squares + j, amount);
  });
  const auto finish = [&](std::size_t first, std::size_t columns, std::size_t rows) HWY_ATTR {
    if (rows == 0) return;
    const auto count = hn::Set(RowTag<T>(), static_cast<T>(rows));
    each_vector<T>(columns, [&](std::size_t i, auto amount) EBB_LAMBDA {
      const std::size_t j = first + i;
      const auto sum = load(mean + j, amount), away = hn::Div(sum, count);
      const auto around = hn::NegMulAdd(sum, away, load(squares + j, amount));
      store<T>(hn::IfThenZeroElse(hn::Lt(around, hn::Zero(RowTag<T>())), around), squares + j,
               amount);
      store<T>(hn::Add(load(s.x + j, amount), away), mean + j, amount);
    });
  };
  finish(0, s.extra, s.rows + 1);
  finish(s.extra, s.columns - s.extra, s.rows);
}

// Sums of dy and of dy * (x - mean).
template <class T>
void gradient_sums(const Strip<T>& s, const T* HWY_RESTRICT mean, T* HWY_RESTRICT level,
                   T* HWY_RESTRICT along) {
  std::fill_n(level, s.columns, T(0));
  std::fill_n(along, s.columns, T(0));
  each_column(s, [&](std::size_t j, std::size_t at, auto amount, auto rows) EBB_LAMBDA {
    const auto center = load(mean + j, amount);
    auto sum = load(level + j, amount), product = load(along + j, amount);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto g = load(s.dy + at + r * s.stride, amount);
      sum = hn::Add(sum, g);
      product = hn::MulAdd(g, hn::Sub(load(s.x + at + r * s.stride, amount), center), product);
    }
    store<T>(sum, level + j, amount);
    store<T>(product, along + j, amount);
  });
}

template <class T, class Amount>
void affine_rows(const Affine<T>& a, const Coefficients<T>& c) {
  for (std::size_t row = 0; row < a.rows; ++row) {
    const T* x = a.x + row * a.stride;
    T* out = a.out + row * a.stride;
    if (a.dy == nullptr) {
      each_vector<T, Amount>(a.columns, [&](std::size_t j, auto amount) EBB_LAMBDA {
        if (j * sizeof(T) % 64 == 0) fetch_after(x + j, kSoon);
        const auto v = hn::Sub(load(x + j, amount), load(c.shift + j, amount));
        store<T>(hn::MulAdd(v, load(c.scale + j, amount), load(c.level + j, amount)), out + j,
                 amount);
      });
      continue;
    }
    const T* dy = a.dy + row * a.stride;
    each_vector<T, Amount>(a.columns, [&](std::size_t j, auto amount) EBB_LAMBDA {
      if (j * sizeof(T) % 64 == 0) {
        fetch_after(x + j, kSoon);
        fetch_after(dy + j, kSoon);
      }
      const auto v = hn::Sub(load(x + j, amount), load(c.shift + j, amount));
      const auto g = hn::Sub(load(dy + j, amount), load(c.level + j, amount));
      const auto dx = hn::NegMulAdd(v, load(c.slope + j, amount), g);
      store<T>(hn::Mul(dx, load(c.scale + j, amount)), out + j, amount);
    });
  }
}

template <class T>
void affine(const Affine<T>& a, const Coefficients<T>& c) {
  if (!a.stream) return affine_rows<T, Whole>(a, c);
  affine_rows<T, Streamed>(a, c);
  hwy::FlushStream();
}

#define EBB_BATCH_NORM_TARGETS(T, suffix)                                                      \
  void moments_##suffix(const Strip<T>& s, T* mean, T* squares) { moments(s, mean, squares); } \
  void gradient_sums_##suffix(const Strip<T>& s, const T* mean, T* level, T* along) {          \
    gradient_sums(s, mean, level, along);                                                      \
  }                                                                                            \
  void affine_##suffix(const Affine<T>& a, const Coefficients<T>& c) { affine(a, c); }
EBB_BATCH_NORM_TARGETS(float, f32)
EBB_BATCH_NORM_TARGETS(double, f64)
#undef EBB_BATCH_NORM_TARGETS

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

#define EBB_BATCH_NORM_DISPATCH(T, suffix)                                   \
  HWY_EXPORT(moments_##suffix);                                              \
  HWY_EXPORT(gradient_sums_##suffix);                                        \
  HWY_EXPORT(affine_##suffix);                                               \
  void moments(const Strip<T>& s, T* mean, T* squares) {                     \
    HWY_DYNAMIC_DISPATCH(moments_##suffix)(s, mean, squares);                \
  }                                                                          \
  void gradient_sums(const Strip<T>& s, const T* mean, T* level, T* along) { \
    HWY_DYNAMIC_DISPATCH(gradient_sums_##suffix)(s, mean, level, along);     \
  }                                                                          \
  void affine(const Affine<T>& a, const Coefficients<T>& c) {                \
    HWY_DYNAMIC_DISPATCH(affine_##suffix)(a, c);                             \
  }
EBB_BATCH_NORM_DISPATCH(float, f32)
EBB_BATCH_NORM_DISPATCH(double, f64)
#undef EBB_BATCH_NORM_DISPATCH

std::size_t block_count(const Folded& f) { return ceil_div(f.rows + (f.extra > 0), kBlockRows); }

// What a block gives for each column: two sums, in scratch, (blocks, 2, width).
template <class T>
T* block_sums(const Folded& f, std::span<std::byte> scratch, std::size_t block, int which) {
  auto* sums = reinterpret_cast<T*>(scratch.data());
  return sums + (2 * block + static_cast<std::size_t>(which)) * f.width;
}

// Calls body(strip, block, first column) for every block and strip.
template <class T, class Body>
void each_strip(const Folded& f, const T* x, const T* dy, Body&& body) {
  const std::size_t strips = ceil_div(f.width, kStrip);
  pool::parallel_for(block_count(f) * strips, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t block = i / strips, column = i % strips * kStrip;
      const std::size_t row = block * kBlockRows, rows = std::min(kBlockRows, f.rows - row);
      const std::size_t at = row * f.width + column;
      const std::size_t columns = std::min(kStrip, f.width - column);
      const bool last = row + rows == f.rows && rows < kBlockRows;
      const std::size_t extra = last && f.extra > column ? std::min(columns, f.extra - column) : 0;
      body(Strip<T>{x + at, dy == nullptr ? nullptr : dy + at, f.width, rows, columns, extra},
           block, column);
    }
  });
}

// How many rows of the batch column j of a block holds.
double count_of(const Folded& f, std::size_t block, std::size_t j) {
  const std::size_t row = block * kBlockRows, rows = std::min(kBlockRows, f.rows - row);
  return static_cast<double>(rows + (rows < kBlockRows && j < f.extra));
}

constexpr std::size_t kChunk = 64;  // channels whose sums over the blocks go on together

// f(block, first column, count, rows) for the columns of channels [begin, begin + count) in all
// blocks, in pieces that hold equally many rows.
template <class F>
void each_piece(const Folded& f, std::size_t begin, std::size_t count, F&& body) {
  for (std::size_t block = 0; block < block_count(f); ++block) {
    for (std::size_t j = begin; j < f.width; j += f.channels) {
      body(block, j, count, count_of(f, block, j));
    }
  }
}

// f(first channel, count) for chunks of channels.
template <class F>
void each_chunk(const Folded& f, F&& body) {
  const std::size_t chunks = ceil_div(f.channels, kChunk);
  const std::size_t parts = block_count(f) * f.folds * std::min(f.channels, kChunk);
  pool::parallel_for(chunks, grain_for(parts * 2), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      body(i * kChunk, std::min(kChunk, f.channels - i * kChunk));
    }
  });
}

template <class T, class Fill>
void affine_all(const Folded& f, const T* x, const T* dy, T* out, Fill&& fill) {
  const std::size_t spans = ceil_div(f.width, kSpan<T>);
  const std::size_t all_rows = f.rows + (f.extra > 0);
  const bool stream = x != out && dy != out && worth_streaming(out, f.width * sizeof(T), all_rows);
  // So many rows that filling in the coefficients does not count, and some parts for each thread.
  const std::size_t parts = 4 * static_cast<std::size_t>(pool::threads());
  const std::size_t grain =
      std::max(std::clamp<std::size_t>(all_rows / parts, 32, 256), grain_for(f.width));
  pool::parallel_for(all_rows, grain, [&](std::size_t begin, std::size_t end) {
    Coefficients<T> c;
    for (std::size_t s = 0; s < spans; ++s) {
      const std::size_t column = s * kSpan<T>, columns = std::min(kSpan<T>, f.width - column);
      for (std::size_t j = 0; j < columns; ++j) fill(c, j, (column + j) % f.channels);
      const std::size_t at = begin * f.width + column;
      Affine<T> a{x + at,  dy == nullptr ? nullptr : dy + at, out + at,
                  f.width, std::min(end, f.rows) - begin,     columns,
                  stream};
      affine(a, c);
      if (end > f.rows && f.extra > column) {
        const std::size_t skip = a.rows * f.width;
        affine(Affine<T>{a.x + skip, a.dy == nullptr ? nullptr : a.dy + skip, a.out + skip, f.width,
                         1, std::min(columns, f.extra - column), stream},
               c);
      }
    }
  });
}

template <class T>
T rstd_of(T var, double eps) {
  return T(1) / std::sqrt(var + static_cast<T>(eps));
}

}  // namespace

template <class T>
std::size_t batch_norm_scratch(std::size_t rows, std::size_t channels) {
  const Folded f(rows, channels);
  return (2 * block_count(f) + 1) * f.width * sizeof(T);
}

template <class T>
void batch_norm_stats(const T* x, T* mean, T* var, std::size_t rows, std::size_t channels,
                      std::span<std::byte> scratch) {
  const Folded f(rows, channels);
  each_strip<T>(f, x, nullptr, [&](const Strip<T>& s, std::size_t block, std::size_t column) {
    moments(s, block_sums<T>(f, scratch, block, 0) + column,
            block_sums<T>(f, scratch, block, 1) + column);
  });
  const double all = static_cast<double>(rows);
  each_chunk(f, [&](std::size_t channel, std::size_t channels_here) {
    double center[kChunk] = {}, spread[kChunk] = {};
    each_piece(f, channel, channels_here,
               [&](std::size_t block, std::size_t j, std::size_t count, double n) {
                 if (n == 0) return;
                 const T* means = block_sums<T>(f, scratch, block, 0) + j;
                 for (std::size_t c = 0; c < count; ++c) {
                   center[c] += n * static_cast<double>(means[c]);
                 }
               });
    for (std::size_t c = 0; c < channels_here; ++c) center[c] /= all;
    each_piece(f, channel, channels_here,
               [&](std::size_t block, std::size_t j, std::size_t count, double n) {
                 if (n == 0) return;
                 const T* means = block_sums<T>(f, scratch, block, 0) + j;
                 const T* squares = block_sums<T>(f, scratch, block, 1) + j;
                 for (std::size_t c = 0; c < count; ++c) {
                   const double away = static_cast<double>(means[c]) - center[c];
                   spread[c] += static_cast<double>(squares[c]) + n * away * away;
                 }
               });
    for (std::size_t c = 0; c < channels_here; ++c) {
      mean[channel + c] = static_cast<T>(center[c]);
      var[channel + c] = static_cast<T>(spread[c] / all);
    }
  });
}

template <class T>
void batch_norm_apply(const T* x, const T* mean, const T* var, const T* weight, const T* bias, T* y,
                      std::size_t rows, std::size_t channels, double eps) {
  affine_all<T>(Folded(rows, channels), x, nullptr, y,
                [&](Coefficients<T>& c, std::size_t j, std::size_t channel) {
                  c.shift[j] = mean[channel];
                  c.scale[j] = rstd_of(var[channel], eps) * weight[channel];
                  c.level[j] = bias[channel];
                });
}

template <class T>
void batch_norm_backward(const T* x, const T* mean, const T* var, const T* weight, const T* dy,
                         T* dx, T* dweight, T* dbias, std::size_t rows, std::size_t channels,
                         double eps, std::span<std::byte> scratch) {
  const Folded f(rows, channels);
  T* folded_mean = block_sums<T>(f, scratch, block_count(f), 0);
  for (std::size_t j = 0; j < f.width; ++j) folded_mean[j] = mean[j % channels];
  each_strip<T>(f, x, dy, [&](const Strip<T>& s, std::size_t block, std::size_t column) {
    gradient_sums(s, folded_mean + column, block_sums<T>(f, scratch, block, 0) + column,
                  block_sums<T>(f, scratch, block, 1) + column);
  });
  each_chunk(f, [&](std::size_t channel, std::size_t channels_here) {
    double level[kChunk] = {}, along[kChunk] = {};
    each_piece(f, channel, channels_here,
               [&](std::size_t block, std::size_t j, std::size_t count, double) {
                 const T* levels = block_sums<T>(f, scratch, block, 0) + j;
                 const T* alongs = block_sums<T>(f, scratch, block, 1) + j;
                 for (std::size_t c = 0; c < count; ++c) {
                   level[c] += static_cast<double>(levels[c]);
                   along[c] += static_cast<double>(alongs[c]);
                 }
               });
    for (std::size_t c = 0; c < channels_here; ++c) {
      const double rstd = static_cast<double>(rstd_of(var[channel + c], eps));
      dbias[channel + c] = static_cast<T>(level[c]);
      dweight[channel + c] = static_cast<T>(along[c] * rstd);
    }
  });
  if (dx == nullptr) return;
  const T count = static_cast<T>(rows);
  affine_all<T>(f, x, dy, dx, [&](Coefficients<T>& c, std::size_t j, std::size_t channel) {
    const T rstd = rstd_of(var[channel], eps);
    c.shift[j] = mean[channel];
    c.scale[j] = rstd * weight[channel];
    c.level[j] = dbias[channel] / count;
    c.slope[j] = rstd * (dweight[channel] / count);
  });
}

#define EBB_BATCH_NORM(T)                                                                         \
  template std::size_t batch_norm_scratch<T>(std::size_t, std::size_t);                           \
  template void batch_norm_stats(const T*, T*, T*, std::size_t, std::size_t,                      \
                                 std::span<std::byte>);                                           \
  template void batch_norm_apply(const T*, const T*, const T*, const T*, const T*, T*,            \
                                 std::size_t, std::size_t, double);                               \
  template void batch_norm_backward(const T*, const T*, const T*, const T*, const T*, T*, T*, T*, \
                                    std::size_t, std::size_t, double, std::span<std::byte>);
EBB_BATCH_NORM(float)
EBB_BATCH_NORM(double)
#undef EBB_BATCH_NORM

}  // namespace ebb::kernels
#endif
