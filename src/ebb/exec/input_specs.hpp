// What a compiled function is called with: the shapes of its inputs, and how many examples these are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/tensor/spec.hpp"

namespace ebb::exec {

// Of a batch, whose inputs all have one first axis; 1 where they have not, or it is 0.
std::int64_t examples_of(std::span<const Spec> inputs);

// The same, with another first axis.
std::vector<Spec> with_examples(std::vector<Spec> specs, std::int64_t examples);

// Bytes that tensors of these add to the process.
std::uint64_t charge_of(std::span<const Spec> specs);

// Whether the first is as large as the second in every axis, or smaller.
bool no_larger(const std::vector<Spec>& a, const std::vector<Spec>& b);

}  // namespace ebb::exec
