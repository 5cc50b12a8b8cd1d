// What variables hold, of any type and wherever it lies.
#pragma once

#include <cstddef>
#include <vector>

#include "ebb/tensor/variable.hpp"

namespace ebb::test {

using Bytes = std::vector<std::vector<std::byte>>;

inline Bytes bytes(const std::vector<Variable>& all) {
  Bytes out;
  for (const Variable& v : all) v.read(out.emplace_back(v.spec().bytes()), 0);
  return out;
}

}  // namespace ebb::test
