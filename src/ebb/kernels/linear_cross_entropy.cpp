#include "ebb/kernels/linear_cross_entropy.hpp"

#include <algorithm>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/gemm.hpp"
#include "ebb/kernels/grain.hpp"
#include "ebb/kernels/linear_cross_entropy_rows.hpp"

namespace ebb::kernels {
namespace {

constexpr std::size_t kMostRows = 1024;     // of a tile: more do not make the products quicker
constexpr std::size_t kMostClasses = 4096;  // likewise, and the tile stays in the cache
constexpr std::size_t kLeastKeptRows = 32;  // fewer: making logits twice is quicker
constexpr std::size_t kPad = 64;            // bytes between rows of a tile: no power of two apart

Storage stored(const LinearShape& shape, Storage given) {
  return shape.element == 8 ? Storage::f64 : given;
}

// The three products, for r rows and c classes of a tile that starts at `logits`.
struct Products {
  const LinearShape& shape;
  std::size_t r, c;
  const void *x, *weight;
  void* logits;

  std::size_t ld() const { return c + kPad / shape.element; }
  Storage type() const { return shape.element == 8 ? Storage::f64 : Storage::f32; }
  Operand rows() const { return {x, stored(shape, shape.x), shape.width, false}; }
  Operand classes(bool transposed) const {
    return {weight, stored(shape, shape.weight), shape.width, transposed};
  }
  Gemm to_logits() const {
    return {.m = r,
            .n = c,
            .k = shape.width,
            .a = rows(),
            .b = classes(true),
            .c = logits,
            .ldc = ld(),
            .c_type = type()};
  }
  Gemm to_dx(void* dx, bool first) const {
    return {.m = r,
            .n = shape.width,
            .k = c,
            .a = {logits, type(), ld(), false},
            .b = classes(false),
            .c = dx,
            .ldc = shape.width,
            .c_type = type(),
            .accumulate = !first};
  }
  Gemm to_dweight(void* dweight, bool first) const {
    return {.m = c,
            .n = shape.width,
            .k = r,
            .a = {logits, type(), ld(), true},
            .b = rows(),
            .c = dweight,
            .ldc = shape.width,
            .c_type = type(),
            .accumulate = !first};
  }
};

// What lies where in the scratch.
struct Layout {
  std::size_t products, row_state, logits, all;

  Layout(const LinearShape& shape, const LinearTiles& tiles) : products(0) {
    const std::size_t last_rows = shape.rows % tiles.rows;
    const std::size_t last_classes = shape.classes % tiles.classes;
    for (const std::size_t r : {tiles.rows, last_rows}) {
      for (const std::size_t c : {tiles.classes, last_classes}) {
        const Products p{shape, r, c, nullptr, nullptr, nullptr};
        products = std::max(products, gemm_scratch(p.to_logits()));
        if (!shape.backward) continue;
        products = std::max({products, gemm_scratch(p.to_dx(nullptr, false)),
                             gemm_scratch(p.to_dweight(nullptr, false))});
      }
    }
    products = round_up(products, 64);
    row_state = round_up(tiles.rows * sizeof(LinearRow<float>) / 4 * shape.element, 64);
    const std::size_t held = tiles.keep ? ceil_div(shape.classes, tiles.classes) : 1;
    const std::size_t line = tiles.keep ? shape.classes : std::min(shape.classes, tiles.classes);
    logits = tiles.rows * (line * shape.element + held * kPad);
    all = products + row_state + logits;
  }
};

template <class T, class Label>
class Work {
 public:
  Work(const LinearShape& shape, const LinearTiles& tiles, const void* x, const void* weight,
       const Label* labels, const SparseTargets& targets, std::span<std::byte> scratch)
      : shape_(shape),
        tiles_(tiles),
        x_(x),
        weight_(weight),
        labels_(labels),
        ignore_(targets.ignore_index),
        smoothing_(static_cast<T>(targets.smoothing)),
        all_classes_(shape.classes) {
    const Layout layout(shape, tiles_);
    products_ = scratch.first(layout.products);
    rows_ = reinterpret_cast<LinearRow<T>*>(scratch.data() + layout.products);
    logits_ = scratch.data() + layout.products + layout.row_state;
  }

  // `gradients` may be null.
  void run(const LinearGradients<T>* gradients, T* sum, std::int64_t* count) {
    for (first_ = 0; first_ < shape_.rows; first_ += tiles_.rows) {
      r_ = std::min(tiles_.rows, shape_.rows - first_);
      std::fill_n(rows_, r_, LinearRow<T>());
      for (std::size_t c = 0; c < shape_.classes; c += tiles_.classes) {
        gemm(tile(c).to_logits(), products_);
        add_classes(tile(c), c);
      }
      add_losses(sum, count);
      if (gradients == nullptr) continue;
      if (gradients->row_sums != nullptr) give_sums(gradients->row_sums + 2 * first_);
      T* dx = gradients->dx + first_ * shape_.width;
      for (std::size_t c = 0; c < shape_.classes; c += tiles_.classes) {
        const Products p = tile(c);
        if (!tiles_.keep) gemm(p.to_logits(), products_);
        to_gradient(p, c, gradients->upstream);
        gemm(p.to_dx(dx, c == 0), products_);
        if (gradients->dweight == nullptr) continue;
        gemm(p.to_dweight(gradients->dweight + c * shape_.width,
                          gradients->from_zero && first_ == 0),
             products_);
      }
    }
    if (gradients == nullptr) return;
    if (shape_.classes == 0) std::fill_n(gradients->dx, shape_.rows * shape_.width, T(0));
    if (shape_.rows == 0 && gradients->from_zero && gradients->dweight != nullptr)
      std::fill_n(gradients->dweight, shape_.classes * shape_.width, T(0));
  }

  // The classes at hand are some of all.
  void run(const LinearDweight<T>& gradient) {
    first_class_ = gradient.first;
    all_classes_ = gradient.all;
    for (first_ = 0; first_ < shape_.rows; first_ += tiles_.rows) {
      r_ = std::min(tiles_.rows, shape_.rows - first_);
      take_sums(gradient.row_sums + 2 * first_);
      for (std::size_t c = 0; c < shape_.classes; c += tiles_.classes) {
        const Products p = tile(c);
        gemm(p.to_logits(), products_);
        to_gradient(p, c, gradient.upstream);
        gemm(p.to_dweight(gradient.dweight + c * shape_.width, gradient.from_zero && first_ == 0),
             products_);
      }
    }
    if (shape_.rows == 0 && gradient.from_zero)
      std::fill_n(gradient.dweight, shape_.classes * shape_.width, T(0));
  }

 private:
  Products tile(std::size_t c) const {
    const std::size_t before = c * sizeof(T) + c / tiles_.classes * kPad;  // of each row
    return {shape_,
            r_,
            std::min(tiles_.classes, shape_.classes - c),
            row_of(x_, shape_.x, first_),
            row_of(weight_, shape_.weight, c),
            logits_ + (tiles_.keep ? r_ * before : 0)};
  }
  const void* row_of(const void* data, Storage given, std::size_t row) const {
    const Storage type = stored(shape_, given);
    const std::size_t size = type == Storage::f64 ? 8 : type == Storage::f32 ? 4 : 2;
    return static_cast<const std::byte*>(data) + row * shape_.width * size;
  }

  // f(row of the tile, its logits, its label's place in them or anything from p.c on).
  template <class F>
  void each_row(const Products& p, std::size_t c, F&& f) {
    const std::size_t cost = 32 + p.c * (sizeof(T) == 8 ? 16 : 4);
    pool::parallel_for(r_, grain_for(cost), [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        f(row, static_cast<T*>(p.logits) + row * p.ld(),
          static_cast<std::size_t>(labels_[first_ + row]) - first_class_ - c);
      }
    });
  }
  void give_sums(T* to) const {
    for (std::size_t row = 0; row < r_; ++row) {
      to[2 * row] = rows_[row].max;
      to[2 * row + 1] = rows_[row].sum;
    }
  }
  void take_sums(const T* from) {
    for (std::size_t row = 0; row < r_; ++row)
      rows_[row] = {.max = from[2 * row], .sum = from[2 * row + 1]};
  }
  bool ignored(std::size_t row) const { return labels_[first_ + row] == ignore_; }

  void add_classes(const Products& p, std::size_t c) {
    each_row(p, c, [&](std::size_t row, const T* logits, std::size_t label) {
      if (ignored(row)) return;
      functions_.add(logits, p.c, smoothing_ != 0, rows_[row]);
      if (label < p.c) rows_[row].at_label = logits[label];
    });
  }

  void add_losses(T* sum, std::int64_t* count) {
    for (std::size_t row = 0; row < r_; ++row) {
      if (ignored(row)) continue;
      *sum += functions_.loss(rows_[row], shape_.classes, smoothing_);
      ++*count;
    }
  }

  void to_gradient(const Products& p, std::size_t c, T upstream) {
    const T spread = upstream * (smoothing_ / static_cast<T>(all_classes_));
    each_row(p, c, [&](std::size_t row, T* logits, std::size_t label) {
      if (ignored(row)) {
        std::fill_n(logits, p.c, T(0));
        return;
      }
      functions_.gradient(logits, p.c, rows_[row], upstream, spread);
      if (label < p.c) logits[label] -= upstream * (1 - smoothing_);
    });
  }

  const LinearShape shape_;
  const LinearTiles tiles_;
  const void *x_, *weight_;
  const Label* labels_;
  const std::int64_t ignore_;
  const T smoothing_;
  const LinearRowFunctions<T> functions_ = linear_row_functions<T>();
  std::span<std::byte> products_;
  LinearRow<T>* rows_;
  std::byte* logits_;
  std::size_t first_ = 0, r_ = 0;  // rows of the tile at hand
  std::size_t first_class_ = 0, all_classes_;
};

}  // namespace

double linear_slowness(const LinearTiles& tiles) {
  // Each tile of rows reads the weight twice and its gradient once, and writes that; each tile of
  // classes reads and writes dx. That takes as long as the products of so many more.
  constexpr double kMoreRows = 7, kMoreClasses = 40;
  return 1 + kMoreRows / static_cast<double>(tiles.rows) +
         kMoreClasses / static_cast<double>(tiles.classes);
}

LinearTiles linear_tiles(const LinearShape& shape, std::size_t scratch) {
  const auto fits = [&](const LinearTiles& t) { return linear_scratch(shape, t) <= scratch; };
  const std::size_t all = std::max<std::size_t>(1, shape.rows);
  const std::size_t classes = std::max<std::size_t>(1, shape.classes);
  if (shape.backward) {
    for (std::size_t parts = 1;; ++parts) {
      const LinearTiles t{ceil_div(all, parts), std::min(kMostClasses, classes), true};
      if (t.rows < std::min(all, kLeastKeptRows)) break;
      if (fits(t)) return t;
    }
  }
  LinearTiles best{1, std::min(kLinearBlock, classes), false};
  for (std::size_t parts = ceil_div(all, kMostRows); parts <= 2 * all; parts *= 2) {
    for (std::size_t c = kMostClasses; c >= kLinearBlock; c /= 2) {
      const LinearTiles t{ceil_div(all, parts), std::min(c, classes), false};
      if (linear_slowness(t) < linear_slowness(best) && fits(t)) best = t;
    }
  }
  return best;
}

std::size_t linear_scratch(const LinearShape& shape, const LinearTiles& tiles) {
  return Layout(shape, tiles).all;
}

template <class T, class Label>
void linear_cross_entropy(const LinearShape& shape, const void* x, const void* weight,
                          const Label* labels, const SparseTargets& targets, T* sum,
                          std::int64_t* count, std::span<std::byte> scratch) {
  Work<T, Label>(shape, linear_tiles(shape, scratch.size()), x, weight, labels, targets, scratch)
      .run(nullptr, sum, count);
}

template <class T, class Label>
void linear_cross_entropy_backward(const LinearShape& shape, const void* x, const void* weight,
                                   const Label* labels, const SparseTargets& targets,
                                   const LinearGradients<T>& gradients, T* sum, std::int64_t* count,
                                   std::span<std::byte> scratch) {
  Work<T, Label>(shape, linear_tiles(shape, scratch.size()), x, weight, labels, targets, scratch)
      .run(&gradients, sum, count);
}

namespace {

LinearTiles dweight_tiles(const LinearShape& shape) {
  const std::size_t rows = std::max<std::size_t>(1, shape.rows);
  return {ceil_div(rows, ceil_div(rows, kMostRows)),
          std::clamp<std::size_t>(shape.classes, 1, kMostClasses), false};
}

}  // namespace

std::size_t linear_dweight_scratch(const LinearShape& shape) {
  return linear_scratch(shape, dweight_tiles(shape));
}

template <class T, class Label>
void linear_cross_entropy_dweight(const LinearShape& shape, const void* x, const void* weight,
                                  const Label* labels, const SparseTargets& targets,
                                  const LinearDweight<T>& gradient, std::span<std::byte> scratch) {
  Work<T, Label>(shape, dweight_tiles(shape), x, weight, labels, targets, scratch).run(gradient);
}

#define EBB_LINEAR(T, Label)                                                                     \
  template void linear_cross_entropy(const LinearShape&, const void*, const void*, const Label*, \
                                     const SparseTargets&, T*, std::int64_t*,                    \
                                     std::span<std::byte>);                                      \
  template void linear_cross_entropy_backward(                                                   \
      const LinearShape&, const void*, const void*, const Label*, const SparseTargets&,          \
      const LinearGradients<T>&, T*, std::int64_t*, std::span<std::byte>);                       \
  template void linear_cross_entropy_dweight(const LinearShape&, const void*, const void*,       \
                                             const Label*, const SparseTargets&,                 \
                                             const LinearDweight<T>&, std::span<std::byte>);
EBB_LINEAR(float, std::int32_t)
EBB_LINEAR(float, std::int64_t)
EBB_LINEAR(double, std::int32_t)
EBB_LINEAR(double, std::int64_t)
#undef EBB_LINEAR

}  // namespace ebb::kernels
