// Layers as plain structs. A model is a struct of layers with one function that calls them and one
// that lists them:
//
//   struct Mlp {
//     nn::Dense up, down;
//     Mlp(nn::Init init) : up(init / "up", 784, 1024), down(init / "down", 1024, 10) {}
//     Tensor operator()(Tensor x) const { return down(relu(up(x))); }
//     void each(auto&& f) { f("up", up); f("down", down); }
//   };
//
// Dropout and BatchNorm act as in training, unless an nn::Evaluation is alive on the thread.
#pragma once

#include <cstdint>
#include <optional>

#include "ebb/nn/init.hpp"
#include "ebb/ops/conv.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/pooling.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::nn {

bool training();

class Evaluation {
 public:
  explicit Evaluation(bool evaluate = true);  // false: training, inside of another
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  bool before_;
};

struct DenseOptions {
  bool bias = true;
  Activation activation = Activation::none;  // fused into the product
  std::optional<Initialiser> first = {};     // of the weight, whose bias then begins at 0
};

struct Dense {      // (…, in) → (…, out)
  Variable weight;  // (out, in)
  Variable bias;    // (out), or none
  Activation activation;
  Scope::Id scope;
  Dense(const Init& init, std::int64_t in, std::int64_t out, DenseOptions options = {});
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) {
    f("weight", weight);
    if (bias) f("bias", bias);
  }
};

struct Embedding {  // ids (…) → (…, width)
  Variable weight;  // (count, width)
  Scope::Id scope;
  Embedding(const Init& init, std::int64_t count, std::int64_t width,
            const Initialiser& first = normal(0, 1));
  Tensor operator()(const Tensor& ids) const;
  void each(auto&& f) { f("weight", weight); }
};

struct LayerNorm {  // over the last axis
  Variable weight, bias;
  double eps;
  Scope::Id scope;
  LayerNorm(const Init& init, std::int64_t width, double eps = 1e-5);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) {
    f("weight", weight);
    f("bias", bias);
  }
};

struct RMSNorm {  // over the last axis
  Variable weight;
  double eps;
  Scope::Id scope;
  RMSNorm(const Init& init, std::int64_t width, double eps = 1e-6);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) { f("weight", weight); }
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum =
      0.1;  // of the running statistics: new = (1 - momentum) * old + momentum * batch
};

struct BatchNorm {  // over every axis but the last
  Variable weight, bias, running_mean, running_var;
  BatchNormOptions options;
  Scope::Id scope;
  BatchNorm(const Init& init, std::int64_t channels, BatchNormOptions options = {});
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) {
    f("weight", weight);
    f("bias", bias);
    f("running_mean", running_mean);
    f("running_var", running_var);
  }
};

struct Dropout {
  double rate;
  explicit Dropout(double rate);
  Tensor operator()(const Tensor& x) const;
  void each(auto&&) {}
};

struct Conv2d {     // (batch, height, width, in) → (batch, height', width', out)
  Variable weight;  // (out, kernel, kernel, in / groups)
  Variable bias;
  Conv2dOptions options;
  Scope::Id scope;
  Conv2d(const Init& init, std::int64_t in, std::int64_t out, std::int64_t kernel,
         Conv2dOptions options = {}, bool with_bias = true);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) {
    f("weight", weight);
    if (bias) f("bias", bias);
  }
};

struct Conv1d {     // (batch, length, in) → (batch, length', out)
  Variable weight;  // (out, kernel, in / groups)
  Variable bias;
  Conv1dOptions options;
  Scope::Id scope;
  Conv1d(const Init& init, std::int64_t in, std::int64_t out, std::int64_t kernel,
         Conv1dOptions options = {}, bool with_bias = true);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& f) {
    f("weight", weight);
    if (bias) f("bias", bias);
  }
};

// Pooling has no parameters: structs, so that a Sequential can hold them.
struct MaxPool2d {
  Pool2dOptions options{};
  Tensor operator()(const Tensor& x) const { return max_pool2d(x, options); }
};
struct AvgPool2d {
  Pool2dOptions options{};
  Tensor operator()(const Tensor& x) const { return avg_pool2d(x, options); }
};
struct MaxPool1d {
  Pool1dOptions options{};
  Tensor operator()(const Tensor& x) const { return max_pool1d(x, options); }
};
struct AvgPool1d {
  Pool1dOptions options{};
  Tensor operator()(const Tensor& x) const { return avg_pool1d(x, options); }
};

}  // namespace ebb::nn
