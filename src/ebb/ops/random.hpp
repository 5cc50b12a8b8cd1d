// Where random draws of this thread come from, and tensors of random numbers.
//
// A draw is a pure function of (seed, step, stream, position), see ebb/base/rng.hpp. The streams of
// a step are numbered in the order of the calls that draw; the position of an element counts over
// the whole batch, of which this thread may hold a part.
#pragma once

#include <cstdint>

#include "ebb/tensor/tensor.hpp"

namespace ebb::random {

struct State {
  std::uint64_t seed = 0, step = 0;
  std::uint64_t draw = 0;  // the next call's stream
  std::int64_t row0 = 0;   // where in the whole batch the rows at hand begin
  std::int64_t rows = 0;   // how many they are; 0: as many as an op's first axis is long
  bool operator==(const State&) const = default;
};

State state();
void restore(const State& state);

void seed(std::uint64_t seed);  // and back to the first step
void next_step();

// Rows from `row0` on of a batch that is taken in parts: for as long as it lives, each part draws
// what the whole would have drawn for its rows. `rows` tells how many they are, for models that
// reshape: without it an op's first axis counts rows.
class Part {
 public:
  explicit Part(std::int64_t row0, std::int64_t rows = 0);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 private:
  std::int64_t outer_row0_, outer_rows_;
};

// What an op that draws is given: its own stream, and (seed, step, row0, rows) as an i64 tensor, so
// that a compiled step can be fed new ones.
inline constexpr std::int64_t kKeySize = 4;
void write_key(const State& state, std::int64_t* to);
// Where the draws of a tensor of `size` elements, `first_axis` rows long, begin.
std::uint64_t first_position(const std::int64_t* key, std::int64_t size, std::int64_t first_axis);
std::uint64_t next_stream();
Tensor key();

// f32, independent of the state above: the same seed and stream give the same tensor.
Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed,
               std::uint64_t stream);
Tensor normal(const Shape& shape, double mean, double stddev, std::uint64_t seed,
              std::uint64_t stream);

}  // namespace ebb::random
