// Recurrent layers over whole sequences: x (batch, time, in) → h (batch, time, hidden).
//
// The input's part of the gates is one ordinary product (`linear`); the recurrent part and the
// gates are one op. A long sequence is cut into segments of a fixed number of steps, each of which
// starts from the state the one before left. So a planner that may recompute any op can drop what a
// segment kept for the way back and make it again from its first state: backpropagation through
// time in little memory, in the same bits, since where the cuts are depends on the number of steps
// alone.
//
// Lengths (batch), where given: a row takes part in the steps before its length. Beyond it the
// output is zero and the state stays; the last state is that at the row's own end. In reverse, a
// row starts at its own end. A length below 0 or above the number of steps is refused when met.
//
// Truncated backpropagation through time: pass the last state of a window on, cut off from its
// past:
//
//   LstmState state;
//   for (const Batch& window : text) {
//     LstmResult r = lstm(window["x"], weights, state);
//     …
//     state = stop_gradient(r.last);
//   }
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

// What the ops of this family share: which of the optional inputs are given, and where the steps
// stand in the sequence.
struct Along {
  bool reverse = false, state = false, lengths = false;
  std::int64_t offset = 0;  // time of the first step
  std::int64_t total = 0;   // steps of the whole sequence: a length is at most that; 0: unknown
  bool operator==(const Along&) const = default;
};

// gates_in (batch, steps, 4 hidden), weight (4 hidden, hidden)[, state (batch, 2 hidden): h, c]
// [, lengths i32 (batch)] → h (batch, steps, hidden), last state (batch, 2 hidden), and, kept for
// the way back, activated gates and cells (batch, steps, hidden). Gates: input, forget, cell,
// output.
struct Lstm {
  static constexpr auto name = "lstm";
  Along along{};
  bool operator==(const Lstm&) const = default;
  std::array<Spec, 4> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out h, Out last, Out gates, Out cells, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int output) const { return output == 2 ? 0b1 : 0; }
};

// gates, cells, weight[, state][, dh][, dlast][, lengths] → gradients of gates_in and of the state.
struct LstmBackward {
  static constexpr auto name = "lstm_backward";
  Along along{};
  bool dh = false, dlast = false;  // are given
  bool operator==(const LstmBackward&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out dgates, Out dstate, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int output) const { return output == 0 ? 0b1 : 0; }
};

// gates_in (batch, steps, 3 hidden), weight (3 hidden, hidden), bias_n (hidden)[, state (batch,
// hidden)][, lengths] → h, last state (batch, hidden), and, kept for the way back, activated gates
// and weight_n · h + bias_n. Gates: reset, update, new:
//   n = tanh(gates_in_n + reset * (weight_n · h + bias_n)),  h' = (1 - update) * n + update * h
struct Gru {
  static constexpr auto name = "gru";
  Along along{};
  bool operator==(const Gru&) const = default;
  std::array<Spec, 4> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out h, Out last, Out gates, Out hidden_n, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int output) const { return output == 2 ? 0b1 : 0; }
};

// gates, hidden_n, h, weight[, state][, dh][, dlast][, lengths] → gradients of gates_in, of
// hidden_n and of the state.
struct GruBackward {
  static constexpr auto name = "gru_backward";
  Along along{};
  bool dh = false, dlast = false;  // are given
  bool operator==(const GruBackward&) const = default;
  std::array<Spec, 3> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out dgates, Out dhidden_n, Out dstate, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int output) const { return output < 2 ? 1u << output : 0; }
};

// d (batch, steps, n), h (batch, steps, hidden)[, rest (batch, steps, m)][, state][, lengths][, sum
// so far] → sum over rows and steps of dᵀ · (h before the step): the recurrent weight's gradient.
// With a rest, its columns take the place of the last m of d's.
struct RecurrentWeightGrad {
  static constexpr auto name = "recurrent_weight_grad";
  Along along{};
  bool rest = false, accumulate = false;
  bool operator==(const RecurrentWeightGrad&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out dweight, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int) const;
};

}  // namespace ebb::ops

namespace ebb {

struct LstmState {
  Tensor h, c;  // (batch, hidden), or both empty: zeros
};
LstmState stop_gradient(const LstmState& state);
// (batch, 2 hidden) as segments pass it on: h and c side by side, or empty. Refuses half of one.
Tensor joined(const LstmState& state);

struct RecurrentOptions {
  bool reverse = false;
  Tensor lengths{};  // i32 or i64 (batch), or none
};

// Gates in the order input, forget, cell, output, as in other frameworks.
struct LstmWeights {
  Tensor input;   // (4 hidden, in)
  Tensor hidden;  // (4 hidden, hidden)
  Tensor bias;    // (4 hidden), or none
};
struct LstmResult {
  Tensor output;  // (batch, time, hidden)
  LstmState last;
};
struct LstmSegments {
  std::vector<Tensor> outputs;  // (batch, steps, hidden), one after the other in time
  LstmState last;
};

// Gates in the order reset, update, new.
struct GruWeights {
  Tensor input;        // (3 hidden, in)
  Tensor hidden;       // (3 hidden, hidden)
  Tensor bias;         // (3 hidden), or none: added to what the input gives
  Tensor bias_hidden;  // (hidden), or none: added to the hidden part of new
};
struct GruResult {
  Tensor output, last;  // (batch, time, hidden), (batch, hidden)
};
struct GruSegments {
  std::vector<Tensor> outputs;
  Tensor last;
};

// Whole up to 64 steps; beyond, in segments of 32, from 513 on of 10 and growing with the root of
// their number (32 at 10,000). The last may be shorter.
std::vector<Tensor> time_segments(const Tensor& x);

LstmResult lstm(const Tensor& x, const LstmWeights& weights, const LstmState& initial = {},
                const RecurrentOptions& options = {});
// The same for a sequence that is in segments already: several layers go on in them, and what uses
// only the last state never puts the outputs together.
LstmSegments lstm(std::span<const Tensor> segments, const LstmWeights& weights,
                  const LstmState& initial = {}, const RecurrentOptions& options = {});

// One segment of a sequence of `total` steps (0: unknown), the first step of which is at `time`,
// from the state (batch, 2 hidden) that the one before left: h and c side by side, or empty.
struct SegmentResult {
  Tensor output, state;
};
SegmentResult lstm_segment(const Tensor& x, const LstmWeights& weights, const Tensor& state,
                           const RecurrentOptions& options = {}, std::int64_t time = 0,
                           std::int64_t total = 0);

GruResult gru(const Tensor& x, const GruWeights& weights, const Tensor& initial = {},
              const RecurrentOptions& options = {});
GruSegments gru(std::span<const Tensor> segments, const GruWeights& weights,
                const Tensor& initial = {}, const RecurrentOptions& options = {});
SegmentResult gru_segment(const Tensor& x, const GruWeights& weights, const Tensor& state,
                          const RecurrentOptions& options = {}, std::int64_t time = 0,
                          std::int64_t total = 0);

}  // namespace ebb
