#include "ebb/ops/random.hpp"

#include "ebb/kernels/random.hpp"
#include "ebb/ops/tracer.hpp"

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

Part::Part(std::int64_t row0, std::int64_t rows)
    : outer_row0_(current().row0), outer_rows_(current().rows) {
  current().row0 = row0;
  current().rows = rows;
  current().draw = 0;
}
Part::~Part() {
  current().row0 = outer_row0_;
  current().rows = outer_rows_;
}

std::uint64_t next_stream() { return current().draw++; }

void write_key(const State& s, std::int64_t* to) {
  to[0] = static_cast<std::int64_t>(s.seed);
  to[1] = static_cast<std::int64_t>(s.step);
  to[2] = s.row0;
  to[3] = s.rows;
}

std::uint64_t first_position(const std::int64_t* key, std::int64_t size, std::int64_t first_axis) {
  const std::int64_t rows = key[3] > 0 ? key[3] : first_axis;
  return rows > 0 ? static_cast<std::uint64_t>(key[2]) * static_cast<std::uint64_t>(size / rows)
                  : 0;
}

Tensor key() {
  if (ops::Tracer* t = ops::tracer()) return t->key();
  std::int64_t values[kKeySize];
  write_key(current(), values);
  return Tensor::from(std::span<const std::int64_t>(values), Shape{kKeySize});
}

namespace {

// By kernel(elements, their number, a, b, draws).
Tensor drawn(const char* by, void (*kernel)(float*, std::size_t, double, double, Draws),
             const Shape& shape, double a, double b, const Draws& draws) {
  Tensor out = Tensor::uninitialized({shape, DType::f32}, by);
  kernel(reinterpret_cast<float*>(out.bytes()), static_cast<std::size_t>(out.size()), a, b, draws);
  return out;
}

}  // namespace

Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed,
               std::uint64_t stream) {
  return drawn("uniform", kernels::uniform<float>, shape, low, high, {{seed, 0}, stream, 0});
}

Tensor normal(const Shape& shape, double mean, double stddev, std::uint64_t seed,
              std::uint64_t stream) {
  return drawn("normal", kernels::normal<float>, shape, mean, stddev, {{seed, 0}, stream, 0});
}

}  // namespace ebb::random
