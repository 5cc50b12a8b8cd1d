// Gathers the gradient of a batch from parts of it, ragged or not.
//
//   Accumulator gathered(params(model));
//   for (const Tensor& part : parts) {
//     Tape tape;
//     gathered.add(tape, loss(part));
//   }
//   adam.step(gathered);
//
// Sums and counts add up, and the division happens once: the gradient is that of the whole batch,
// bit for bit where each weight is used once per example. (With dropout, a random::Part says where
// in the batch a part begins, so that it draws what the whole would have drawn.) What was gathered
// is never lost silently: it goes into a step, or is dropped by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ebb/ops/loss.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

// Throws, naming `who`, where a variable stands in the list twice.
void check_distinct(const char* who, std::span<const Variable> params);

class Optimizer;
class OptimizerCore;

class Accumulator {
 public:
  // `window`: how many parts make a step; 0 leaves that to the caller.
  explicit Accumulator(std::vector<Variable> params, int window = 0);
  // For the steps of this optimizer, which outlives it: of its parameters, and of losses multiplied
  // by its loss scale.
  explicit Accumulator(const Optimizer& optimizer, int window = 0);
  ~Accumulator();  // says so on stderr when parts are still in it
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;

  void add(Tape& tape, const Loss& loss);
  void add(std::span<const Tensor> gradients, double count);  // gradients of a sum over `count`

  bool full() const { return window_ > 0 && parts_ >= window_; }
  bool empty() const { return parts_ == 0; }
  int parts() const { return parts_; }
  double count() const { return count_; }

  // In a compiled function, where counts are not known when it is traced; f64 ().
  const Tensor& traced_count() const { return traced_count_; }

  std::span<const Tensor> sums() const;  // times scale(); empty handles where nothing flowed
  double scale() const { return scale_; }
  bool is_for(const Optimizer& optimizer) const;
  std::vector<Tensor> mean() const;  // the gradient of the whole: sums / count / scale

  void reset();    // refuses while parts are in it that no step has used
  void discard();  // drops them, and gives their random draws back: another try draws the same
  void clear();    // after a step has used them

 private:
  void check_room() const;
  void begin(const random::State& draws);
  std::optional<std::weak_ptr<OptimizerCore>> optimizer_;  // whose steps it is for
  std::vector<Variable> params_;
  std::vector<Tensor> sources_, sums_;
  void add_count(const Tensor& count);
  double count_ = 0, scale_ = 1;
  Tensor traced_count_;
  int parts_ = 0, window_;
  bool torn_ = false;
  random::State draws_;  // when the first part began
};

}  // namespace ebb::optim

namespace ebb {
using optim::Accumulator;
}
