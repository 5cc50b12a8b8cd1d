#include "ebb/kernels/update_sparse.hpp"

#include <algorithm>
#include <type_traits>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/grain.hpp"

namespace ebb::kernels {
namespace {

constexpr std::size_t kZeros = 4096;
constexpr std::size_t kList = 128;  // pieces of a table handed to the rule at once

template <class T>
alignas(64) constexpr T zeros[kZeros] = {};

// Whether a row without a gradient is left as it is.
bool leaves_alone(const SgdRule& rule) { return rule.weight_decay == 0; }
bool leaves_alone(const AdagradRule& rule) { return rule.weight_decay == 0 && rule.eps > 0; }
bool leaves_alone(const AdamRule&) { return false; }
bool leaves_alone(const LazyAdamRule&) { return true; }

template <class T>
bool is_zero(const T* row, std::size_t width) {
  bool zero = true;
  for (std::size_t j = 0; j < width; ++j) zero &= row[j] == T(0);
  return zero;
}

// Pieces of the table in ascending order, handed on some at a time.
template <class T, class Rule>
class Pieces {
 public:
  Pieces(T* param, T* const* state, const Rule& rule, GradientUse use)
      : param_(param), state_{state[0], state[1]}, rule_(rule), use_(use) {}
  void add(std::size_t at, std::size_t size, const T* gradient) {
    const auto part = [&](T* of) { return of == nullptr ? nullptr : of + at; };
    list_[count_++] = {part(param_), gradient, {part(state_[0]), part(state_[1])}, size};
    if (count_ == kList) flush();
  }
  void add_zeros(std::size_t at, std::size_t end) {
    for (; at < end; at += std::min(kZeros, end - at))
      add(at, std::min(kZeros, end - at), zeros<T>);
  }
  void flush() {
    update<T>(std::span<const Update<T>>(list_, count_), rule_, use_);
    count_ = 0;
  }

 private:
  T *param_, *state_[2];
  const Rule& rule_;
  GradientUse use_;
  Update<T> list_[kList];
  std::size_t count_ = 0;
};

// Positions by index, then as they came; and where each index begins.
struct Order {
  std::uint64_t* keys;
  std::uint32_t* begins;
  std::size_t count, different;

  template <class I>
  Order(const I* indices, std::size_t n, std::span<std::byte> scratch)
      : keys(reinterpret_cast<std::uint64_t*>(scratch.data())),
        begins(reinterpret_cast<std::uint32_t*>(keys + n)),
        count(n),
        different(0) {
    for (std::size_t i = 0; i < n; ++i)
      keys[i] = static_cast<std::uint64_t>(indices[i]) << 32 | static_cast<std::uint64_t>(i);
    std::sort(keys, keys + n);
    for (std::size_t i = 0; i < n; ++i)
      if (i == 0 || keys[i] >> 32 != keys[i - 1] >> 32)
        begins[different++] = static_cast<std::uint32_t>(i);
  }
  static std::size_t bytes(std::size_t n) { return round_up(n * 12, 64); }
  std::size_t index(std::size_t k) const { return keys[begins[k]] >> 32; }
  std::size_t end(std::size_t k) const { return k + 1 < different ? begins[k + 1] : count; }
  std::size_t first_from(std::size_t index_wanted) const {  // the first k of at least this index
    std::size_t low = 0, high = different;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      index(middle) < index_wanted ? low = middle + 1 : high = middle;
    }
    return low;
  }
};

template <class T>
void add_rows(const Order& order, std::size_t k, const T* rows, std::size_t width, T* sum) {
  std::fill_n(sum, width, T(0));
  for (std::size_t i = order.begins[k]; i < order.end(k); ++i) {
    const T* row = rows + (order.keys[i] & 0xffffffffu) * width;
    for (std::size_t j = 0; j < width; ++j) sum[j] += row[j];
  }
}

// The gradient's rows, by index: those of one index added up.
template <class T, class I>
struct Sums {
  Order order;
  T* sums;
  Sums(const SparseUpdate<T, I>& t, std::size_t grain, std::span<std::byte> scratch)
      : order(t.indices, t.count, scratch),
        sums(reinterpret_cast<T*>(scratch.data() + Order::bytes(t.count))) {
    pool::parallel_for(order.different, grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = begin; k < end; ++k)
        add_rows(order, k, t.rows, t.width, sums + k * t.width);
    });
  }
  static std::size_t bytes(std::size_t count, std::size_t width, std::size_t element) {
    return Order::bytes(count) + count * width * element;
  }
};

}  // namespace

std::size_t update_sparse_scratch(std::size_t count, std::size_t width, std::size_t element) {
  return Sums<float, std::int64_t>::bytes(count, width, element);
}

template <class T, class I, class Rule>
void update_sparse(const SparseUpdate<T, I>& t, const Rule& rule, GradientUse use,
                   std::span<std::byte> scratch) {
  if (t.width == 0 || t.height == 0) return;
  const std::size_t grain = grain_for(t.width);
  const Sums<T, I> all(t, grain, scratch);
  const Order& order = all.order;
  const T* sums = all.sums;
  if (leaves_alone(rule)) {
    pool::parallel_for(order.different, grain, [&](std::size_t begin, std::size_t end) {
      Pieces<T, Rule> pieces(t.param, t.state, rule, use);
      for (std::size_t k = begin; k < end; ++k) {
        const T* sum = sums + k * t.width;
        if (std::is_same_v<Rule, LazyAdamRule> && is_zero(sum, t.width)) continue;
        pieces.add(order.index(k) * t.width, t.width, sum);
      }
      pieces.flush();
    });
    return;
  }
  pool::parallel_for(t.height, grain, [&](std::size_t begin, std::size_t end) {
    Pieces<T, Rule> pieces(t.param, t.state, rule, use);
    std::size_t at = begin * t.width;
    for (std::size_t k = order.first_from(begin); k < order.different && order.index(k) < end;
         ++k) {
      const std::size_t row = order.index(k) * t.width;
      pieces.add_zeros(at, row);
      pieces.add(row, t.width, sums + k * t.width);
      at = row + t.width;
    }
    pieces.add_zeros(at, end * t.width);
    pieces.flush();
  });
}

std::size_t sparse_squares_scratch(std::size_t count, std::size_t width, std::size_t element) {
  return round_up(update_sparse_scratch(count, width, element), 64) + kSquaresPiece * element +
         sizeof(double);
}

// Piece by piece of the whole gradient, as far as there is anything in them but zeros.
template <class T, class I>
double sparse_squares(const SparseUpdate<T, I>& t, std::span<std::byte> scratch) {
  if (t.width == 0 || t.height == 0) return 0;
  const Sums<T, I> all(t, grain_for(t.width), scratch);
  const Order& order = all.order;
  T* const piece = reinterpret_cast<T*>(
      scratch.data() + round_up(update_sparse_scratch(t.count, t.width, sizeof(T)), 64));
  const std::span<std::byte> sum(reinterpret_cast<std::byte*>(piece + kSquaresPiece),
                                 sizeof(double));
  const std::size_t size = t.height * t.width;
  double total = 0;
  std::size_t at = size;  // where the piece being filled begins; none yet
  const auto finish = [&] {
    if (at == size) return;
    const Update<T> part{nullptr, piece, {nullptr, nullptr}, std::min(kSquaresPiece, size - at)};
    total += sum_of_squares(std::span<const Update<T>>(&part, 1), sum);
  };
  for (std::size_t k = 0; k < order.different; ++k) {
    const std::size_t row = order.index(k) * t.width;
    for (std::size_t done = 0; done < t.width;) {
      const std::size_t from = row + done, begin = from / kSquaresPiece * kSquaresPiece;
      if (begin != at) {
        finish();
        at = begin;
        std::fill_n(piece, kSquaresPiece, T(0));
      }
      const std::size_t n = std::min(t.width - done, begin + kSquaresPiece - from);
      std::copy_n(all.sums + k * t.width + done, n, piece + (from - begin));
      done += n;
    }
  }
  finish();
  return total;
}

#define EBB_UPDATE_SPARSE(T, I, Rule)                                              \
  template void update_sparse(const SparseUpdate<T, I>&, const Rule&, GradientUse, \
                              std::span<std::byte>);
#define EBB_UPDATE_SPARSE_OF(T, I)      \
  EBB_UPDATE_SPARSE(T, I, SgdRule)      \
  EBB_UPDATE_SPARSE(T, I, AdamRule)     \
  EBB_UPDATE_SPARSE(T, I, LazyAdamRule) \
  EBB_UPDATE_SPARSE(T, I, AdagradRule)  \
  template double sparse_squares(const SparseUpdate<T, I>&, std::span<std::byte>);
EBB_UPDATE_SPARSE_OF(float, std::int32_t)
EBB_UPDATE_SPARSE_OF(float, std::int64_t)
EBB_UPDATE_SPARSE_OF(float, std::uint8_t)
EBB_UPDATE_SPARSE_OF(double, std::int32_t)
EBB_UPDATE_SPARSE_OF(double, std::int64_t)
EBB_UPDATE_SPARSE_OF(double, std::uint8_t)
#undef EBB_UPDATE_SPARSE_OF
#undef EBB_UPDATE_SPARSE

}  // namespace ebb::kernels
