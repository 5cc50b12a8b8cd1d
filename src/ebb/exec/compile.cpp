#include "ebb/exec/compile.hpp"

#include <fmt/core.h>

#include <optional>

#include "ebb/base/runtime.hpp"
#include "ebb/exec/function_plans.hpp"
#include "ebb/exec/locks.hpp"
#include "ebb/exec/shared_step.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace exec {
namespace {

trace::Function on_tensors(std::shared_ptr<const Names> names, OnBatch fn) {
  return [names = std::move(names), fn = std::move(fn)](std::span<const Tensor> inputs) {
    return fn(Batch(names, {inputs.begin(), inputs.end()}));
  };
}

// Ranks that share a step plan it for the whole batch.
BatchSpec planned(const BatchSpec& spec, const CompileOptions& options) {
  return part_of(options).whole() ? spec : spec.of_whole();
}

// Where one rank has been refused, all are, each with its own smallest budget; 0: it had enough itself.
void refuse_together(Ranks& ranks, const std::optional<BudgetTooSmall>& mine) {
  if (ranks.agree(!mine)) return;
  std::string line = mine ? mine->what() : "";
  for (const std::string& theirs : ranks.gather(line.substr(0, line.find('\n'))))
    if (line.empty()) line = theirs;
  try {  // so that one of them tells it
    ranks.together("a compile", mine ? std::make_exception_ptr(*mine) : nullptr);
  } catch (const Error&) {
  }
  throw BudgetTooSmall(line, mine ? mine->minimum : 0);
}

}  // namespace

std::vector<Tensor> to_tensors(const Loss& result) {
  result.check("compile");
  return {result.sum, result.count};
}
std::vector<Tensor> to_tensors(const std::vector<Loss>& result) {
  std::vector<Tensor> all;
  for (const Loss& loss : result)
    for (Tensor& t : to_tensors(loss)) all.push_back(std::move(t));
  return all;
}
std::vector<Tensor> to_tensors(const Tensor& result) { return {result}; }

std::vector<plan::FrontierPoint> frontier(const BatchSpec& spec, const CompileOptions& options,
                                          OnBatch fn) {
  return Compiled::frontier(planned(spec, options).values(), options,
                            on_tensors(spec.shared_names(), std::move(fn)), spec.dealing_bytes());
}

std::vector<plan::FrontierPoint> Compiled::frontier(std::vector<Spec> inputs,
                                                    CompileOptions options, trace::Function fn,
                                                    std::uint64_t dealing) {
  Functions& all = Functions::all();
  const PlanLock alone;
  const runtime::Undecided undecided;
  options.memory = {};
  FunctionPlans plans(nullptr, std::move(inputs), std::move(options), std::move(fn), dealing, 0);
  try {
    all.add(plans);
    plans.make_room();
    std::vector<plan::FrontierPoint> points = plans.frontier();
    all.remove(plans);
    return points;
  } catch (...) {
    all.remove(plans);
    throw;
  }
}

// Ranks that plan together go on together, with the same function; nobody holds a lock while it waits.
Compiled::Compiled(std::shared_ptr<const Names> names, std::vector<Spec> inputs,
                   CompileOptions options, trace::Function fn, std::uint64_t dealing,
                   std::int64_t last_examples)
    : ranks_(options.world && options.world->size() > 1 ? options.world : nullptr) {
  if (!ranks_) {
    make(std::move(names), std::move(inputs), std::move(options), std::move(fn), dealing,
         last_examples);
    return;
  }
  std::optional<BudgetTooSmall> refused;
  try {
    together(ranks_, "a compile", [&] {
      try {
        make(std::move(names), std::move(inputs), std::move(options), std::move(fn), dealing,
             last_examples);
      } catch (const BudgetTooSmall& e) {
        refused = e;
      }
    });
    refuse_together(*ranks_, refused);
    ranks_->check_same("compiled function", plans_->fingerprint());
  } catch (...) {
    if (plans_) Functions::all().remove(*plans_);
    throw;
  }
}

void Compiled::make(std::shared_ptr<const Names> names, std::vector<Spec> inputs,
                    CompileOptions options, trace::Function fn, std::uint64_t dealing,
                    std::int64_t last_examples) {
  Functions& all = Functions::all();
  const PlanLock alone;
  const runtime::Undecided undecided;
  plans_ = std::make_unique<FunctionPlans>(std::move(names), std::move(inputs), std::move(options),
                                           std::move(fn), dealing, last_examples);
  try {
    all.add(*plans_);
    plans_->make_room();
    plans_->make_first();
  } catch (...) {
    all.remove(*plans_);
    plans_.reset();  // and its budget, before it counts for others
    throw;
  }
  Executor& first = plans_->executor_seen_last();
  first.set_minimum(all.minimum(), all.by_ways(first.plan().frontier));
}

Compiled::Compiled(const BatchSpec& spec, const CompileOptions& options, OnBatch fn)
    : Compiled(spec.shared_names(), planned(spec, options).values(), options,
               on_tensors(spec.shared_names(), std::move(fn)), spec.dealing_bytes(),
               planned(spec, options).last_rows()) {}

Compiled::~Compiled() {
  if (plans_) Functions::all().remove(*plans_);
}
Compiled::Compiled(Compiled&&) noexcept = default;
Compiled& Compiled::operator=(Compiled&& other) noexcept {
  std::swap(plans_, other.plans_);
  std::swap(ranks_, other.ranks_);
  return *this;
}

// f(executor), with the plan for these inputs, made where there is none yet.
template <class F>
void Compiled::with_plan(std::span<const Tensor> inputs, const Batch* batch, F&& f) {
  const auto prepared = [&](auto&& prepare) {
    if (!ranks_) return prepare();
    try {
      return prepare();
    } catch (...) {  // the others are told at the step, which they are about to begin
      ranks_->together(kStepBegins, std::current_exception());
      throw;
    }
  };
  prepared([&] { check(inputs, batch); });
  const std::int64_t rows = batch ? batch->whole_rows() : 0;
  for (;;) {
    {
      const RunLock runs;
      Executor* const executor = prepared([&] { return plans_->find(inputs, rows); });
      if (executor) return f(*executor);
    }
    prepared([&] { plans_->make_for(inputs, rows); });
  }
}

void Compiled::check(std::span<const Tensor> inputs, const Batch* batch) const {
  for (const Tensor& t : inputs) t.check_known();
  const data::Part& part = plans_->part();
  if (part.whole()) return;
  if (!batch)
    throw Error(
        "compiled step: tensors say not which rows of the batch they are; where ranks share a "
        "step, give it a Batch of data.part(world)");
  const std::int64_t all = batch->whole_rows(), first = part.begin(all), rows = part.rows(all);
  if (batch->rows() != rows || (rows > 0 && batch->first_row() != first))
    throw Error(fmt::format(
        "compiled step: the batch has rows {} to {} of {}, and those of rank {} of {} are {} to "
        "{}; take it from data.part(world)",
        batch->first_row(), batch->first_row() + batch->rows(), all, part.index, part.count, first,
        first + rows));
}

const std::vector<Tensor>& Compiled::run(const Batch& batch) {
  const Names& names = plans_->names();
  if (batch.names() == names) return run(batch.values(), &batch);
  std::vector<Tensor> inputs;  // in another order, or among others
  for (const std::string& name : names) inputs.push_back(batch[name]);
  return run(inputs, &batch);
}

const std::vector<Tensor>& Compiled::run(std::span<const Tensor> inputs) {
  return run(inputs, nullptr);
}

const std::vector<Tensor>& Compiled::run(std::span<const Tensor> inputs, const Batch* batch) {
  with_plan(inputs, batch, [&](Executor& e) { e.run(inputs, plans_->results); });
  return plans_->results;
}

void Compiled::run_into(std::span<const Tensor> inputs, std::span<std::byte* const> results) {
  with_plan(inputs, nullptr, [&](Executor& e) { e.run(inputs, results); });
}

const plan::Plan& Compiled::plan() const { return plans_->plan_seen_last(); }
const Executor& Compiled::executor() const { return plans_->executor_seen_last(); }

}  // namespace exec

std::vector<Tensor> gradients(const Tensor& y, std::span<const Tensor> xs) {
  Tape* tape = Tape::innermost();
  if (!tape)
    throw Error(
        "gradients: nobody records; call it inside a compiled function, or make a Tape first");
  return tape->gradient(y, xs);
}

std::uint64_t smallest_budget() {
  const exec::PlanLock alone;
  return exec::Functions::all().minimum();
}

LeastBudget::LeastBudget(std::uint64_t bytes) {
  const exec::PlanLock alone;
  before_ = exec::Functions::all().set_least(bytes);
}
LeastBudget::~LeastBudget() {
  const exec::PlanLock alone;
  exec::Functions::all().set_least(before_);
}

HeldOtherwise::HeldOtherwise(const exec::OtherWays& ways) {
  const exec::PlanLock alone;
  before_ = exec::Functions::all().set_other_ways(ways);
}
HeldOtherwise::~HeldOtherwise() {
  const exec::PlanLock alone;
  exec::Functions::all().set_other_ways(before_);
}

}  // namespace ebb
