#include <algorithm>

#include "ebb/kernels/recurrent.hpp"
#include "ebb/kernels/recurrent_blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/recurrent_gru.cpp"
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

constexpr int kGates = 3;

template <class T>
struct ForwardRow {
  T *gates, *hidden_n, *h, *h_next;  // at the first unit
  const T *gates_in, *made, *h_before;
  std::size_t hidden;
  bool takes_part;
};

template <class T, class Amount>
HWY_INLINE void forward_units(const ForwardRow<T>& row, std::size_t u, Amount amount) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d), n = row.hidden;
  const auto before = hn::Load(d, row.h_before + u);
  if (HWY_UNLIKELY(!row.takes_part)) {
    const auto zero = hn::Zero(d);
    for (std::size_t g = 0; g < kGates; ++g) store<T>(zero, row.gates + g * n + u, amount);
    store<T>(zero, row.hidden_n + u, amount);
    store<T>(zero, row.h + u, amount);
    hn::Store(before, d, row.h_next + u);
    return;
  }
  const auto reset = sigmoid(d, hn::Load(d, row.made));
  const auto update = sigmoid(d, hn::Load(d, row.made + lanes));
  const auto hidden_n = hn::Load(d, row.made + 2 * lanes);
  const auto fresh = tanh(d, hn::MulAdd(reset, hidden_n, load(row.gates_in + 2 * n + u, amount)));
  const auto h = hn::MulAdd(update, hn::Sub(before, fresh), fresh);
  store<T>(reset, row.gates + u, amount);
  store<T>(update, row.gates + n + u, amount);
  store<T>(fresh, row.gates + 2 * n + u, amount);
  store<T>(hidden_n, row.hidden_n + u, amount);
  store<T>(h, row.h + u, amount);
  hn::Store(h, d, row.h_next + u);
}

// Where the chains start: reset and update from what the input gives them, new from its bias.
template <class T, class Amount>
HWY_INLINE void start_gates(const T* from, std::size_t hidden, const T* bias_n, T* made,
                            Amount amount) {
  const RowTag<T> d;
  constexpr std::size_t kLinesAhead = 3;
  const std::size_t lanes = hn::Lanes(d);
  hn::Store(load(from, amount), d, made);
  hn::Store(load(from + hidden, amount), d, made + lanes);
  hn::Store(load(bias_n, amount), d, made + 2 * lanes);
  for (std::size_t g = 0; g < kGates; ++g)
    hwy::Prefetch(from + g * hidden + kLinesAhead * 64 / sizeof(T));
}

// Rows of one block through all steps.
template <class T>
HWY_NOINLINE void forward_block(const Gru<T>& call, const Layout& layout, T* scratch,
                                std::size_t row, std::size_t rows) {
  const Recurrence& over = call.over;
  const std::size_t n = over.hidden, pitch = layout.row, depth = kGates * n;
  const Own<T> own(scratch, layout);
  take_rows(call.state, n, row, rows, n, own.first, pitch);
  const auto panel = [&](std::size_t step, const T* h_now, T* h_next, std::size_t u,
                         auto amount) EBB_LAMBDA {
    const std::size_t time = Steps(over).time(step);
    make_panel<kGates>(
        over, scratch + u * depth, row, rows, time, h_now, own.made, pitch,
        [&](std::size_t at, T* made) EBB_LAMBDA {
          start_gates(call.gates_in + at * depth + u, n, call.bias_n + u, made, amount);
        },
        [&](std::size_t r, std::size_t at, const T* made) EBB_LAMBDA {
          const ForwardRow<T> units{call.gates + at * depth,
                                    call.hidden_n + at * n,
                                    call.h + at * n,
                                    h_next + r * pitch,
                                    call.gates_in + at * depth,
                                    made,
                                    h_now + r * pitch,
                                    n,
                                    takes_part(over, row + r, time)};
          forward_units(units, u, amount);
        });
  };
  give_rows(all_steps(over, own, panel), pitch, row, rows, n, call.last, n);
}

template <class T>
struct BackRow {
  const T *gates, *hidden_n, *h_before, *dh_out;  // dh_out: or none
  T *dgates, *dhidden_n, *dh;
  std::size_t hidden;
};

// dh takes in the output's gradient and keeps what goes straight to the state before; the product
// adds the rest.
template <class T, class Amount>
HWY_INLINE void back_units(const BackRow<T>& row, std::size_t u, Amount amount) {
  const RowTag<T> d;
  const std::size_t n = row.hidden;
  const auto one = hn::Set(d, T(1));
  const auto reset = load(row.gates + u, amount), update = load(row.gates + n + u, amount);
  const auto fresh = load(row.gates + 2 * n + u, amount);
  const auto hidden_n = load(row.hidden_n + u, amount), before = load(row.h_before + u, amount);
  auto dh = hn::Load(d, row.dh + u);
  if (row.dh_out) dh = hn::Add(dh, load(row.dh_out + u, amount));
  const auto slope = [&](auto s) EBB_LAMBDA { return hn::Mul(s, hn::Sub(one, s)); };
  const auto dn = hn::Mul(hn::Mul(dh, hn::Sub(one, update)), hn::NegMulAdd(fresh, fresh, one));
  store<T>(hn::Mul(hn::Mul(dn, hidden_n), slope(reset)), row.dgates + u, amount);
  store<T>(hn::Mul(hn::Mul(dh, hn::Sub(before, fresh)), slope(update)), row.dgates + n + u, amount);
  store<T>(dn, row.dgates + 2 * n + u, amount);
  store<T>(hn::Mul(dn, reset), row.dhidden_n + u, amount);
  hn::Store(hn::Mul(dh, update), d, row.dh + u);
}

template <class T>
HWY_NOINLINE void back_gates(const BackRow<T>& row) {
  each_units<T>(row.hidden,
                [&](std::size_t u, auto amount) EBB_LAMBDA { back_units(row, u, amount); });
}

// h before a step that the row takes part in: in reverse, the step taken before may be one that it
// does not take part in, whose output is zero.
template <class T>
const T* state_before(const GruBack<T>& call, const T* zeros, std::size_t row, std::size_t step) {
  const Recurrence& over = call.over;
  const std::size_t n = over.hidden;
  const std::size_t time = step > 0 ? Steps(over).time(step - 1) : 0;
  if (step > 0 && takes_part(over, row, time)) return call.h + (row * over.steps + time) * n;
  return call.state ? call.state + row * n : zeros;
}

template <class T>
HWY_NOINLINE void back_block(const GruBack<T>& call, const Layout& layout, T* scratch,
                             std::size_t row, std::size_t rows) {
  const Recurrence& over = call.over;
  const std::size_t n = over.hidden, pitch = layout.row, depth = kGates * n;
  const std::size_t width = kBackVectors * hn::Lanes(RowTag<T>());
  const Own<T> own(scratch, layout);
  T* dh = own.first;
  take_rows(call.dlast, n, row, rows, n, dh, pitch);
  for (std::size_t step = over.steps; step-- > 0;) {
    const std::size_t time = Steps(over).time(step);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t at = (row + r) * over.steps + time;
      if (!takes_part(over, row + r, time)) {  // dh stays: a product with zeros adds nothing
        std::fill(call.dgates + at * depth, call.dgates + (at + 1) * depth, T(0));
        std::fill(call.dhidden_n + at * n, call.dhidden_n + (at + 1) * n, T(0));
        continue;
      }
      back_gates<T>({call.gates + at * depth, call.hidden_n + at * n,
                     state_before(call, own.zeros, row + r, step),
                     call.dh ? call.dh + at * n : nullptr, call.dgates + at * depth,
                     call.dhidden_n + at * n, dh + r * pitch, n});
    }
    const std::size_t at = row * over.steps + time;
    for (std::size_t u = 0; u < n; u += width) {
      const T* panel = scratch + u * depth;
      product<kBackVectors, T>(rows, 0, 2 * n, depth, call.dgates + at * depth, over.steps * depth,
                               panel, dh + u, pitch);
      product<kBackVectors, T>(rows, 2 * n, n, depth, call.dhidden_n + at * n, over.steps * n,
                               panel, dh + u, pitch);
    }
  }
  give_rows(dh, pitch, row, rows, n, call.dstate, n);
}

template <class T>
void run(const Gru<T>& call, T* scratch) {
  run_forward<kGates>(call, scratch, forward_block<T>);
}
template <class T>
void run(const GruBack<T>& call, T* scratch) {
  run_back<kGates>(call, scratch, back_block<T>);
}

}  // namespace

EBB_RECURRENT_TARGETS(gru, Gru)
EBB_RECURRENT_TARGETS(gru_backward, GruBack)

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

EBB_RECURRENT_FUNCTION(gru, Gru)
EBB_RECURRENT_FUNCTION(gru_backward, GruBack)

}  // namespace ebb::kernels
#endif
