// Recurrent layers over a run of time steps: the recurrent product and the gates in one pass.
//
// A call works on (batch, steps, …). Rows of the batch are independent, so a thread takes some of
// them through all the steps: nobody waits for anybody between two steps. The weight is packed once
// for the call. The input's part of the gates comes from a product made beforehand.
//
// Bits: each gate is one chain of fused multiply-adds over the hidden units, from what the input
// gives it. A row's result depends on that row alone.
//
// Lengths: a row takes part in the steps before its length. Beyond it the state stays as it is, the
// output is zero, and so are the gradients of the gates. Times count from `offset`, that of the
// first step of the call. In reverse, the steps run from the last to the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb::kernels {

struct Recurrence {
  std::size_t batch = 0, steps = 0, hidden = 0;
  bool reverse = false;
  const std::int32_t* lengths = nullptr;  // (batch), or none: all rows take part in every step
  std::int64_t offset = 0;
};

// Gates in the order input, forget, cell, output. The state is h, then c.
template <class T>
struct Lstm {
  Recurrence over;
  const T* gates_in;  // (batch, steps, 4 hidden)
  const T* weight;    // (4 hidden, hidden)
  const T* state;     // (batch, 2 hidden), or none: zeros
  T* h;               // (batch, steps, hidden)
  T* last;            // (batch, 2 hidden)
  T* gates;           // (batch, steps, 4 hidden), activated; may be gates_in
  T* cells;           // (batch, steps, hidden)
};

template <class T>
struct LstmBack {
  Recurrence over;
  const T *gates, *cells, *weight, *state;  // as above
  const T* dh;                              // (batch, steps, hidden), or none: zeros
  const T* dlast;                           // (batch, 2 hidden), or none: zeros
  T* dgates;                                // of gates_in; may be gates
  T* dstate;                                // (batch, 2 hidden)
};

// Gates in the order reset, update, new:
//   n = tanh(gates_in_n + reset * (weight_n · h + bias_n)),  h' = (1 - update) * n + update * h
template <class T>
struct Gru {
  Recurrence over;
  const T* gates_in;  // (batch, steps, 3 hidden)
  const T* weight;    // (3 hidden, hidden)
  const T* bias_n;    // (hidden)
  const T* state;     // (batch, hidden), or none: zeros
  T* h;               // (batch, steps, hidden)
  T* last;            // (batch, hidden)
  T* gates;           // (batch, steps, 3 hidden), activated; may be gates_in
  T* hidden_n;        // (batch, steps, hidden): weight_n · h + bias_n
};

template <class T>
struct GruBack {
  Recurrence over;
  const T *gates, *hidden_n, *h, *weight, *state;
  const T* dh;
  const T* dlast;  // (batch, hidden), or none
  T* dgates;       // may be gates
  T* dhidden_n;    // may be hidden_n
  T* dstate;       // (batch, hidden)
};

// Bytes of scratch, to be 64-byte aligned: a function of sizes and pool::threads().
std::size_t recurrent_scratch(const Recurrence& over, std::size_t gates, std::size_t element_size);

void lstm(const Lstm<float>& call, std::span<std::byte> scratch);
void lstm(const Lstm<double>& call, std::span<std::byte> scratch);
void lstm_backward(const LstmBack<float>& call, std::span<std::byte> scratch);
void lstm_backward(const LstmBack<double>& call, std::span<std::byte> scratch);
void gru(const Gru<float>& call, std::span<std::byte> scratch);
void gru(const Gru<double>& call, std::span<std::byte> scratch);
void gru_backward(const GruBack<float>& call, std::span<std::byte> scratch);
void gru_backward(const GruBack<double>& call, std::span<std::byte> scratch);

// The gradient of the recurrent weight: (columns, hidden) += sum over rows and steps, in that
// order, of dᵀ · (h before the step). Columns come from d, the first of them, and from d_rest, all
// of it.
template <class T>
struct RecurrentWeightGrad {
  Recurrence over;
  const T* d;  // (batch, steps, d_stride), of which the first d_columns are used
  std::size_t d_stride, d_columns;
  const T* d_rest;  // (batch, steps, rest_columns), or none
  std::size_t rest_columns;
  const T* h;      // (batch, steps, hidden)
  const T* state;  // (batch, state_stride): h first; or none: zeros
  std::size_t state_stride;
  T* dweight;  // (d_columns + rest_columns, hidden)
};

std::size_t recurrent_weight_grad_scratch(const RecurrentWeightGrad<float>& call);
std::size_t recurrent_weight_grad_scratch(const RecurrentWeightGrad<double>& call);
void recurrent_weight_grad(const RecurrentWeightGrad<float>& call, std::span<std::byte> scratch);
void recurrent_weight_grad(const RecurrentWeightGrad<double>& call, std::span<std::byte> scratch);

}  // namespace ebb::kernels
