// compile(spec, options, fn): fn as a planned step.
//
//   auto step = compile(data.spec(), {.memory = 64_MiB}, [&](const Batch& b) {
//     return adam.minimize(sparse_cross_entropy(model(b["image"]), b["label"]));
//   });
//   std::cout << step.plan();      // fits, how, at what cost: before anything runs
//   for (const Batch& b : data.epochs(3)) step(b);
//
// The function is called with symbols when a shape is first seen, and never with data: it says what
// to compute. It may give back a Loss, a Tensor, or several of either. A step with an optimizer, an
// evaluation and gradients by inputs (`gradients`) are compiled alike. Layers act as training or
// evaluation said when it was compiled, so compile one step for each. Random draws go on with the
// optimizer's steps: without one, every call draws the same until random::next_step().
//
// Several processes share a step where `.world` names them: each has its rows of the batch, and all of them the
// same weights, with the bits that one process would have.
//
//   dist::World world;
//   auto step = compile(data.spec(), {.world = &world}, …);            // of the whole batch
//   for (const Batch& b : data.part(world).epochs(3)) step(b);
//
// Steps may run on several threads at once, each function on one of them. A compile, or a shape that is
// met for the first time, waits for the steps that run, and those that come wait for it: it may plan the
// others anew.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "ebb/data/batch.hpp"
#include "ebb/exec/other_ways.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb {

namespace exec {

class Executor;       // ebb/exec/executor.hpp
class FunctionPlans;  // ebb/exec/function_plans.hpp

using OnBatch = std::function<std::vector<Tensor>(const Batch&)>;

// A function with its plans, one for each shape of its inputs: the last few are kept, and share one
// arena.
class Compiled {
 public:
  // `dealing`: bytes that dealing out its inputs takes; 0: the program makes them itself. `last_examples`:
  // of the last batch of an epoch, where that is smaller; 0: none is known.
  Compiled(std::shared_ptr<const Names> names, std::vector<Spec> inputs, CompileOptions options,
           trace::Function fn, std::uint64_t dealing = 0, std::int64_t last_examples = 0);
  Compiled(const BatchSpec& spec, const CompileOptions& options, OnBatch fn);
  ~Compiled();
  Compiled(Compiled&&) noexcept;
  Compiled& operator=(Compiled&&) noexcept;

  const std::vector<Tensor>& run(std::span<const Tensor> inputs);
  const std::vector<Tensor>& run(const Batch& batch);  // by name
  // Results go to these places, as large as they are.
  void run_into(std::span<const Tensor> inputs, std::span<std::byte* const> results);
  // Of the shape seen last; before that, of the one it was made for. It stays as it is until the next
  // call, also where another function's coming has this one planned anew.
  const plan::Plan& plan() const;
  const Executor& executor() const;  // until something is planned
  static std::vector<plan::FrontierPoint> frontier(std::vector<Spec> inputs, CompileOptions options,
                                                   trace::Function fn, std::uint64_t dealing = 0);

 private:
  void make(std::shared_ptr<const Names> names, std::vector<Spec> inputs, CompileOptions options,
            trace::Function fn, std::uint64_t dealing, std::int64_t last_examples);
  // `batch`: that the inputs are of, and which tells which rows they are; null: nobody knows.
  void check(std::span<const Tensor> inputs, const Batch* batch) const;
  const std::vector<Tensor>& run(std::span<const Tensor> inputs, const Batch* batch);
  template <class F>
  void with_plan(std::span<const Tensor> inputs, const Batch* batch, F&& f);
  Ranks* ranks_ = nullptr;  // that steps are divided among
  std::unique_ptr<FunctionPlans> plans_;
};

std::vector<plan::FrontierPoint> frontier(const BatchSpec& spec, const CompileOptions& options,
                                          OnBatch fn);

std::vector<Tensor> to_tensors(const Loss& result);
std::vector<Tensor> to_tensors(const std::vector<Loss>& result);
std::vector<Tensor> to_tensors(const Tensor& result);
inline std::vector<Tensor> to_tensors(std::vector<Tensor> result) { return result; }

template <class Fn>
OnBatch on_batch(Fn fn) {
  static_assert(
      requires(const Batch& b) { to_tensors(fn(b)); },
      "compile: the function takes a const Batch& and gives back a Loss, a Tensor, or a "
      "std::vector of either");
  return [fn = std::move(fn)](const Batch& b) mutable { return to_tensors(fn(b)); };
}

template <class R>
R from_tensors(const std::vector<Tensor>& results) {
  if constexpr (std::is_same_v<R, Loss>) {
    return {results[0], results[1]};
  } else if constexpr (std::is_same_v<R, std::vector<Loss>>) {
    R losses;
    for (std::size_t i = 0; i + 1 < results.size(); i += 2)
      losses.push_back({results[i], results[i + 1]});
    return losses;
  } else if constexpr (std::is_same_v<R, std::vector<Tensor>>) {
    return results;
  } else {
    return results[0];
  }
}

}  // namespace exec

template <class R>
class Step {
 public:
  explicit Step(exec::Compiled compiled) : compiled_(std::move(compiled)) {}
  R operator()(const Batch& batch) { return exec::from_tensors<R>(compiled_.run(batch)); }
  R operator()(std::span<const Tensor> inputs) {
    return exec::from_tensors<R>(compiled_.run(inputs));
  }
  const plan::Plan& plan() const { return compiled_.plan(); }
  const exec::Executor& executor() const { return compiled_.executor(); }

 private:
  exec::Compiled compiled_;
};

template <class Fn>
auto compile(const BatchSpec& spec, const CompileOptions& options, Fn fn) {
  using R = std::decay_t<std::invoke_result_t<Fn&, const Batch&>>;
  using Result = std::conditional_t<std::is_same_v<R, Variable>, Tensor, R>;
  return Step<Result>(exec::Compiled(spec, options, exec::on_batch(std::move(fn))));
}

// What compile would do with each budget: the curve of time over memory, rising budget, falling
// time, from the smallest budget that is not refused to the one from which on more memory gains
// nothing. Nothing runs and nothing is taken for it; `options.memory` is not looked at.
//
//   for (const plan::FrontierPoint& w : frontier(data.spec(), {}, fn))
//     std::cout << w.budget << " bytes, " << w.seconds << " s a step: " << w.text() << '\n';
template <class Fn>
std::vector<plan::FrontierPoint> frontier(const BatchSpec& spec, const CompileOptions& options,
                                          Fn fn) {
  return exec::frontier(spec, options, exec::on_batch(std::move(fn)));
}

// The smallest budget for all compiled functions that are alive, with what the program holds now: each
// of them runs in it. The plan of the one that was compiled last says the same, and less is refused.
std::uint64_t smallest_budget();

// What the program took before it compiled anything, such as to read its data, and will take again when it is
// started next: while this lives, no smaller budget is named, nor accepted.
class LeastBudget {
 public:
  explicit LeastBudget(std::uint64_t bytes);
  ~LeastBudget();
  LeastBudget(const LeastBudget&) = delete;
  LeastBudget& operator=(const LeastBudget&) = delete;

 private:
  std::uint64_t before_;
};

// How else the program could hold its data, and will where that is what fits: while this lives, the smallest budget is
// that of the way that takes least.
class HeldOtherwise {
 public:
  explicit HeldOtherwise(const exec::OtherWays& ways);
  ~HeldOtherwise();
  HeldOtherwise(const HeldOtherwise&) = delete;
  HeldOtherwise& operator=(const HeldOtherwise&) = delete;

 private:
  exec::OtherWays before_;
};

// Gradients of a loss's sum (or of a tensor) by inputs or variables, inside a compiled function or
// under a tape.
std::vector<Tensor> gradients(const Tensor& y, std::span<const Tensor> xs);
inline std::vector<Tensor> gradients(const Tensor& y, std::initializer_list<Tensor> xs) {
  return gradients(y, std::span<const Tensor>(xs.begin(), xs.size()));
}
inline std::vector<Tensor> gradients(const Loss& loss, std::initializer_list<Tensor> xs) {
  return gradients(loss.sum, xs);
}

}  // namespace ebb
