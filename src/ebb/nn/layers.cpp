#include "ebb/nn/layers.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/batch_norm.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/norm.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::nn {
namespace {

thread_local bool is_training = true;

void check_size(const char* layer, const char* what, std::int64_t size) {
  if (size < 1) throw Error(fmt::format("{}: {} is {}, expected at least 1", layer, what, size));
}

void check_convolution(const char* layer, std::int64_t in, std::int64_t out, std::int64_t kernel,
                       std::int64_t groups) {
  check_size(layer, "in", in);
  check_size(layer, "out", out);
  check_size(layer, "kernel", kernel);
  check_size(layer, "groups", groups);
  if (in % groups != 0 || out % groups != 0)
    throw Error(fmt::format("{}: {} channels in and {} out do not divide into {} groups", layer, in,
                            out, groups));
}

const Tensor& or_none(const Variable& v) {
  static const Tensor none;
  return v ? v.value() : none;
}

}  // namespace

bool training() { return is_training; }
Evaluation::Evaluation(bool evaluate) : before_(is_training) { is_training = !evaluate; }
Evaluation::~Evaluation() { is_training = before_; }

const Variable& Cloned::of(const Variable& v) {
  for (const auto& [old, copy] : known_)
    if (old == v) return copy;
  return known_.emplace_back(v, v.clone()).second;
}

void Collected::add(const Variable& v, bool only_trainable) {
  if (!v || (only_trainable && !v.trainable())) return;
  for (const Variable& known : all_) {
    if (known == v) return;
    if (known.name() == v.name())
      throw Error(
          fmt::format("params: two parameters are named {}; give their layers different paths "
                      "(init / \"name\")",
                      v.name()));
  }
  all_.push_back(v);
}

Dense::Dense(const Init& init, std::int64_t in, std::int64_t out, DenseOptions options)
    : activation(options.activation), scope(init.scope()) {
  check_size("Dense", "in", in);
  check_size("Dense", "out", out);
  weight = init.make("weight", {out, in}, options.first.value_or(fan_in_uniform(in)));
  if (options.bias)
    bias = init.make("bias", {out}, options.first ? constant(0) : fan_in_uniform(in));
}

Tensor Dense::operator()(const Tensor& x) const {
  const Scope in(scope);
  return linear(x, weight, or_none(bias), activation);
}

Embedding::Embedding(const Init& init, std::int64_t count, std::int64_t width,
                     const Initialiser& first)
    : scope(init.scope()) {
  check_size("Embedding", "count", count);
  check_size("Embedding", "width", width);
  weight = init.make("weight", {count, width}, first);
}

Tensor Embedding::operator()(const Tensor& ids) const {
  const Scope in(scope);
  return embedding(weight, ids);
}

LayerNorm::LayerNorm(const Init& init, std::int64_t width, double eps)
    : eps(eps), scope(init.scope()) {
  check_size("LayerNorm", "width", width);
  weight = init.make("weight", {width}, constant(1));
  bias = init.make("bias", {width}, constant(0));
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const Scope in(scope);
  return layer_norm(x, weight, bias, eps);
}

RMSNorm::RMSNorm(const Init& init, std::int64_t width, double eps) : eps(eps), scope(init.scope()) {
  check_size("RMSNorm", "width", width);
  weight = init.make("weight", {width}, constant(1));
}

Tensor RMSNorm::operator()(const Tensor& x) const {
  const Scope in(scope);
  return rms_norm(x, weight, eps);
}

BatchNorm::BatchNorm(const Init& init, std::int64_t channels, BatchNormOptions o)
    : options(o), scope(init.scope()) {
  check_size("BatchNorm", "channels", channels);
  weight = init.make("weight", {channels}, constant(1));
  bias = init.make("bias", {channels}, constant(0));
  running_mean = init.make("running_mean", {channels}, constant(0), false);
  running_var = init.make("running_var", {channels}, constant(1), false);
}

Tensor BatchNorm::operator()(const Tensor& x) const {
  const Scope in(scope);
  if (!is_training) return batch_norm(x, weight, bias, running_mean, running_var, options.eps);
  const auto [y, mean, var] = batch_norm_train(x, weight, bias, options.eps);
  if (x.size() == 0) return y;  // nothing to learn the statistics from
  const Tape::Pause pause;
  const double rows = static_cast<double>(x.size()) / static_cast<double>(x.dim(-1));
  const double unbiased = rows > 1 ? rows / (rows - 1) : 1;
  const double m = options.momentum;
  Tape* tape = Tape::innermost();
  const auto move = [&](Variable running, const Tensor& batch, double factor) {
    const Tensor& now = tape ? tape->latest(running) : running.value();
    Tensor next = now * (1 - m) + cast(batch, running.spec().dtype) * (m * factor);
    tape ? tape->assign_at_end(running, std::move(next)) : running.assign(next);
  };
  move(running_mean, mean, 1);
  move(running_var, var, unbiased);
  return y;
}

Dropout::Dropout(double rate) : rate(rate) {
  if (!(rate >= 0 && rate < 1))
    throw Error(fmt::format("Dropout: the rate is {}, expected at least 0 and below 1", rate));
}

Tensor Dropout::operator()(const Tensor& x) const {
  return is_training && rate > 0 ? dropout(x, rate) : x;
}

Conv2d::Conv2d(const Init& init, std::int64_t in, std::int64_t out, std::int64_t kernel,
               Conv2dOptions o, bool with_bias)
    : options(o), scope(init.scope()) {
  check_convolution("Conv2d", in, out, kernel, o.groups);
  const std::int64_t fan = kernel * kernel * (in / o.groups);
  weight = init.make("weight", {out, kernel, kernel, in / o.groups}, fan_in_uniform(fan));
  if (with_bias) bias = init.make("bias", {out}, fan_in_uniform(fan));
}

Tensor Conv2d::operator()(const Tensor& x) const {
  const Scope in(scope);
  return conv2d(x, weight, or_none(bias), options);
}

Conv1d::Conv1d(const Init& init, std::int64_t in, std::int64_t out, std::int64_t kernel,
               Conv1dOptions o, bool with_bias)
    : options(o), scope(init.scope()) {
  check_convolution("Conv1d", in, out, kernel, o.groups);
  const std::int64_t fan = kernel * (in / o.groups);
  weight = init.make("weight", {out, kernel, in / o.groups}, fan_in_uniform(fan));
  if (with_bias) bias = init.make("bias", {out}, fan_in_uniform(fan));
}

Tensor Conv1d::operator()(const Tensor& x) const {
  const Scope in(scope);
  return conv1d(x, weight, or_none(bias), options);
}

}  // namespace ebb::nn
