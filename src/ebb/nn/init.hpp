// How parameters begin. An Init is a seed and a path; `init / "up"` is the path's next part. What a
// parameter begins with depends on the seed and its own name, not on what else the model has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/tensor/variable.hpp"

namespace ebb::nn {

// A distribution of first values.
struct Initialiser {
  enum class Kind : std::uint8_t { constant, uniform, normal };
  Kind kind = Kind::constant;
  double a = 0, b = 0;  // constant: a; uniform: [a, b); normal: mean a, deviation b
};

Initialiser constant(double value);
Initialiser uniform(double low, double high);
Initialiser normal(double mean, double deviation);
Initialiser xavier_uniform(std::int64_t fan_in, std::int64_t fan_out);
Initialiser xavier_normal(std::int64_t fan_in, std::int64_t fan_out);
Initialiser kaiming_uniform(std::int64_t fan_in);  // for relu
Initialiser kaiming_normal(std::int64_t fan_in);
Initialiser fan_in_uniform(std::int64_t fan_in);  // ±1/sqrt(fan_in), the layers' default

class Init {
 public:
  // The Ledger names the line that made it as the one that opened the parameters' scopes.
  explicit Init(std::uint64_t seed, DType dtype = DType::f32, const char* file = __builtin_FILE(),
                int line = __builtin_LINE())
      : seed_(seed), dtype_(dtype), file_(file), line_(line) {}
  Init operator/(std::string_view part) const;
  Init operator/(int index) const;
  const std::string& path() const { return path_; }  // "layers.0.attn"
  DType dtype() const { return dtype_; }
  Scope::Id scope() const;  // layers/0/attn

  // A variable named path.name.
  Variable make(std::string_view name, const Shape& shape, const Initialiser& first,
                bool trainable = true) const;

 private:
  std::uint64_t seed_;
  DType dtype_;
  std::string path_;
  const char* file_;
  int line_;
};

}  // namespace ebb::nn
