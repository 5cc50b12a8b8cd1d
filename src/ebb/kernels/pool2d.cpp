#include "ebb/kernels/pool2d.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/pool2d.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <limits>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/partial-inl.hpp"

#ifndef EBB_KERNELS_POOL2D_WINDOW_
#define EBB_KERNELS_POOL2D_WINDOW_
namespace ebb::kernels::pooling {

struct Range {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

// The pixels of window `place` along one axis that lie inside the image.
inline Range window(std::size_t place, std::size_t stride, std::size_t pad, std::size_t length,
                    std::size_t pixels) {
  const std::size_t from = place * stride, to = from + length;
  const std::size_t begin = std::min(from > pad ? from - pad : 0, pixels);
  return {begin, std::max(begin, std::min(to > pad ? to - pad : 0, pixels))};
}

// The windows along one axis that hold pixel i.
inline Range windows_of(std::size_t i, std::size_t stride, std::size_t pad, std::size_t length,
                        std::size_t places) {
  const std::size_t at = i + pad;
  const std::size_t begin = at < length ? 0 : (at - length) / stride + 1;
  const std::size_t end = std::min(at / stride + 1, places);
  return {std::min(begin, end), end};
}

// Work of one pixel or place and the rest of its row, in element operations.
inline std::size_t row_grain(std::size_t row_elements) { return 1 + 30000 / (1 + row_elements); }

}  // namespace ebb::kernels::pooling
#endif  // EBB_KERNELS_POOL2D_WINDOW_

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::pooling {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::HWY_NAMESPACE::load_some;
using kernels::HWY_NAMESPACE::store_some;

// Whether v takes the place of the largest so far: larger, or the first NaN.
template <class V>
HWY_INLINE auto beats(V v, V best) {
  return hn::And(hn::Not(hn::Le(v, best)), hn::Eq(best, best));
}

template <class T>
struct Window {
  const T* first;  // channel 0 of the window's first cell
  size_t rows, cols;
  size_t row, col;  // strides
};

template <class T>
HWY_INLINE Window<T> window_at(const Pool2dShape& s, const T* image, size_t i, size_t j) {
  const Range h = window(i, s.stride_h, s.pad_top, s.window_h, s.in_h);
  const Range w = window(j, s.stride_w, s.pad_left, s.window_w, s.in_w);
  return {image + (h.begin * s.in_w + w.begin) * s.channels, h.size(), w.size(),
          s.in_w * s.channels, s.channels};
}

// Rows [begin, end) of y, counted over the batch.
template <class T>
void max_rows(const Pool2dShape& s, const T* x, T* y, size_t begin, size_t end) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), oh = s.out_h(), ow = s.out_w(), channels = s.channels;
  for (size_t row = begin; row < end; ++row) {
    for (size_t j = 0; j < ow; ++j) {
      const Window<T> w = window_at(s, x + row / oh * s.in_h * s.in_w * channels, row % oh, j);
      T* out = y + (row * ow + j) * channels;
      for (size_t c = 0; c < channels; c += lanes) {
        auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
        for (size_t a = 0; a < w.rows; ++a) {
          for (size_t b = 0; b < w.cols; ++b) {
            const auto v = load_some(d, w.first + a * w.row + b * w.col + c, channels - c);
            best = hn::IfThenElse(beats(v, best), v, best);
          }
        }
        store_some(best, d, out + c, channels - c);
      }
    }
  }
}

// Number, counted along the window's rows, of the first of its largest cells, for one vector of
// channels; -1 if the window is empty.
template <class D, class T>
HWY_INLINE hn::Vec<D> first_largest(D d, const Window<T>& w, size_t c, size_t count) {
  auto best = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto cell = hn::Set(d, w.rows * w.cols == 0 ? T{-1} : T{0});
  for (size_t a = 0; a < w.rows; ++a) {
    for (size_t b = 0; b < w.cols; ++b) {
      const auto v = load_some(d, w.first + a * w.row + b * w.col + c, count);
      const auto better = beats(v, best);
      best = hn::IfThenElse(better, v, best);
      cell = hn::IfThenElse(better, hn::Set(d, static_cast<T>(a * w.cols + b)), cell);
    }
  }
  return cell;
}

template <class T>
void pick_rows(const Pool2dShape& s, const T* x, const T* v, T* y, size_t begin, size_t end) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), oh = s.out_h(), ow = s.out_w(), channels = s.channels;
  for (size_t row = begin; row < end; ++row) {
    for (size_t j = 0; j < ow; ++j) {
      const Window<T> w = window_at(s, x + row / oh * s.in_h * s.in_w * channels, row % oh, j);
      const T* from = v + (w.first - x);
      T* out = y + (row * ow + j) * channels;
      for (size_t c = 0; c < channels; c += lanes) {
        const auto cell = first_largest(d, w, c, channels - c);
        auto picked = hn::Zero(d);
        for (size_t a = 0; a < w.rows; ++a) {
          for (size_t b = 0; b < w.cols; ++b) {
            const auto here = hn::Eq(cell, hn::Set(d, static_cast<T>(a * w.cols + b)));
            picked = hn::IfThenElse(
                here, load_some(d, from + a * w.row + b * w.col + c, channels - c), picked);
          }
        }
        store_some(picked, d, out + c, channels - c);
      }
    }
  }
}

// Channels [first, last) of image n: windows in order, each adding to its chosen cell.
template <class T>
void max_grad_image(const Pool2dShape& s, const T* x, const T* dy, T* dx, size_t n, size_t first,
                    size_t last) {
  if (first == last) return;
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), oh = s.out_h(), ow = s.out_w(), channels = s.channels;
  const size_t image = n * s.in_h * s.in_w * channels;
  // Windows that tile the image write every cell once; otherwise cells start at zero.
  const bool once = s.stride_h == s.window_h && s.stride_w == s.window_w &&
                    oh * s.stride_h >= s.in_h + s.pad_top && ow * s.stride_w >= s.in_w + s.pad_left;
  if (!once) {
    for (size_t i = 0; i < s.in_h * s.in_w; ++i) {
      std::memset(static_cast<void*>(dx + image + i * channels + first), 0,
                  (last - first) * sizeof(T));
    }
  }
  for (size_t i = 0; i < oh; ++i) {
    for (size_t j = 0; j < ow; ++j) {
      const Window<T> w = window_at(s, x + image, i, j);
      T* to = dx + (w.first - x);
      const T* slope = dy + ((n * oh + i) * ow + j) * channels;
      for (size_t c = first; c < last; c += lanes) {
        const size_t left = last - c;
        const auto cell = first_largest(d, w, c, left);
        const auto g = load_some(d, slope + c, left);
        for (size_t a = 0; a < w.rows; ++a) {
          for (size_t b = 0; b < w.cols; ++b) {
            T* at = to + a * w.row + b * w.col + c;
            const auto share =
                hn::IfThenElseZero(hn::Eq(cell, hn::Set(d, static_cast<T>(a * w.cols + b))), g);
            store_some(once ? share : hn::Add(load_some(d, at, left), share), d, at, left);
          }
        }
      }
    }
  }
}

template <class T>
T over_cells(const Pool2dShape& s, size_t inside, bool count_padding) {
  const size_t cells = count_padding ? s.window_h * s.window_w : inside;
  return cells == 0 ? T{0} : T{1} / static_cast<T>(cells);
}

template <class T>
void avg_rows(const Pool2dShape& s, const T* x, T* y, bool count_padding, size_t begin,
              size_t end) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), oh = s.out_h(), ow = s.out_w(), channels = s.channels;
  for (size_t row = begin; row < end; ++row) {
    for (size_t j = 0; j < ow; ++j) {
      const Window<T> w = window_at(s, x + row / oh * s.in_h * s.in_w * channels, row % oh, j);
      const auto scale = hn::Set(d, over_cells<T>(s, w.rows * w.cols, count_padding));
      T* out = y + (row * ow + j) * channels;
      for (size_t c = 0; c < channels; c += lanes) {
        auto sum = hn::Zero(d);
        for (size_t a = 0; a < w.rows; ++a) {
          for (size_t b = 0; b < w.cols; ++b) {
            sum = hn::Add(sum, load_some(d, w.first + a * w.row + b * w.col + c, channels - c));
          }
        }
        store_some(hn::Mul(sum, scale), d, out + c, channels - c);
      }
    }
  }
}

// Rows [begin, end) of dx, counted over the batch: each pixel gathers from the windows it is in.
template <class T>
void avg_grad_rows(const Pool2dShape& s, const T* dy, T* dx, bool count_padding, size_t begin,
                   size_t end) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), oh = s.out_h(), ow = s.out_w(), channels = s.channels;
  for (size_t row = begin; row < end; ++row) {
    const T* image = dy + row / s.in_h * oh * ow * channels;
    const Range h = windows_of(row % s.in_h, s.stride_h, s.pad_top, s.window_h, oh);
    for (size_t j = 0; j < s.in_w; ++j) {
      const Range w = windows_of(j, s.stride_w, s.pad_left, s.window_w, ow);
      T* out = dx + (row * s.in_w + j) * channels;
      for (size_t c = 0; c < channels; c += lanes) {
        auto sum = hn::Zero(d);
        for (size_t a = h.begin; a < h.end; ++a) {
          const size_t rows = window(a, s.stride_h, s.pad_top, s.window_h, s.in_h).size();
          for (size_t b = w.begin; b < w.end; ++b) {
            const size_t cols = window(b, s.stride_w, s.pad_left, s.window_w, s.in_w).size();
            const auto scale = hn::Set(d, over_cells<T>(s, rows * cols, count_padding));
            const auto g = load_some(d, image + (a * ow + b) * channels + c, channels - c);
            sum = hn::Add(sum, hn::Mul(g, scale));
          }
        }
        store_some(sum, d, out + c, channels - c);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::pooling

// Where they are called from: compiled for one target alone, a call is by the name in that target's space.
namespace ebb::kernels::HWY_NAMESPACE {
EBB_FLOAT_TARGETS(pool_max_rows, pooling::HWY_NAMESPACE::max_rows);
EBB_FLOAT_TARGETS(pool_pick_rows, pooling::HWY_NAMESPACE::pick_rows);
EBB_FLOAT_TARGETS(pool_max_grad_image, pooling::HWY_NAMESPACE::max_grad_image);
EBB_FLOAT_TARGETS(pool_avg_rows, pooling::HWY_NAMESPACE::avg_rows);
EBB_FLOAT_TARGETS(pool_avg_grad_rows, pooling::HWY_NAMESPACE::avg_grad_rows);
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
EBB_FLOAT_EXPORT(pool_max_rows);
EBB_FLOAT_EXPORT(pool_pick_rows);
EBB_FLOAT_EXPORT(pool_max_grad_image);
EBB_FLOAT_EXPORT(pool_avg_rows);
EBB_FLOAT_EXPORT(pool_avg_grad_rows);

namespace pooling {

std::size_t places(std::size_t in, std::size_t before, std::size_t after, std::size_t window,
                   std::size_t stride) {
  const std::size_t padded = in + before + after;
  return padded < window ? 0 : (padded - window) / stride + 1;
}

// Element operations for a row of y.
std::size_t out_row(const Pool2dShape& s) {
  return s.out_w() * s.channels * (1 + s.window_h * s.window_w);
}

}  // namespace pooling

std::size_t Pool2dShape::out_h() const {
  return pooling::places(in_h, pad_top, pad_bottom, window_h, stride_h);
}
std::size_t Pool2dShape::out_w() const {
  return pooling::places(in_w, pad_left, pad_right, window_w, stride_w);
}

template <class T>
void max_pool2d(const Pool2dShape& s, const T* x, T* y) {
  pool::parallel_for(s.batch * s.out_h(), pooling::row_grain(pooling::out_row(s)),
                     [&](std::size_t b, std::size_t e) {
                       EBB_FLOAT_DISPATCH(T, pool_max_rows)(s, x, y, b, e);
                     });
}

template <class T>
void max_pool2d_pick(const Pool2dShape& s, const T* x, const T* v, T* y) {
  pool::parallel_for(s.batch * s.out_h(), pooling::row_grain(2 * pooling::out_row(s)),
                     [&](std::size_t b, std::size_t e) {
                       EBB_FLOAT_DISPATCH(T, pool_pick_rows)(s, x, v, y, b, e);
                     });
}

template <class T>
void max_pool2d_grad(const Pool2dShape& s, const T* x, const T* dy, T* dx) {
  const std::size_t line = 64 / sizeof(T), lines = ceil_div(s.channels, line);
  const std::size_t wanted = 2 * static_cast<std::size_t>(pool::threads());
  const std::size_t images = std::max<std::size_t>(1, s.batch);
  const std::size_t parts =
      std::clamp<std::size_t>(wanted / images, 1, std::max<std::size_t>(1, lines));
  const std::size_t work =
      (s.in_h * s.in_w * s.channels + 2 * s.out_h() * pooling::out_row(s)) / parts;
  pool::parallel_for(s.batch * parts, pooling::row_grain(work), [&](std::size_t b, std::size_t e) {
    for (std::size_t u = b; u < e; ++u) {
      const std::size_t part = u % parts, first = part * lines / parts * line;
      const std::size_t last = std::min(s.channels, (part + 1) * lines / parts * line);
      EBB_FLOAT_DISPATCH(T, pool_max_grad_image)(s, x, dy, dx, u / parts, first, last);
    }
  });
}

template <class T>
void avg_pool2d(const Pool2dShape& s, const T* x, T* y, bool count_padding) {
  pool::parallel_for(s.batch * s.out_h(), pooling::row_grain(pooling::out_row(s)),
                     [&](std::size_t b, std::size_t e) {
                       EBB_FLOAT_DISPATCH(T, pool_avg_rows)(s, x, y, count_padding, b, e);
                     });
}

template <class T>
void avg_pool2d_grad(const Pool2dShape& s, const T* dy, T* dx, bool count_padding) {
  const std::size_t row = s.in_w * s.channels * 4;
  pool::parallel_for(s.batch * s.in_h, pooling::row_grain(row), [&](std::size_t b, std::size_t e) {
    EBB_FLOAT_DISPATCH(T, pool_avg_grad_rows)(s, dy, dx, count_padding, b, e);
  });
}

#define EBB_POOL2D_FOR(T)                                                       \
  template void max_pool2d<T>(const Pool2dShape&, const T*, T*);                \
  template void max_pool2d_pick<T>(const Pool2dShape&, const T*, const T*, T*); \
  template void max_pool2d_grad<T>(const Pool2dShape&, const T*, const T*, T*); \
  template void avg_pool2d<T>(const Pool2dShape&, const T*, T*, bool);          \
  template void avg_pool2d_grad<T>(const Pool2dShape&, const T*, T*, bool)
EBB_POOL2D_FOR(float);
EBB_POOL2D_FOR(double);
#undef EBB_POOL2D_FOR

}  // namespace ebb::kernels
#endif  // HWY_ONCE
