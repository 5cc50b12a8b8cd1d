#include "ebb/nn/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/softmax.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb::nn {
namespace {

constexpr std::size_t kFew = 256;
constexpr std::uint64_t kStream = 0x73616D706C65;  // no op of a step has this number

const SampleOptions& checked(const SampleOptions& o) {
  if (!(o.temperature >= 0) || std::isinf(o.temperature))
    throw Error(fmt::format("sample: the temperature is {}, expected 0 or more", o.temperature));
  if (o.top_k < 0)
    throw Error(fmt::format("sample: top_k is {}, expected 0 (all) or more", o.top_k));
  if (!(o.top_p > 0 && o.top_p <= 1))
    throw Error(fmt::format("sample: top_p is {}, expected more than 0 and at most 1", o.top_p));
  return o;
}

// In [0, 1), 53 bits of it.
double uniform(std::uint64_t seed, std::uint64_t step) {
  return static_cast<double>(draw64({seed, step}, kStream, 0) >> 11) * 0x1p-53;
}

double mass_of(std::span<const std::int32_t> ids, std::span<const float> weight) {
  double mass = 0;
  for (const std::int32_t id : ids)
    mass += static_cast<double>(weight[static_cast<std::size_t>(id)]);
  return mass;
}

}  // namespace

Sampler::Sampler(const SampleOptions& options, std::int64_t vocabulary)
    : options_(checked(options)), vocabulary_(vocabulary) {
  if (vocabulary < 1)
    throw Error(fmt::format("sample: a vocabulary of {}, expected at least 1", vocabulary));
  if (options.temperature > 0)
    ids_ = memory::Buffer(static_cast<std::size_t>(vocabulary) * sizeof(std::int32_t), "sample",
                          Category::workspace);
}

std::int32_t Sampler::operator()(const Tensor& logits, std::uint64_t step) {
  if (logits.size() != vocabulary_)
    throw Error(fmt::format("sample: logits are {}, expected {} of them", to_string(logits.spec()),
                            vocabulary_));
  const Tape::Pause pause;
  const Tensor numbers = logits.dtype() == DType::f32 ? logits : cast(logits, DType::f32);
  const std::span<const float> all = numbers.data<float>();
  std::size_t best = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(all[i]))
      throw Error(
          fmt::format("sample: the logit of token {} is not a number: the model's weights, or "
                      "what they make of this text, are broken",
                      i));
    if (all[i] > all[best]) best = i;
  }
  if (std::isinf(all[best]))
    throw Error(
        fmt::format("sample: the largest logit is {}, that of token {}; expected a finite one",
                    all[best], best));
  if (options_.temperature == 0) return static_cast<std::int32_t>(best);
  return draw(all, all[best], step);
}

std::int32_t Sampler::draw(std::span<const float> logits, float top, std::uint64_t step) {
  Tensor scaled = Tensor::uninitialized({{vocabulary_}, DType::f32}, "sample", Category::workspace);
  auto* x = reinterpret_cast<float*>(scaled.bytes());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double below = static_cast<double>(logits[i]) - static_cast<double>(top);
    x[i] = static_cast<float>(below / options_.temperature);
  }
  const Tensor weights = softmax(scaled);
  const std::span<const float> weight = weights.data<float>();
  const std::span<const std::int32_t> kept = pick(logits, weight);

  const double wanted = uniform(options_.seed, step) * mass_of(kept, weight);
  double sum = 0;
  std::int32_t chosen = 0;
  for (const std::int32_t id : kept) {
    const float w = weight[static_cast<std::size_t>(id)];
    if (w == 0) continue;  // never drawn, not even at the very end of the sum
    sum += static_cast<double>(w);
    chosen = id;
    if (wanted < sum) break;
  }
  return chosen;
}

// The ids that may be drawn: the likeliest first where some are left out, else as they are numbered.
std::span<const std::int32_t> Sampler::pick(std::span<const float> logits,
                                            std::span<const float> weight) {
  const std::span ids(reinterpret_cast<std::int32_t*>(ids_.data()), logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::size_t sorted = 0, count = ids.size();
  const auto sort_to = [&](std::size_t end) {
    const auto at = [&](std::size_t i) { return ids.begin() + static_cast<std::ptrdiff_t>(i); };
    std::partial_sort(at(sorted), at(end), ids.end(), likelier);
    sorted = end;
  };
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < count) {
    count = static_cast<std::size_t>(options_.top_k);
    sort_to(count);
  }
  if (options_.top_p == 1) return ids.first(count);

  // A few tokens mostly have most of it; where they do not, all are sorted.
  const double enough = options_.top_p * mass_of(ids.first(count), weight);
  double mass = 0;
  std::size_t kept = 0;
  while (kept < count && mass < enough) {
    if (kept == sorted) sort_to(sorted == 0 ? std::min(count, kFew) : count);
    mass += static_cast<double>(weight[static_cast<std::size_t>(ids[kept++])]);
  }
  return ids.first(kept);
}

}  // namespace ebb::nn
