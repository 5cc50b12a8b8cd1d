// An average of the weights that follows them slowly, for evaluation.
//
//   optim::Ema ema(params(model), 0.999);
//   adam.minimize(loss(batch));
//   ema.update();                         // after each step; eagerly or inside a compiled one
//   {
//     const auto applied = ema.apply();   // the model's weights are the averages …
//     evaluate(model);
//   }                                     // … and are themselves again
//
// The first update takes the weights as they are; each later one goes (1 - decay) of the way.
// Averages of 16-bit weights are kept in f32; applied, the weights are these rounded.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

struct Entry;

class Ema {
 public:
  explicit Ema(std::vector<Variable> params, double decay = 0.999);
  ~Ema();
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  void update();  // all averages, or none where memory runs out
  std::int64_t updates() const;

  // Weights and averages change places; no bytes are copied. 16-bit weights stand aside for rounded
  // averages, and come back as they were. What cannot be done is refused before anything has moved.
  void swap();
  class Applied {
   public:
    explicit Applied(Ema& ema) : ema_(ema) { ema_.swap(); }
    ~Applied() { ema_.exchange(); }
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    Ema& ema_;
  };
  Applied apply() { return Applied(*this); }

  const std::vector<Variable>& averages() const { return averages_; }  // in the order of the params
  std::vector<Variable> state() const;  // what a later run needs to go on

 private:
  void update_traced();
  void exchange() noexcept;
  double decay_now() const;  // of the next update
  std::vector<Variable> params_, averages_;
  std::vector<Tensor> aside_;  // of 16-bit parameters, while the averages are applied
  Variable updates_;
  double decay_;
  bool applied_ = false;
  std::vector<Entry> entries_;  // reused from update to update
};

}  // namespace ebb::optim
