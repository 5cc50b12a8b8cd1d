// An update rule as an optimizer uses it: what it keeps for a parameter, and its step. There is one for
// each rule of kernels/update*.hpp (rules.cpp), filled in with its options.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/optim/run_rule.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb::optim {

class Rule {
 public:
  // What it is filled in with for a step: numbers of one group of parameters.
  struct Numbers {
    double lr, weight_decay;
    std::int64_t step;  // 1 is the first
  };

  virtual ~Rule() = default;

  // Which types of parameters it takes; the names of its slots for one, such as m and v; and what slot
  // `index` of so many holds.
  virtual bool takes(DType param) const = 0;
  virtual std::vector<const char*> slots(const Spec& param) const = 0;
  virtual Spec slot_spec(const Spec& param, int index, int slots) const = 0;
  // Rows of sparse gradient that it takes for a parameter with so many slots; 0: it takes none.
  virtual std::int64_t most_sparse_rows(const Spec& param, std::size_t slots) const = 0;

  // An eager step, for all parameters at once. What it needs besides is taken before: it cannot fail.
  virtual std::size_t scratch_bytes(std::span<const Entry> entries) const = 0;
  virtual void run(std::span<const Entry> entries, kernels::GradientUse use, const Numbers& numbers,
                   std::span<std::byte> scratch) const = 0;

  // The same as ops: the bytes of the rule for a step, and the update of one parameter. `in` are
  // ops::UpdateInputs; gives ops::UpdateOutputs.
  virtual std::size_t bytes() const = 0;
  virtual void write(std::span<std::byte> to, const Numbers& numbers) const = 0;
  virtual std::vector<Tensor> trace(std::span<const Tensor* const> in, double clip_value,
                                    bool master) const = 0;
};

}  // namespace ebb::optim
