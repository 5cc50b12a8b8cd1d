#include "ebb/kernels/recurrent.hpp"

#include <algorithm>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/gemm.hpp"
#include "ebb/kernels/recurrent_blocks.hpp"

namespace ebb::kernels {
namespace {

// Rows of the sum made at a time, those of whole examples: the scratch grows with them, and each
// time the whole sum is read and written, which few rows would not be worth.
std::size_t examples_at_a_time(const Recurrence& over) {
  const std::size_t rows = std::clamp<std::size_t>(2 * over.hidden, 256, 1024);
  return std::min(over.batch, std::max<std::size_t>(1, rows / over.steps));
}

// h before each step of examples [first, first + count), in the order of time.
template <class T>
void states_before(const RecurrentWeightGrad<T>& call, std::size_t first, std::size_t count,
                   T* to) {
  const Recurrence& over = call.over;
  const std::size_t n = over.hidden, steps = over.steps;
  const auto copy = [&](std::size_t begin, std::size_t end) {
    for (std::size_t e = begin; e < end; ++e) {
      const std::size_t row = first + e;
      const T* h = call.h + row * steps * n;
      const T* state = call.state ? call.state + row * call.state_stride : nullptr;
      const auto from_state = [&](T* at) {
        if (state)
          std::copy(state, state + n, at);
        else
          std::fill(at, at + n, T(0));
      };
      T* at = to + e * steps * n;
      if (!over.reverse) {
        from_state(at);
        std::copy(h, h + (steps - 1) * n, at + n);
        continue;
      }
      // The first step taken is the last that the row takes part in.
      std::copy(h + n, h + steps * n, at);
      std::size_t taken = steps;
      while (taken > 0 && !recurrent::takes_part(over, row, taken - 1)) --taken;
      if (taken > 0) from_state(at + (taken - 1) * n);
      if (taken < steps) std::fill(at + (steps - 1) * n, at + steps * n, T(0));
    }
  };
  pool::parallel_for(count, std::max<std::size_t>(1, 32768 / (steps * n)), copy);
}

template <class T>
Gemm product(const RecurrentWeightGrad<T>& call, std::size_t examples, const T* d,
             std::size_t stride, std::size_t columns, std::size_t from_row) {
  constexpr Storage kType = sizeof(T) == 8 ? Storage::f64 : Storage::f32;
  const std::size_t n = call.over.hidden;
  Gemm g;
  g.m = columns;
  g.n = n;
  g.k = examples * call.over.steps;
  g.a = {d, kType, stride, true};
  g.b = {nullptr, kType, n, false};
  g.c = call.dweight + from_row * n;
  g.ldc = n;
  g.c_type = kType;
  g.accumulate = true;
  return g;
}

template <class T>
std::size_t scratch_of(const RecurrentWeightGrad<T>& call) {
  const std::size_t most = examples_at_a_time(call.over);
  if (most == 0) return 0;
  std::size_t products = 0;
  for (const std::size_t examples : {most, call.over.batch % most}) {
    if (examples == 0) continue;
    for (const std::size_t columns : {call.d_columns, call.rest_columns})
      if (columns != 0)
        products = std::max(
            products, gemm_scratch(product(call, examples, call.d, call.d_stride, columns, 0)));
    if (call.rest_columns != 0)
      products = std::max(products, gemm_scratch(product(call, examples, call.d, call.rest_columns,
                                                         call.rest_columns, 0)));
  }
  return round_up(most * call.over.steps * call.over.hidden * sizeof(T), 64) + products;
}

template <class T>
void run(const RecurrentWeightGrad<T>& call, std::span<std::byte> scratch) {
  const Recurrence& over = call.over;
  const std::size_t most = examples_at_a_time(over);
  if (most == 0) return;
  T* before = reinterpret_cast<T*>(scratch.data());
  const auto rest = scratch.subspan(round_up(most * over.steps * over.hidden * sizeof(T), 64));
  for (std::size_t first = 0; first < over.batch; first += most) {
    const std::size_t examples = std::min(most, over.batch - first);
    states_before(call, first, examples, before);
    Gemm g = product(call, examples, call.d + first * over.steps * call.d_stride, call.d_stride,
                     call.d_columns, 0);
    g.b.data = before;
    gemm(g, rest);
    if (call.d_rest == nullptr) continue;
    g = product(call, examples, call.d_rest + first * over.steps * call.rest_columns,
                call.rest_columns, call.rest_columns, call.d_columns);
    g.b.data = before;
    gemm(g, rest);
  }
}

}  // namespace

std::size_t recurrent_scratch(const Recurrence& over, std::size_t gates, std::size_t element_size) {
  const recurrent::Layout layout(over, gates);
  return (layout.packed + static_cast<std::size_t>(pool::threads()) * layout.own) * element_size;
}

std::size_t recurrent_weight_grad_scratch(const RecurrentWeightGrad<float>& call) {
  return scratch_of(call);
}
std::size_t recurrent_weight_grad_scratch(const RecurrentWeightGrad<double>& call) {
  return scratch_of(call);
}
void recurrent_weight_grad(const RecurrentWeightGrad<float>& call, std::span<std::byte> scratch) {
  run(call, scratch);
}
void recurrent_weight_grad(const RecurrentWeightGrad<double>& call, std::span<std::byte> scratch) {
  run(call, scratch);
}

}  // namespace ebb::kernels
