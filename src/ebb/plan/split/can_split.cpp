#include "ebb/plan/split/can_split.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ebb/ops/op.hpp"
#include "ebb/plan/split/grows.hpp"

namespace ebb::plan {
namespace {

using trace::Call;
using trace::Kind;
using trace::Trace;

// What a value is across micro-batches.
enum class Across : std::uint8_t {
  same,         // in each of them
  per_example,  // something for each example
  sum,          // over examples, as far as they go
  once,         // there after the last micro-batch alone: whole sums, and what is made of them
  some          // made for each example, but not there for all of them
};

std::string place(const Call& call) {
  const std::string scope = Scope::path(call.scope);
  return scope.empty() ? std::string(call.op.type().name)
                       : fmt::format("{} in {}", call.op.type().name, scope);
}

constexpr char kNumberDepends[] =
    "a number that the function computes with depends on how many examples there are";

// Reads a trace from its first call to its last.
class Reading {
 public:
  Reading(const Trace& t, std::int64_t examples, const Trace& other, std::int64_t other_examples,
          bool mixed)
      : t_(t),
        examples_(examples),
        other_(other),
        other_examples_(other_examples),
        mixed_(mixed && t.values.size() == other.values.size()),
        is_(t.values.size(), Across::same),
        growing_(t.values.size()),
        loose_(t.values.size()),
        whole_(t.values.size()) {}

  std::string differs(const SplitAnswer& expected) {
    SplitAnswer found;
    start();
    const bool numbers = constants(found);
    if (examples_ == 1 && found.constants != expected.constants) return {};
    const bool same_counts =
        found.constants == expected.constants &&
        std::equal(found.counts.begin(), found.counts.end(), expected.counts.begin(),
                   expected.counts.end(),
                   [](const auto& a, const auto& b) { return a.constant == b.constant; });
    if (numbers || !same_counts) return kNumberDepends;
    return examples_ == 1 ? std::string() : attributes();
  }

  SplitAnswer answer() {
    SplitAnswer answer;
    start();
    const bool numbers = constants(answer);
    for (std::size_t c = 0; c < t_.calls.size() && answer.reason.empty(); ++c)
      answer.reason = read(t_.calls[c]);
    if (answer.reason.empty()) answer.reason = attributes();
    if (numbers && answer.reason.empty() && !allowed(kNumberDepends))
      answer.reason = kNumberDepends;
    for (std::size_t r = 0; r < t_.results.size() && answer.reason.empty(); ++r) {
      answer.reason = result(r);
      answer.result_per_example.push_back(of(t_.results[r]) == Across::per_example);
    }
    for (std::size_t a = 0; a < t_.assigns.size() && answer.reason.empty(); ++a)
      answer.reason = assigned(t_.assigns[a]);
    answer.possible = answer.reason.empty();
    if (!answer.possible) return answer;
    for (const trace::Assign& a : t_.assigns)
      answer.assigned_in_each.push_back(of(a.value) == Across::sum);
    answer.mixed = answer.reason = mixed_at_;
    if (!mixed_at_.empty()) return answer;
    answer.reason = not_one_chain();
    answer.same_bits = answer.reason.empty();
    return answer;
  }

 private:
  void start() {
    for (std::size_t i = 0; i < t_.values.size(); ++i) {
      const trace::Value& v = t_.values[i];
      loose_[i] = v.base != trace::kNone;  // until the call is found that made it
      if (v.base != trace::kNone) continue;
      if (v.kind == Kind::input || v.kind == Kind::key) is_[i] = Across::per_example;  // draws, too
      if (v.kind == Kind::sum_so_far) is_[i] = Across::sum;
    }
    for (const Call& call : t_.calls)
      for (const trace::Id id : call.out) loose_[id] = false;
    const auto made = made_of_constants(t_), made_other = made_of_constants(other_);
    for (std::size_t i = 0; i < made.size() && made.size() == made_other.size(); ++i)
      growing_[made[i]] = grows(t_.values[made[i]].spec, examples_,
                                other_.values[made_other[i]].spec, other_examples_);
    for (const trace::Id id : t_.carry)
      if (id != trace::kNone) whole_[id] = true;
  }

  // Those that are made for each example are so; numbers that count examples and are read once,
  // after the last micro-batch, are those of the whole batch. Whether others are not what they are
  // for another number of examples.
  bool constants(SplitAnswer& answer) {
    bool differ = false;
    answer.constants = t_.constants.size();
    if (t_.constants.size() != other_.constants.size()) return differ;
    std::vector<bool> once(t_.values.size(), true);
    for (const Call& call : t_.calls)
      for (const trace::Id id : call.in)
        if (!call.finish) once[id] = false;
    for (const trace::Value& v : t_.values)
      if (v.base != trace::kNone) once[v.base] = false;
    for (std::size_t i = 0; i < t_.values.size(); ++i) {
      const trace::Value& v = t_.values[i];
      if (v.kind != Kind::constant || v.base != trace::kNone) continue;
      const Tensor &a = t_.constants[v.index], &b = other_.constants[v.index];
      if (grows(a, examples_, b, other_examples_)) {
        is_[i] = Across::per_example;
        continue;
      }
      const bool alike = a.spec() == b.spec();
      if (!alike && examples_ == 1) continue;  // made for its example by another call
      if (alike && (a.raw() == b.raw() || std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0))
        continue;
      if (alike && once[i] && !mixed_ && counts(a, examples_, b, other_examples_)) {
        is_[i] = Across::once;
        answer.counts.push_back({v.index, b});
      } else {
        differ = true;
      }
    }
    return differ;
  }

  // A view that no call made is what it is a view of; of something for each example, it has to be
  // of all of it.
  Across of(trace::Id id) const {
    if (whole_[id]) return Across::once;
    if (!loose_[id]) return is_[id];
    const trace::Id base = t_.base_of(id);
    const Across is = of(base);
    if (is != Across::per_example) return is;
    const Spec &all = t_.values[base].spec, &view = t_.values[id].spec;
    const bool in_order = view.rank() > 0 && view.shape[0] % examples_ == 0;
    return in_order && view.bytes() == all.bytes() ? Across::per_example : Across::some;
  }

  // What a call after the optimizer's step makes for each example is made in every micro-batch, as
  // long as it needs nothing of that step.
  std::string read(const Call& call) {
    std::vector<Spec> specs;
    std::uint32_t carry = 0, sums = 0;
    bool once = false, each = false;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      Across is = of(call.in[i]);
      if (is == Across::once && !call.finish) is = Across::sum;  // one that others are made of, too
      if (is == Across::some)
        return fmt::format("{} reads some examples of the batch", place(call));
      specs.push_back(t_.values[call.in[i]].spec);
      once |= is == Across::once;
      each |= is == Across::per_example || is == Across::sum;
      if (i >= 32) continue;
      carry |= (is == Across::per_example ? 1u : 0u) << i;
      sums |= (is == Across::sum ? 1u : 0u) << i;
    }
    if (once && each)
      return fmt::format("{} reads examples after the optimizer's step", place(call));
    for (std::size_t o = 0; o < call.out.size(); ++o) {
      const trace::Id out = call.out[o];
      if (once) is_[out] = Across::once;
      if (!each && (once || !growing_[out])) continue;
      const ops::BatchRule rule = call.op.type().batch_rule(
          call.op.attributes(), {specs, carry, sums, examples_}, static_cast<int>(o));
      is_[out] = rule == ops::BatchRule::per_example ? Across::per_example : Across::sum;
      if (rule != ops::BatchRule::mixed) continue;
      const std::string why = fmt::format("examples depend on each other in {}", place(call));
      if (!allowed(why)) return why;
      if (grows(t_.values[out].spec, examples_, other_.values[out].spec, other_examples_))
        is_[out] = Across::per_example;
    }
    return {};
  }

  // What an op is told may depend on the number of examples only as its shape does.
  std::string attributes() const {
    if (t_.calls.size() != other_.calls.size())
      return "what the function does depends on how many examples there are";
    for (std::size_t c = 0; c < t_.calls.size(); ++c) {
      const ops::AnyOp &a = t_.calls[c].op, &b = other_.calls[c].op;
      const std::int64_t n = examples_, m = other_examples_;
      if (&a.type() != &b.type())
        return "what the function does depends on how many examples there are";
      if (a == b || growing_[t_.calls[c].out[0]] || told_batch(a, n, b, m)) continue;
      return fmt::format("what {} is told depends on how many examples there are",
                         place(t_.calls[c]));
    }
    return {};
  }

  std::string result(std::size_t index) const {
    const trace::Id id = t_.results[index];
    if (other_.results.size() != t_.results.size())
      return "the number of results depends on how many examples there are";
    switch (of(id)) {
      case Across::sum:
        return "a result is a sum over the examples that no Loss adds up";
      case Across::some:
        return "a result is some examples of the batch";
      case Across::per_example:
        if (!grows(t_.values[id].spec, examples_, other_.values[other_.results[index]].spec,
                   other_examples_))
          return "a result does not grow with the examples it is made of";
        return {};
      default:
        return {};
    }
  }

  std::string assigned(const trace::Assign& assign) const {
    const Across is = of(assign.value);
    const bool in_each = is == Across::sum && !mixed_at_.empty();
    if (is == Across::same || is == Across::once || in_each) return {};
    return fmt::format("variable {} is assigned {}", t_.variables[assign.variable].name(),
                       is == Across::sum ? "a sum over the examples that no Loss adds up"
                                         : "something for each example");
  }

  // One chain: the call that gives the sum goes on from the sum so far, with nothing between.
  std::string not_one_chain() const {
    for (std::size_t k = 0; k < t_.carry.size(); ++k) {
      const trace::Id id = t_.carry[k];
      if (id == trace::kNone || !is_float(t_.values[id].spec.dtype)) continue;
      const trace::Value& v = t_.values[id];
      bool chain = false;
      if (v.call != trace::kNone && !is_half(v.spec.dtype)) {  // 16 bits are rounded in between
        const Call& call = t_.calls[v.call];
        bool carry = false;
        for (const trace::Id in : call.in) carry |= of(in) == Across::per_example;
        const std::uint32_t over = call.op.type().overwrites(call.op.attributes(), v.index);
        for (std::size_t i = 0; i < call.in.size() && i < 32; ++i) {
          const trace::Value& in = t_.values[call.in[i]];
          chain |= carry && (over >> i & 1) && in.kind == Kind::sum_so_far &&
                   in.index == static_cast<trace::Id>(k);
        }
      }
      if (!chain)
        return fmt::format("sum {} over the examples is not one chain ({})", k,
                           v.call == trace::kNone ? "no call makes it" : place(t_.calls[v.call]));
    }
    return {};
  }

  bool allowed(const std::string& why) {
    if (mixed_ && mixed_at_.empty()) mixed_at_ = why;
    return mixed_;
  }

  const Trace& t_;
  std::int64_t examples_;
  const Trace& other_;
  std::int64_t other_examples_;
  bool mixed_;                 // examples may depend on each other, within a micro-batch
  std::string mixed_at_;       // where they do first
  std::vector<Across> is_;     // per value; loose views and whole sums: see of()
  std::vector<bool> growing_;  // per value: made of constants, for each example
  std::vector<bool> loose_;    // per value: a view that no call made
  std::vector<bool> whole_;    // per value: a sum that goes on from micro-batch to micro-batch
};

}  // namespace

bool with_counts(Trace& trace, const SplitAnswer& answer) {
  if (answer.counts.empty()) return true;
  if (trace.constants.size() != answer.constants) return false;
  for (const SplitAnswer::Count& c : answer.counts) {
    if (trace.constants[c.constant].spec() != c.whole.spec()) return false;
    trace.constants[c.constant] = c.whole;
  }
  return true;
}

std::string why_different(const Trace& trace, std::int64_t examples, const Trace& other,
                          std::int64_t other_examples, const SplitAnswer& answer) {
  if (examples == other_examples || !answer.mixed.empty()) return {};
  return Reading(trace, examples, other, other_examples, false).differs(answer);
}

SplitAnswer can_split(const Trace& trace, std::int64_t examples, const Trace& other,
                      std::int64_t other_examples, bool mixed) {
  return Reading(trace, examples, other, other_examples, mixed).answer();
}

}  // namespace ebb::plan
