// What takes the place of computing while a function is traced: calls on symbols (tensors without
// bytes) are noted instead of run. The same user code runs eagerly and traced.
#pragma once

#include <functional>
#include <span>

#include "ebb/ops/op.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::ops {

class Tracer {
 public:
  // A call. `out` are the symbols of its results; with `view` the result shares the first input's
  // bytes. `donated`: see call().
  virtual void note(const OpType& type, const void* op, std::span<const Tensor* const> in,
                    std::span<const Tensor> out, int donated, bool view) = 0;

  // A call of tensors that are there: whether it is noted like one of symbols, or runs now and only
  // once. Its result is held from step to step in the second case.
  virtual bool defers(Specs in, Specs out) const = 0;

  // A value that is known when a step begins: `fill` writes it.
  virtual Tensor before_step(const char* name, const Spec& spec,
                             std::function<void(std::span<std::byte>)> fill) = 0;
  virtual void after_step(std::function<void()> done) = 0;  // called when a step has succeeded
  virtual std::span<const Variable> variables() const = 0;  // that were read so far
  virtual Tensor key() = 0;                                 // that of random draws

  // An optimizer takes a step: what is drawn from here on is drawn in the next one. How many steps
  // `who` has taken in this function before.
  virtual int stepped(const void* who) = 0;

  // A batch may be taken in parts. `sum_so_far` gives what a sum amounts to after the parts before
  // this one (an empty handle in the first); `carry` tells what it amounts to after this one, in
  // the same order, and that what is called from now on happens once, after the last part.
  virtual Tensor sum_so_far(const Spec& spec) = 0;
  virtual void carry(std::span<Tensor> sums) = 0;

  // What a scalar that is made of sums over examples, such as a loss, amounts to after the last
  // part: each of those sums goes on from part to part, and what is made of them is made once.
  virtual Tensor total(const Tensor& scalar) = 0;

 protected:
  ~Tracer() = default;
};

inline Tracer*& tracer() {
  thread_local Tracer* tracer = nullptr;  // null: ops are computed
  return tracer;
}

}  // namespace ebb::ops
