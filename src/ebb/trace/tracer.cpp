// From a function to its Trace.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/trace/trace.hpp"

namespace ebb::trace {
namespace {

class TraceBuilder final : public ops::Tracer, public VariableView {
 public:
  TraceBuilder(MicroBatch which, const Trace* probe) : which_(which), probe_(probe) {}

  Tensor input(const Spec& spec) {
    trace.inputs.push_back(spec);
    return fresh(spec, Kind::input, static_cast<Id>(trace.inputs.size()) - 1, Category::data);
  }

  // Calls.
  void note(const ops::OpType& type, const void* op, std::span<const Tensor* const> in,
            std::span<const Tensor> out, int donated, bool view) override {
    Call call{ops::AnyOp(type, op),
              {},
              {},
              Scope::current(),
              static_cast<std::int8_t>(donated),
              view,
              finish_};
    for (const Tensor* x : in) call.in.push_back(id_of(*x));
    const auto place = static_cast<Id>(trace.calls.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Id id = add({out[i].spec(), Kind::made, static_cast<Id>(i), place, kNone, 0,
                         CategoryScope::current()},
                        out[i]);
      for (const Id from : call.in) of_batch_[id] = of_batch_[id] || of_batch_[from];
      if (view) share(id, *in[0], out[i]);
      call.out.push_back(id);
    }
    trace.calls.push_back(std::move(call));
  }

  // What makes more bytes of constants than they have is the planner's to place: see `folded`. By
  // bytes alone, so that a micro-batch is noted as the whole batch is.
  bool defers(ops::Specs in, ops::Specs out) const override {
    std::uint64_t given = 0, made = 0;
    for (const Spec& s : in) given += s.bytes();
    for (const Spec& s : out) made += s.bytes();
    return made > given;
  }

  // Values known when a step begins.
  Tensor before_step(const char* name, const Spec& spec,
                     std::function<void(std::span<std::byte>)> fill) override {
    // Micro-batches find theirs by its name, of which two optimizers may have the same.
    std::string known = name;
    const auto taken = [&](const Before& b) { return b.name == known; };
    for (int n = 2; std::any_of(trace.before.begin(), trace.before.end(), taken); ++n)
      known = fmt::format("{} ({})", name, n);
    trace.before.push_back({known, spec, std::move(fill)});
    return fresh(spec, Kind::before, static_cast<Id>(trace.before.size()) - 1, Category::workspace);
  }
  void after_step(std::function<void()> done) override { trace.after.push_back(std::move(done)); }
  std::span<const Variable> variables() const override { return trace.variables; }
  Tensor key() override {
    const Spec spec{{random::kKeySize}, DType::i64};
    if (!key_ && steps_ == 0) key_ = fresh(spec, Kind::key, 0, Category::workspace);
    if (!key_)  // what is drawn after an optimizer's step is drawn in the next one
      key_ = before_step("key", spec, [steps = steps_](std::span<std::byte> to) {
        random::State now = random::state();
        now.step += static_cast<std::uint64_t>(steps);
        random::write_key(now, reinterpret_cast<std::int64_t*>(to.data()));
      });
    return key_;
  }
  int stepped(const void* who) override {
    ++steps_;
    key_ = {};
    random::next_step();
    return taken_[who]++;
  }

  // Micro-batches. Each sum has its place in `carry`, in the order in which they are asked for.
  Tensor sum_so_far(const Spec& spec) override {
    const std::size_t index = trace.carry.size();
    trace.carry.push_back(kNone);
    open_.push_back(index);
    if (which_ == MicroBatch::whole || which_ == MicroBatch::probe) return {};
    if (index >= probe_->carry.size() || probe_->carry[index] == kNone) return {};
    return fresh(spec, Kind::sum_so_far, static_cast<Id>(index), Category::gradients);
  }
  void carry(std::span<Tensor> sums) override {
    for (std::size_t i = 0; i < sums.size() && i < open_.size(); ++i)
      if (sums[i]) trace.carry[open_[i]] = id_of(sums[i]);
    open_.clear();
    finish_ = true;
  }
  Tensor total(const Tensor& scalar) override {
    if (which_ == MicroBatch::whole || !scalar.symbol()) return scalar;
    return held_[static_cast<std::size_t>(total_of(id_of(scalar)))];
  }

  // A scalar that a call makes of more than scalars is a sum over the examples, or nothing that can
  // be added up, which plan/split/can_split finds out: it goes on from micro-batch to micro-batch.
  // A scalar that is made of scalars is made again of their totals, once. What does not depend on
  // the batch is what it is.
  Id total_of(Id id) {
    const Value v = trace.values[id];
    if (which_ == MicroBatch::whole || v.spec.rank() > 0 || v.kind != Kind::made || !of_batch_[id])
      return id;
    if (const auto known = totals_.find(id); known != totals_.end()) return known->second;
    const bool known = std::find(trace.carry.begin(), trace.carry.end(), id) != trace.carry.end();
    const Id total = known ? id : made_of_scalars(v) ? remade(v, id) : going_on(v.spec, id);
    totals_[id] = totals_[total] = total;
    return total;
  }

  // Variables.
  const Tensor& value(const Variable& variable) override {
    auto [at, is_new] = variables_.try_emplace(variable, Held{});
    if (is_new) {
      trace.variables.push_back(variable);
      at->second.index = static_cast<Id>(trace.variables.size()) - 1;
      at->second.now = Tensor::symbolic(variable.spec());
      at->second.now.handle()->id = variable.id();
      at->second.now.handle()->trainable = variable.watched();
      add({variable.spec(), Kind::variable, at->second.index, kNone, kNone, 0, variable.category()},
          at->second.now);
    }
    return at->second.now;
  }
  void assign(const Variable& variable, Tensor to) override {
    value(variable);
    Held& held = variables_.at(variable);
    // An input, another variable or a view is copied here: at the end of the step it may not be
    // what it is now.
    const Id id = id_of(to);
    if (to.symbol() && (trace.values[id].kind != Kind::made || trace.values[id].base != kNone)) {
      const Tape::Pause nobody;
      to = ops::apply(ops::Cast{to.dtype()}, to);
    }
    // The last one counts; who reads on reads what it is now.
    const auto of = [&](const Assign& a) { return a.variable == held.index; };
    const auto old = std::find_if(trace.assigns.begin(), trace.assigns.end(), of);
    if (old == trace.assigns.end())
      trace.assigns.push_back({held.index, id_of(to)});
    else
      old->value = id_of(to);
    held.now = std::move(to);
    if (held.now.symbol()) held.now.handle()->trainable = variable.watched();
  }

  Id id_of(const Tensor& x) {
    const auto known = ids_.find(x.id());
    if (known != ids_.end()) return known->second;
    if (!x.symbol()) {  // the same from step to step
      trace.constants.push_back(x);
      return add({x.spec(), Kind::constant, static_cast<Id>(trace.constants.size()) - 1, kNone,
                  kNone, 0, Category::data},
                 x);
    }
    const Tensor::Value* base = x.handle()->base;  // a view made outside of any op
    const auto of = base ? ids_.find(base->id) : ids_.end();
    if (of == ids_.end())
      throw Error(
          "compile: a value of another compiled function is used; return it from that one, "
          "and give it to this one as an argument");
    const Id id = add({x.spec(), Kind::made, 0, trace.values[of->second].call, kNone, 0,
                       trace.values[of->second].category},
                      x);
    of_batch_[id] = of_batch_[of->second];
    trace.values[id].base = of->second;
    trace.values[id].offset = static_cast<std::uint64_t>(x.handle()->data - base->data);
    return id;
  }

  Trace trace;

 private:
  struct Held {
    Id index = 0;
    Tensor now;
  };

  bool made_of_scalars(const Value& v) const {
    if (v.base != kNone || v.call == kNone) return false;
    const Call& call = trace.calls[v.call];
    return std::all_of(call.in.begin(), call.in.end(),
                       [&](Id id) { return trace.values[id].spec.rank() == 0; });
  }
  Id remade(const Value& v, Id id) {
    Call call = trace.calls[v.call];
    const std::vector<Id> before = call.in;
    for (Id& in : call.in) in = total_of(in);
    if (call.in == before) return id;
    call.finish = true;
    call.donated = -1;
    const auto place = static_cast<Id>(trace.calls.size());
    for (Id& out : call.out) {
      Value again = trace.values[out];
      again.call = place;
      out = add(std::move(again), Tensor::symbolic(trace.values[out].spec));
      of_batch_[out] = true;
    }
    trace.calls.push_back(call);
    return call.out[static_cast<std::size_t>(v.index)];
  }
  Id going_on(const Spec& spec, Id id) {
    const std::size_t index = trace.carry.size();
    trace.carry.push_back(id);
    if (which_ == MicroBatch::probe) return id;
    const Tape::Pause nobody;
    const CategoryScope category(Category::gradients);
    const Tensor so_far =
        fresh(spec, Kind::sum_so_far, static_cast<Id>(index), Category::gradients);
    trace.carry[index] = id_of(so_far + held_[static_cast<std::size_t>(id)]);
    return trace.carry[index];
  }

  Id add(Value value, const Tensor& x) {
    of_batch_.push_back(value.kind == Kind::input || value.kind == Kind::key ||
                        value.kind == Kind::sum_so_far);
    trace.values.push_back(std::move(value));
    const auto id = static_cast<Id>(trace.values.size()) - 1;
    ids_[x.id()] = id;
    held_.push_back(x);  // so that its identity is not given to another
    return id;
  }
  Tensor fresh(const Spec& spec, Kind kind, Id index, Category category) {
    Tensor t = Tensor::symbolic(spec);
    add({spec, kind, index, kNone, kNone, 0, category}, t);
    return t;
  }
  void share(Id id, const Tensor& from, const Tensor& to) {
    const Id source = id_of(from);
    Value& v = trace.values[id];
    const Value& of = trace.values[source];
    v.base = of.base == kNone ? source : of.base;
    v.offset = of.offset + static_cast<std::uint64_t>(to.handle()->data - from.handle()->data);
    v.category = trace.values[v.base].category;
  }

  MicroBatch which_;
  const Trace* probe_;
  bool finish_ = false;
  std::vector<std::size_t> open_;  // places in `carry` that were asked for and not filled
  Tensor key_;
  int steps_ = 0;                     // of optimizers, so far
  std::map<const void*, int> taken_;  // … by each of them
  std::unordered_map<std::uint64_t, Id> ids_;
  std::vector<Tensor> held_;    // per value
  std::vector<bool> of_batch_;  // per value: depends on the examples
  std::map<Id, Id> totals_;     // of scalars that were asked for
  std::map<Variable, Held> variables_;
};

// For as long as it lives, this thread's ops and variables go to the tracer.
class TracingScope {
 public:
  explicit TracingScope(TraceBuilder& builder)
      : ops_(std::exchange(ops::tracer(), &builder)),
        view_(std::exchange(variable_view(), &builder)),
        random_(random::state()) {
    random::State start = random_;
    start.draw = 0;
    random::restore(start);
  }
  ~TracingScope() {
    ops::tracer() = ops_;
    variable_view() = view_;
    random::restore(random_);
  }
  TracingScope(const TracingScope&) = delete;
  TracingScope& operator=(const TracingScope&) = delete;

 private:
  ops::Tracer* ops_;
  VariableView* view_;
  random::State random_;
};

Trace traced(const Function& fn, std::span<const Spec> inputs, MicroBatch which, const Trace* probe,
             bool with_tape) {
  TraceBuilder builder(which, probe);
  const TracingScope scope(builder);
  const Tape::Pause nobody;  // tapes outside do not see what happens in here
  const CategoryScope category(Category::activations);
  const Scope root(Scope::Id{0});
  std::vector<Tensor> arguments;
  for (const Spec& s : inputs) arguments.push_back(builder.input(s));
  std::optional<Tape> tape;
  if (with_tape) {
    tape.emplace(TapeOptions{.persistent = true});
    for (const Tensor& x : arguments)
      if (is_float(x.dtype())) tape->watch(x);
  }
  const std::vector<Tensor> results = fn(arguments);
  for (const Tensor& r : results) {
    if (!r) throw Error("compile: the function gave back a handle that holds no tensor");
    builder.trace.results.push_back(builder.total_of(builder.id_of(r)));
  }
  if (tape) {
    builder.trace.gradients = tape->walked();
    tape->commit();
  }
  return std::move(builder.trace);
}

}  // namespace

Trace trace(const Function& fn, std::span<const Spec> inputs, MicroBatch which,
            const Trace* probe) {
  Trace with_tape = traced(fn, inputs, which, probe, true);
  if (with_tape.gradients) return with_tape;
  return traced(fn, inputs, which, probe, false);  // nothing is kept for a walk back
}

}  // namespace ebb::trace
