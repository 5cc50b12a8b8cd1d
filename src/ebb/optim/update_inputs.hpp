// Where an update op (ebb/optim/update_ops.hpp, sparse_update.hpp) finds what it reads and puts what it
// makes: for those who make such calls, run them and rewrite them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb::ops {

// rule, scale, gradient, parameter[, master copy], state …
struct UpdateInputs {
  static constexpr std::size_t rule = 0, scale = 1, gradient = 2, param = 3;
  static constexpr std::uint32_t replaced_by(int output) {  // bit i: input i
    return 1u << (param + static_cast<std::size_t>(output));
  }
};

// rule, scale, indices, rows of gradient, parameter, state …: as above, with the gradient in two.
struct SparseUpdateInputs {
  static constexpr std::size_t rule = 0, scale = 1, indices = 2, rows = 3, param = 4;
  static constexpr std::uint32_t replaced_by(int output) {
    return 1u << (param + static_cast<std::size_t>(output));
  }
};

// parameter[, master copy], state …, each in the place of the input that it replaces: output k stands
// in that of input param + k.
struct UpdateOutputs {
  static constexpr std::size_t param = 0, master = 1;
  static constexpr std::size_t state(bool has_master, std::size_t slot) {
    return 1 + (has_master ? 1 : 0) + slot;
  }
};

// rule, values, their average → the average, in its place.
struct EmaInputs {
  static constexpr std::size_t rule = 0, value = 1, average = 2;
};

}  // namespace ebb::ops
