#include "ebb/plan/split/can_split.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ebb/ops/apply.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb::plan {
namespace {

using trace::Call;
using trace::Kind;
using trace::Trace;

enum class Is : std::uint8_t {
  same,      // for every part
  carrying,  // rows
  sum,       // over rows, as far as they go
  once,      // what is there after the last part alone: whole sums, and what is made of them
  some       // rows, but not all of them
};

std::string place(const Call& call) {
  const std::string scope = Scope::path(call.scope);
  return scope.empty() ? std::string(call.op.type().name)
                       : fmt::format("{} in {}", call.op.type().name, scope);
}

constexpr char kNumberDepends[] =
    "a number that the function computes with depends on how many rows there are";

// Whether a constant is made for each row, the same for all, however many there are.
bool grows(const Tensor& a, std::int64_t a_rows, const Tensor& b, std::int64_t b_rows) {
  const Spec &x = a.spec(), &y = b.spec();
  if (x.dtype != y.dtype || x.rank() != y.rank() || x.rank() == 0 || a_rows == b_rows) return false;
  for (int i = 1; i < x.rank(); ++i)
    if (x.shape[i] != y.shape[i]) return false;
  if (x.shape[0] == 0 || x.shape[0] % a_rows != 0 || x.shape[0] / a_rows * b_rows != y.shape[0])
    return false;
  const std::size_t row = x.bytes() / static_cast<std::size_t>(a_rows);
  for (std::int64_t r = 1; r < a_rows; ++r)
    if (std::memcmp(a.raw(), a.raw() + static_cast<std::size_t>(r) * row, row) != 0) return false;
  return std::memcmp(a.raw(), b.raw(), row) == 0;
}

// Whether a scalar is a multiple of the number of rows: `a` for some of them, `b` for others.
bool counts(const Tensor& a, std::int64_t a_rows, const Tensor& b, std::int64_t b_rows) {
  if (a.rank() != 0) return false;
  const double x = a.item(), y = b.item();
  return x != y && x * static_cast<double>(b_rows) == y * static_cast<double>(a_rows);
}

// Whether two ops of one type differ only in the rows of a shape that they are told: `a` for some
// of them, `b` for others.
template <class Op>
bool told_rows(const ops::AnyOp& a, std::int64_t a_rows, const ops::AnyOp& b,
               std::int64_t b_rows) {
  if (&a.type() != &ops::op_type<Op>()) return false;
  Op x = *static_cast<const Op*>(a.attributes());
  const Op& y = *static_cast<const Op*>(b.attributes());
  if (x.to.rank() == 0 || x.to.rank() != y.to.rank() || x.to[0] * b_rows != y.to[0] * a_rows)
    return false;
  std::vector<std::int64_t> dims(x.to.begin(), x.to.end());
  dims[0] = y.to[0];
  x.to = Shape(dims);
  return x == y;
}

// What calls that make more bytes than they read make of constants alone, in their order. They are
// the same calls in every part; others, such as sums, go on from what parts before made.
std::vector<trace::Id> made_of_constants(const Trace& t) {
  std::vector<bool> is(t.values.size());
  for (std::size_t i = 0; i < is.size(); ++i) is[i] = t.values[i].kind == Kind::constant;
  std::vector<trace::Id> made;
  for (const Call& call : t.calls) {
    if (call.in.empty() || !std::all_of(call.in.begin(), call.in.end(),
                                        [&](trace::Id id) { return is[t.base_of(id)]; }))
      continue;
    std::uint64_t in = 0, out = 0;
    for (const trace::Id id : call.in) in += t.values[id].spec.bytes();
    for (const trace::Id id : call.out) out += t.values[id].spec.bytes();
    for (const trace::Id id : call.out) {
      is[id] = true;
      if (out > in) made.push_back(id);
    }
  }
  return made;
}

// Whether `a` has a row, or several, for each example, and `b` is the same for another batch.
bool grows(const Spec& a, std::int64_t a_rows, const Spec& b, std::int64_t b_rows) {
  return a.rank() > 0 && b.rank() == a.rank() && a.shape[0] != b.shape[0] &&
         a.shape[0] % a_rows == 0 && a.shape[0] / a_rows * b_rows == b.shape[0];
}

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
        is_(t.values.size(), Is::same),
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
    if (numbers && answer.reason.empty() && !allowed(kNumberDepends)) answer.reason = kNumberDepends;
    for (std::size_t r = 0; r < t_.results.size() && answer.reason.empty(); ++r) {
      answer.reason = result(r);
      answer.result_carries.push_back(of(t_.results[r]) == Is::carrying);
    }
    for (std::size_t a = 0; a < t_.assigns.size() && answer.reason.empty(); ++a)
      answer.reason = assigned(t_.assigns[a]);
    answer.possible = answer.reason.empty();
    if (!answer.possible) return answer;
    for (const trace::Assign& a : t_.assigns)
      answer.assigned_in_parts.push_back(of(a.value) == Is::sum);
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
      if (v.kind == Kind::input || v.kind == Kind::key) is_[i] = Is::carrying;  // draws are by row
      if (v.kind == Kind::carried) is_[i] = Is::sum;
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

  // Those that are made for each row carry the batch; numbers that count rows and are read once,
  // after the last part, are those of the whole. Whether others are not what they are for another
  // number of rows.
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
        is_[i] = Is::carrying;
        continue;
      }
      const bool alike = a.spec() == b.spec();
      if (!alike && examples_ == 1) continue;  // made for its row in another way
      if (alike && (a.raw() == b.raw() || std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0))
        continue;
      if (alike && once[i] && !mixed_ && counts(a, examples_, b, other_examples_)) {
        is_[i] = Is::once;
        answer.counts.push_back({v.index, b});
      } else {
        differ = true;
      }
    }
    return differ;
  }

  // A view that no call made is what it is a view of, but for rows: there it has to be of all.
  Is of(trace::Id id) const {
    if (whole_[id]) return Is::once;
    if (!loose_[id]) return is_[id];
    const trace::Id base = t_.base_of(id);
    const Is is = of(base);
    if (is != Is::carrying) return is;
    const Spec &all = t_.values[base].spec, &view = t_.values[id].spec;
    const bool in_order = view.rank() > 0 && view.shape[0] % examples_ == 0;
    return in_order && view.bytes() == all.bytes() ? Is::carrying : Is::some;
  }

  // What a call after the optimizer's step makes of rows is made in every part, as long as it needs
  // nothing of that step.
  std::string read(const Call& call) {
    std::vector<Spec> specs;
    std::uint32_t carry = 0, sums = 0;
    bool once = false, parts = false;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      Is is = of(call.in[i]);
      if (is == Is::once && !call.finish) is = Is::sum;  // one that others are made of, too
      if (is == Is::some) return fmt::format("{} reads some rows of the batch", place(call));
      specs.push_back(t_.values[call.in[i]].spec);
      once |= is == Is::once;
      parts |= is == Is::carrying || is == Is::sum;
      if (i >= 32) continue;
      carry |= (is == Is::carrying ? 1u : 0u) << i;
      sums |= (is == Is::sum ? 1u : 0u) << i;
    }
    if (once && parts)
      return fmt::format("{} reads rows after the optimizer's step", place(call));
    for (std::size_t o = 0; o < call.out.size(); ++o) {
      const trace::Id out = call.out[o];
      if (once) is_[out] = Is::once;
      if (!parts && (once || !growing_[out])) continue;
      const ops::BatchRule rows = call.op.type().batch_rule(
          call.op.attributes(), {specs, carry, sums, examples_}, static_cast<int>(o));
      is_[out] = rows == ops::BatchRule::per_example ? Is::carrying : Is::sum;
      if (rows != ops::BatchRule::mixed) continue;
      const std::string why = fmt::format("rows depend on each other in {}", place(call));
      if (!allowed(why)) return why;
      if (grows(t_.values[out].spec, examples_, other_.values[out].spec, other_examples_))
        is_[out] = Is::carrying;
    }
    return {};
  }

  // What an op is told may depend on the rows only as its shape does.
  std::string attributes() const {
    if (t_.calls.size() != other_.calls.size())
      return "what the function does depends on how many rows there are";
    for (std::size_t c = 0; c < t_.calls.size(); ++c) {
      const ops::AnyOp &a = t_.calls[c].op, &b = other_.calls[c].op;
      const std::int64_t n = examples_, m = other_examples_;
      if (&a.type() != &b.type())
        return "what the function does depends on how many rows there are";
      if (a == b || growing_[t_.calls[c].out[0]] || told_rows<ops::Reshape>(a, n, b, m) ||
          told_rows<ops::BroadcastTo>(a, n, b, m) || told_rows<ops::SumTo>(a, n, b, m))
        continue;
      return fmt::format("what {} is told depends on how many rows there are",
                         place(t_.calls[c]));
    }
    return {};
  }

  std::string result(std::size_t index) const {
    const trace::Id id = t_.results[index];
    if (other_.results.size() != t_.results.size())
      return "the number of results depends on how many rows there are";
    switch (of(id)) {
      case Is::sum:
        return "a result is a sum over the rows that no Loss adds up";
      case Is::some:
        return "a result is some rows of the batch";
      case Is::carrying:
        if (!grows(t_.values[id].spec, examples_, other_.values[other_.results[index]].spec,
                   other_examples_))
          return "a result does not grow with the rows it is made of";
        return {};
      default:
        return {};
    }
  }

  std::string assigned(const trace::Assign& assign) const {
    const Is is = of(assign.value);
    if (is == Is::same || is == Is::once || (is == Is::sum && !mixed_at_.empty())) return {};
    return fmt::format("variable {} is assigned {}", t_.variables[assign.variable].name(),
                       is == Is::sum ? "a sum over the rows that no Loss adds up"
                                     : "rows of the batch");
  }

  // One chain: the call that gives the sum goes on from what was carried, with nothing between.
  std::string not_one_chain() const {
    for (std::size_t k = 0; k < t_.carry.size(); ++k) {
      const trace::Id id = t_.carry[k];
      if (id == trace::kNone || !is_float(t_.values[id].spec.dtype)) continue;
      const trace::Value& v = t_.values[id];
      bool chain = false;
      if (v.call != trace::kNone && !is_half(v.spec.dtype)) {  // 16 bits are rounded between parts
        const Call& call = t_.calls[v.call];
        bool carry = false;
        for (const trace::Id in : call.in) carry |= of(in) == Is::carrying;
        const std::uint32_t over = call.op.type().overwrites(call.op.attributes(), v.index);
        for (std::size_t i = 0; i < call.in.size() && i < 32; ++i) {
          const trace::Value& in = t_.values[call.in[i]];
          chain |= carry && (over >> i & 1) && in.kind == Kind::carried &&
                   in.index == static_cast<trace::Id>(k);
        }
      }
      if (!chain)
        return fmt::format("sum {} over the rows is not one chain ({})", k,
                           v.call == trace::kNone ? "carried" : place(t_.calls[v.call]));
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
  bool mixed_;            // rows may depend on each other, within a part
  std::string mixed_at_;  // where they do first
  std::vector<Is> is_;          // per value; loose views and whole sums: see of()
  std::vector<bool> growing_;   // per value: made of constants, for each row
  std::vector<bool> loose_;     // per value: a view that no call made
  std::vector<bool> whole_;     // per value: a sum that goes on from part to part
};

}  // namespace

bool with_counts(Trace& part, const SplitAnswer& answer) {
  if (answer.counts.empty()) return true;
  if (part.constants.size() != answer.constants) return false;
  for (const SplitAnswer::Count& c : answer.counts) {
    if (part.constants[c.constant].spec() != c.whole.spec()) return false;
    part.constants[c.constant] = c.whole;
  }
  return true;
}

std::string depends_on_rows(const Trace& part, std::int64_t examples, const Trace& other,
                            std::int64_t other_examples, const SplitAnswer& answer) {
  if (examples == other_examples || !answer.mixed.empty()) return {};
  return Reading(part, examples, other, other_examples, false).differs(answer);
}

SplitAnswer can_split(const Trace& part, std::int64_t examples, const Trace& other,
                      std::int64_t other_examples, bool mixed) {
  return Reading(part, examples, other, other_examples, mixed).answer();
}

}  // namespace ebb::plan
