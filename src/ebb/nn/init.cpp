#include "ebb/nn/init.hpp"

#include <algorithm>
#include <cmath>

#include "ebb/ops/cast.hpp"
#include "ebb/ops/random.hpp"

namespace ebb::nn {
namespace {

// FNV-1a: the stream of a name, the same on every machine.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

double root(double x) { return std::sqrt(x); }
double fan(std::int64_t n) { return static_cast<double>(std::max<std::int64_t>(n, 1)); }

}  // namespace

Initialiser constant(double value) { return {Initialiser::Kind::constant, value, 0}; }
Initialiser uniform(double low, double high) { return {Initialiser::Kind::uniform, low, high}; }
Initialiser normal(double mean, double deviation) {
  return {Initialiser::Kind::normal, mean, deviation};
}
Initialiser xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  const double r = root(6 / fan(fan_in + fan_out));
  return uniform(-r, r);
}
Initialiser xavier_normal(std::int64_t fan_in, std::int64_t fan_out) {
  return normal(0, root(2 / fan(fan_in + fan_out)));
}
Initialiser kaiming_uniform(std::int64_t fan_in) {
  const double r = root(6 / fan(fan_in));
  return uniform(-r, r);
}
Initialiser kaiming_normal(std::int64_t fan_in) { return normal(0, root(2 / fan(fan_in))); }
Initialiser fan_in_uniform(std::int64_t fan_in) {
  const double r = 1 / root(fan(fan_in));
  return uniform(-r, r);
}

Init Init::operator/(std::string_view part) const {
  Init next = *this;
  if (!next.path_.empty()) next.path_ += '.';
  next.path_ += part;
  return next;
}

Init Init::operator/(int index) const { return *this / std::to_string(index); }

Scope::Id Init::scope() const {
  std::string path = path_;
  std::replace(path.begin(), path.end(), '.', '/');
  return Scope::find(path);
}

Variable Init::make(std::string_view name, const Shape& shape, const Initialiser& first,
                    bool trainable) const {
  const Scope in(scope());
  const CategoryScope category(Category::parameters);
  const std::string full = (*this / name).path();
  const std::uint64_t stream = stream_of(full);
  Tensor value;
  switch (first.kind) {
    case Initialiser::Kind::constant: value = Tensor::full(shape, first.a, dtype_); break;
    case Initialiser::Kind::uniform:
      value = cast(random::uniform(shape, first.a, first.b, seed_, stream), dtype_);
      break;
    case Initialiser::Kind::normal:
      value = cast(random::normal(shape, first.a, first.b, seed_, stream), dtype_);
      break;
  }
  return Variable(full, value, trainable, Category::parameters);
}

}  // namespace ebb::nn
