// One token out of a model's logits: the likeliest, or one drawn.
//
// A draw is a pure function of (seed, step, logits): the same on every machine and with any number of
// threads. Logits that are equal stand in the order of their ids.
#pragma once

#include <cstdint>
#include <span>

#include "ebb/base/memory/memory.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb::nn {

struct SampleOptions {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest
  std::int64_t top_k = 0;  // only the likeliest so many; 0: all
  double top_p = 1;        // of these, only the likeliest that have this probability together
  std::uint64_t seed = 0;
};

class Sampler {
 public:
  Sampler(const SampleOptions& options, std::int64_t vocabulary);     // takes its memory here
  std::int32_t operator()(const Tensor& logits, std::uint64_t step);  // (…): of one position

 private:
  std::int32_t draw(std::span<const float> logits, float top, std::uint64_t step);
  std::span<const std::int32_t> pick(std::span<const float> logits, std::span<const float> weight);

  SampleOptions options_;
  std::int64_t vocabulary_;
  memory::Buffer ids_;  // i32(vocabulary), to sort
};

}  // namespace ebb::nn
