#include "ebb/nn/init.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "ebb/base/error.hpp"
#include "ebb/kernels/random.hpp"
#include "ebb/tensor/with_type.hpp"

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

// Draws are counted, so that any part of a parameter can be made by itself: in f32, then rounded to
// its own type.
class Drawn final : public InitialValue {
 public:
  Drawn(Initialiser first, DType dtype, std::uint64_t seed, std::uint64_t stream)
      : first_(first), dtype_(dtype), seed_(seed), stream_(stream) {}

  void fill(std::span<std::byte> to, std::uint64_t element) const override {
    const std::size_t size = size_of(dtype_), count = to.size() / size;
    const bool same = first_.kind == Initialiser::Kind::constant;
    if (dtype_ == DType::f32) return draw(reinterpret_cast<float*>(to.data()), count, element);
    for (std::size_t at = 0; at < count; at += kChunk) {
      alignas(64) float part[kChunk];
      const std::size_t n = std::min<std::size_t>(kChunk, count - at);
      draw(part, n, element + at);
      with_type(dtype_, [&](auto zero) {
        using T = decltype(zero);
        T* out = reinterpret_cast<T*>(to.data()) + at;
        for (std::size_t i = 0; i < n; ++i)
          out[i] = element_of<T>(same ? first_.a : static_cast<double>(part[i]));
      });
    }
  }
  bool lasting() const override { return true; }

 private:
  void draw(float* to, std::size_t n, std::uint64_t element) const {
    const Draws draws{{seed_, 0}, stream_, element};
    switch (first_.kind) {
      case Initialiser::Kind::constant:
        std::fill_n(to, n, static_cast<float>(first_.a));
        break;
      case Initialiser::Kind::uniform:
        kernels::uniform(to, n, first_.a, first_.b, draws);
        break;
      case Initialiser::Kind::normal:
        kernels::normal(to, n, first_.a, first_.b, draws);
        break;
    }
  }
  Initialiser first_;
  DType dtype_;
  std::uint64_t seed_, stream_;
};

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
  return Scope::find(path, file_, line_);
}

Variable Init::make(std::string_view name, const Shape& shape, const Initialiser& first,
                    bool trainable) const {
  if (!is_float(dtype_))
    throw Error(fmt::format("init: parameters of {}; expected a floating type", ebb::name(dtype_)));
  const Scope in(scope());
  const std::string full = (*this / name).path();
  return Variable(full, {shape, dtype_},
                  std::make_shared<Drawn>(first, dtype_, seed_, stream_of(full)), trainable,
                  Category::parameters);
}

}  // namespace ebb::nn
