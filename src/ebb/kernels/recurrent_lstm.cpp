#include <algorithm>

#include "ebb/kernels/recurrent.hpp"
#include "ebb/kernels/recurrent_blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/recurrent_lstm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/math-inl.hpp"
#include "ebb/kernels/recurrent-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

using recurrent::Layout;
using recurrent::Own;
using recurrent::Steps;
using recurrent::takes_part;

constexpr int kGates = 4;

// Where a row's c before a step lies: in the state, or with the step taken before.
template <class T>
HWY_INLINE const T* cell_before(const Recurrence& over, const T* cells, const T* state,
                                const T* zeros, std::size_t row, std::size_t step) {
  const std::size_t n = over.hidden;
  if (step > 0) return cells + (row * over.steps + Steps(over).time(step - 1)) * n;
  return state ? state + row * 2 * n + n : zeros;
}

template <class T>
struct ForwardRow {
  T *gates, *cell, *h, *h_next;  // at the first unit
  const T *made, *cell_before, *h_before;
  std::size_t hidden;
  bool takes_part;
};

template <class T, class Amount>
HWY_INLINE void forward_units(const ForwardRow<T>& row, std::size_t u, Amount amount) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d), n = row.hidden;
  const auto before = load(row.cell_before + u, amount);
  if (HWY_UNLIKELY(!row.takes_part)) {
    const auto zero = hn::Zero(d);
    for (std::size_t g = 0; g < kGates; ++g) store<T>(zero, row.gates + g * n + u, amount);
    store<T>(before, row.cell + u, amount);
    store<T>(zero, row.h + u, amount);
    hn::Store(hn::Load(d, row.h_before + u), d, row.h_next + u);
    return;
  }
  const auto i = sigmoid(d, hn::Load(d, row.made)), f = sigmoid(d, hn::Load(d, row.made + lanes));
  const auto g = tanh(d, hn::Load(d, row.made + 2 * lanes));
  const auto o = sigmoid(d, hn::Load(d, row.made + 3 * lanes));
  const auto c = hn::MulAdd(f, before, hn::Mul(i, g));
  const auto h = hn::Mul(o, tanh(d, c));
  store<T>(i, row.gates + u, amount);
  store<T>(f, row.gates + n + u, amount);
  store<T>(g, row.gates + 2 * n + u, amount);
  store<T>(o, row.gates + 3 * n + u, amount);
  store<T>(c, row.cell + u, amount);
  store<T>(h, row.h + u, amount);
  hn::Store(h, d, row.h_next + u);
}

// What the input gives a row's gates, for one vector of units: where the chains start. Lines
// further on are asked for: the rows are too many streams for the machine to foresee.
template <class T, class Amount>
HWY_INLINE void start_gates(const T* from, std::size_t hidden, T* made, Amount amount) {
  const RowTag<T> d;
  constexpr std::size_t kLinesAhead = 3;
  for (std::size_t g = 0; g < kGates; ++g) {
    hn::Store(load(from + g * hidden, amount), d, made + g * hn::Lanes(d));
    hwy::Prefetch(from + g * hidden + kLinesAhead * 64 / sizeof(T));
  }
}

// Rows of one block through all steps.
template <class T>
HWY_NOINLINE void forward_block(const Lstm<T>& call, const Layout& layout, T* scratch,
                                std::size_t row, std::size_t rows) {
  const Recurrence& over = call.over;
  const std::size_t n = over.hidden, pitch = layout.row, depth = kGates * n;
  const Own<T> own(scratch, layout);
  take_rows(call.state, 2 * n, row, rows, n, own.first, pitch);
  const auto before = [&](std::size_t r, std::size_t step) EBB_LAMBDA {
    return cell_before(over, call.cells, call.state, own.zeros, row + r, step);
  };
  const auto panel = [&](std::size_t step, const T* h_now, T* h_next, std::size_t u,
                         auto amount) EBB_LAMBDA {
    const std::size_t time = Steps(over).time(step);
    make_panel<kGates>(
        over, scratch + u * depth, row, rows, time, h_now, own.made, pitch,
        [&](std::size_t at, T* made)
            EBB_LAMBDA { start_gates(call.gates_in + at * depth + u, n, made, amount); },
        [&](std::size_t r, std::size_t at, const T* made) EBB_LAMBDA {
          const ForwardRow<T> units{call.gates + at * depth,
                                    call.cells + at * n,
                                    call.h + at * n,
                                    h_next + r * pitch,
                                    made,
                                    before(r, step),
                                    h_now + r * pitch,
                                    n,
                                    takes_part(over, row + r, time)};
          forward_units(units, u, amount);
        });
  };
  give_rows(all_steps(over, own, panel), pitch, row, rows, n, call.last, 2 * n);
  for (std::size_t r = 0; r < rows; ++r) {
    const T* c = before(r, over.steps);
    std::copy(c, c + n, call.last + (row + r) * 2 * n + n);
  }
}

template <class T>
struct BackRow {
  const T *gates, *cell, *cell_before, *dh_out;  // dh_out: or none
  T *dgates, *dh, *dc;
  std::size_t hidden;
};

// dh takes in the output's gradient and is used up: the product makes the next one in its place.
template <class T, class Amount>
HWY_INLINE void back_units(const BackRow<T>& row, std::size_t u, Amount amount) {
  const RowTag<T> d;
  const std::size_t n = row.hidden;
  const auto one = hn::Set(d, T(1));
  const auto i = load(row.gates + u, amount), f = load(row.gates + n + u, amount);
  const auto g = load(row.gates + 2 * n + u, amount), o = load(row.gates + 3 * n + u, amount);
  const auto before = load(row.cell_before + u, amount);
  const auto t = tanh(d, load(row.cell + u, amount));
  auto dh = hn::Load(d, row.dh + u);
  if (row.dh_out) dh = hn::Add(dh, load(row.dh_out + u, amount));
  const auto dc = hn::MulAdd(hn::Mul(dh, o), hn::NegMulAdd(t, t, one), hn::Load(d, row.dc + u));
  const auto slope = [&](auto s) EBB_LAMBDA { return hn::Mul(s, hn::Sub(one, s)); };
  store<T>(hn::Mul(hn::Mul(dc, g), slope(i)), row.dgates + u, amount);
  store<T>(hn::Mul(hn::Mul(dc, before), slope(f)), row.dgates + n + u, amount);
  store<T>(hn::Mul(hn::Mul(dc, i), hn::NegMulAdd(g, g, one)), row.dgates + 2 * n + u, amount);
  store<T>(hn::Mul(hn::Mul(dh, t), slope(o)), row.dgates + 3 * n + u, amount);
  hn::Store(hn::Mul(dc, f), d, row.dc + u);
  hn::Store(hn::Zero(d), d, row.dh + u);
}

template <class T>
HWY_NOINLINE void back_gates(const BackRow<T>& row) {
  each_units<T>(row.hidden,
                [&](std::size_t u, auto amount) EBB_LAMBDA { back_units(row, u, amount); });
}

template <class T>
HWY_NOINLINE void back_block(const LstmBack<T>& call, const Layout& layout, T* scratch,
                             std::size_t row, std::size_t rows) {
  const Recurrence& over = call.over;
  const std::size_t n = over.hidden, pitch = layout.row, depth = kGates * n;
  const std::size_t width = kBackVectors * hn::Lanes(RowTag<T>());
  const Own<T> own(scratch, layout);
  T *dh = own.first, *dc = own.second;
  take_rows(call.dlast, 2 * n, row, rows, n, dh, pitch);
  take_rows(call.dlast ? call.dlast + n : nullptr, 2 * n, row, rows, n, dc, pitch);
  for (std::size_t step = over.steps; step-- > 0;) {
    const std::size_t time = Steps(over).time(step);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t at = (row + r) * over.steps + time;
      if (!takes_part(over, row + r, time)) {  // dh and dc stay: a product with zeros adds nothing
        std::fill(call.dgates + at * depth, call.dgates + (at + 1) * depth, T(0));
        continue;
      }
      back_gates<T>({call.gates + at * depth, call.cells + at * n,
                     cell_before(over, call.cells, call.state, own.zeros, row + r, step),
                     call.dh ? call.dh + at * n : nullptr, call.dgates + at * depth, dh + r * pitch,
                     dc + r * pitch, n});
    }
    const T* dgates = call.dgates + (row * over.steps + time) * depth;
    for (std::size_t u = 0; u < n; u += width) {
      product<kBackVectors, T>(rows, 0, depth, depth, dgates, over.steps * depth,
                               scratch + u * depth, dh + u, pitch);
    }
  }
  give_rows(dh, pitch, row, rows, n, call.dstate, 2 * n);
  give_rows(dc, pitch, row, rows, n, call.dstate + n, 2 * n);
}

template <class T>
void run(const Lstm<T>& call, T* scratch) {
  run_forward<kGates>(call, scratch, forward_block<T>);
}
template <class T>
void run(const LstmBack<T>& call, T* scratch) {
  run_back<kGates>(call, scratch, back_block<T>);
}

}  // namespace

EBB_RECURRENT_TARGETS(lstm, Lstm)
EBB_RECURRENT_TARGETS(lstm_backward, LstmBack)

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

EBB_RECURRENT_FUNCTION(lstm, Lstm)
EBB_RECURRENT_FUNCTION(lstm_backward, LstmBack)

}  // namespace ebb::kernels
#endif
