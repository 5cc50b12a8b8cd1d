#include "ebb/optim/update_ops.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"

namespace ebb::ops {
namespace {

const Spec kNumber{Shape{}, DType::f64};

template <class F>
auto with_real(DType dtype, F&& f) {
  return dtype == DType::f64 ? f(double{}) : f(float{});
}

template <class T>
kernels::Update<T> gradient_only(const T* gradient, std::int64_t size) {
  return {nullptr, gradient, {nullptr, nullptr}, static_cast<std::size_t>(size)};
}

}  // namespace

Spec SumOfSquares::shape(const Spec& g) const {
  if (g.dtype != DType::f32 && g.dtype != DType::f64)
    throw Error(fmt::format("{}: the gradient is {}; expected f32 or f64", name, to_string(g)));
  return kNumber;
}

Cost SumOfSquares::cost(const Spec& g) const {
  return {2.0 * static_cast<double>(g.size()), static_cast<double>(g.bytes())};
}

std::size_t SumOfSquares::scratch(const Spec& g) const {
  return with_real(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto t = gradient_only<T>(nullptr, g.size());
    return kernels::sum_of_squares_scratch(std::span<const kernels::Update<T>>(&t, 1));
  });
}

void SumOfSquares::run(In g, Out sum, Scratch scratch) const {
  *sum.as<double>() = with_real(g.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto t = gradient_only<T>(g.as<T>(), g.size());
    return kernels::sum_of_squares(std::span<const kernels::Update<T>>(&t, 1), scratch);
  });
}

std::array<Spec, 2> StepScale::shape(Specs in) const {
  if (in.empty() || in[0] != Spec{{}, DType::i64})
    throw Error(fmt::format("{}: the first input is {}, expected the count, i64()", name,
                            in.empty() ? "missing" : to_string(in[0])));
  for (const Spec& s : in.subspan(1))
    if (s != kNumber)
      throw Error(fmt::format("{}: a sum of squares is {}, expected f64()", name, to_string(s)));
  return {kNumber, kNumber};
}

Cost StepScale::cost(Specs in) const {
  return {static_cast<double>(in.size()), 8.0 * static_cast<double>(in.size())};
}

void StepScale::run(Ins in, Out scale, Out norm, Scratch) const {
  const auto count = static_cast<double>(*in[0].as<std::int64_t>());
  if (!(count > 0))
    throw Error(fmt::format(
        "optimizer: the loss counts {} examples; there is nothing to learn from", count));
  double sum = 0;
  for (const In& s : in.subspan(1)) sum += *s.as<double>();
  const double length = std::sqrt(sum) / count;
  *norm.as<double>() = length;
  *scale.as<double>() = length > clip_norm ? 1 / count * (clip_norm / length) : 1 / count;
}

template <>
const char* const Update<kernels::SgdRule, 0>::name = "sgd";
template <>
const char* const Update<kernels::SgdRule, 1>::name = "sgd_momentum";
template <>
const char* const Update<kernels::AdamRule, 2>::name = "adam";
template <>
const char* const Update<kernels::RmspropRule, 1>::name = "rmsprop";
template <>
const char* const Update<kernels::RmspropRule, 2>::name = "rmsprop_momentum";
template <>
const char* const Update<kernels::AdagradRule, 1>::name = "adagrad";

template <class Rule, int kSlots>
std::array<Spec, 1 + kSlots> Update<Rule, kSlots>::shape(Specs in) const {
  if (in.size() != 4 + kSlots)
    throw Error(fmt::format("{}: {} inputs were given, expected {}", name, in.size(), 4 + kSlots));
  const Spec rule{{sizeof(Rule)}, DType::u8};
  if (in[0] != rule || in[1] != kNumber)
    throw Error(fmt::format("{}: rule and scale are {} and {}, expected {} and {}", name,
                            to_string(in[0]), to_string(in[1]), to_string(rule),
                            to_string(kNumber)));
  const Spec& param = in[3];
  if (param.dtype != DType::f32 && param.dtype != DType::f64)
    throw Error(
        fmt::format("{}: the parameter is {}; expected f32 or f64", name, to_string(param)));
  for (std::size_t i = 2; i < in.size(); ++i)
    if (in[i] != param)
      throw Error(fmt::format("{}: gradient or state is {}, the parameter {}", name,
                              to_string(in[i]), to_string(param)));
  std::array<Spec, 1 + kSlots> out;
  out.fill(param);
  return out;
}

template <class Rule, int kSlots>
Cost Update<Rule, kSlots>::cost(Specs in) const {
  const auto bytes = static_cast<double>(in[3].bytes());
  return {12.0 * static_cast<double>(in[3].size()), bytes * (3 + 2 * kSlots)};
}

template <class Rule, int kSlots>
void Update<Rule, kSlots>::update(Ins in, Outs out) const {
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].data != in[3 + i].data)
      std::memcpy(out[i].data, in[3 + i].data, out[i].spec->bytes());
  Rule rule;
  std::memcpy(&rule, in[0].data, sizeof rule);
  const kernels::GradientUse use{*in[1].as<double>(), clip_value};
  with_real(in[3].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const kernels::Update<T> t{out[0].as<T>(),
                               in[2].as<T>(),
                               {kSlots > 0 ? out[1].as<T>() : nullptr,
                                kSlots > 1 ? out[kSlots > 1 ? 2 : 0].as<T>() : nullptr},
                               static_cast<std::size_t>(in[3].size())};
    kernels::update(std::span<const kernels::Update<T>>(&t, 1), rule, use);
  });
}

template struct Update<kernels::SgdRule, 0>;
template struct Update<kernels::SgdRule, 1>;
template struct Update<kernels::AdamRule, 2>;
template struct Update<kernels::RmspropRule, 1>;
template struct Update<kernels::RmspropRule, 2>;
template struct Update<kernels::AdagradRule, 1>;

}  // namespace ebb::ops
