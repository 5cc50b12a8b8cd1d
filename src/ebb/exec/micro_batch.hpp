// One run of a program as the caller sees it: which examples of the inputs it reads, and where its results
// go. Without a split that is all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/plan/plan.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb::exec {

// One for each result of the step, as large as it is.
using ResultPlaces = std::span<std::byte* const>;

struct MicroBatch {
  const plan::Plan& plan;
  const plan::Program& program;
  const plan::Plan::Run& run;
  std::span<const Tensor> inputs;
  std::span<const std::uint64_t> example_bytes;  // of each input
  ResultPlaces results;

  // Of the program's input `i`, its first byte.
  const std::byte* input(std::size_t i) const {
    const std::uint64_t first = plan.split() ? static_cast<std::uint64_t>(run.first) : 0;
    return inputs[i].raw() + first * example_bytes[i];
  }

  // Where the program's result `i` goes: among those of other micro-batches, if it has examples.
  std::byte* result(std::size_t i) const {
    const auto place =
        static_cast<std::size_t>(program.result_index.empty() ? i : program.result_index[i]);
    if (!plan.split() || !plan.result_per_example[place]) return results[place];
    const std::uint64_t bytes = program.trace.values[program.trace.results[i]].spec.bytes();
    return results[place] +
           bytes / static_cast<std::uint64_t>(run.examples) * static_cast<std::uint64_t>(run.first);
  }
};

}  // namespace ebb::exec
