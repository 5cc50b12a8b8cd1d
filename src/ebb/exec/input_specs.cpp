#include "ebb/exec/input_specs.hpp"

#include <algorithm>

#include "ebb/tensor/tensor.hpp"

namespace ebb::exec {

std::int64_t examples_of(std::span<const Spec> inputs) {
  if (inputs.empty() || inputs[0].rank() == 0) return 1;
  for (const Spec& s : inputs)
    if (s.rank() == 0 || s.shape[0] != inputs[0].shape[0]) return 1;
  return std::max<std::int64_t>(1, inputs[0].shape[0]);
}

std::vector<Spec> with_examples(std::vector<Spec> specs, std::int64_t examples) {
  for (Spec& s : specs) s = s.with_axis(0, examples);
  return specs;
}

std::uint64_t charge_of(std::span<const Spec> specs) {
  std::uint64_t bytes = 0;
  for (const Spec& s : specs) bytes += Tensor::charge(s);
  return bytes;
}

bool no_larger(const std::vector<Spec>& a, const std::vector<Spec>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (int axis = 0; axis < a[i].rank(); ++axis)
      if (a[i].shape[axis] > b[i].shape[axis]) return false;
  return true;
}

}  // namespace ebb::exec
