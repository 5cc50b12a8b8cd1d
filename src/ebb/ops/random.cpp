#include "ebb/ops/random.hpp"

#include <array>

#include "ebb/kernels/random.hpp"

namespace ebb::random {
namespace {

State& current() {
  thread_local State state;
  return state;
}

}  // namespace

State state() { return current(); }
void restore(const State& state) { current() = state; }

void seed(std::uint64_t seed) { current() = State{.seed = seed}; }

void next_step() {
  ++current().step;
  current().draw = 0;
}

Part::Part(std::int64_t row0) : outer_(current().row0) {
  current().row0 = row0;
  current().draw = 0;
}
Part::~Part() { current().row0 = outer_; }

std::uint64_t next_stream() { return current().draw++; }

Tensor key() {
  const State& s = current();
  const std::array<std::int64_t, 3> values = {static_cast<std::int64_t>(s.seed),
                                              static_cast<std::int64_t>(s.step), s.row0};
  return Tensor::from(std::span<const std::int64_t>(values), Shape{3});
}

Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed,
               std::uint64_t stream) {
  Tensor out = Tensor::uninitialized({shape, DType::f32}, "uniform");
  kernels::uniform(reinterpret_cast<float*>(out.bytes()), static_cast<std::size_t>(out.size()), low,
                   high, Draws{{seed, 0}, stream, 0});
  return out;
}

Tensor normal(const Shape& shape, double mean, double stddev, std::uint64_t seed,
              std::uint64_t stream) {
  Tensor out = Tensor::uninitialized({shape, DType::f32}, "normal");
  kernels::normal(reinterpret_cast<float*>(out.bytes()), static_cast<std::size_t>(out.size()), mean,
                  stddev, Draws{{seed, 0}, stream, 0});
  return out;
}

}  // namespace ebb::random
