#include "ebb/plan/split/rank_sums.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/plan/split/grows.hpp"
#include "ebb/trace/ids.hpp"

namespace ebb::plan {
namespace {

using trace::Call;
using trace::Id;
using trace::Kind;
using trace::kNone;
using trace::Trace;

constexpr char kOther[] = "what the function does depends on how many examples there are";

// Calls that depend on more than constants.
std::vector<std::size_t> counted_calls(const Trace& t) {
  std::vector<bool> constant(t.values.size());
  for (std::size_t i = 0; i < constant.size(); ++i)
    constant[i] = t.values[i].kind == Kind::constant;
  std::vector<std::size_t> calls;
  for (std::size_t c = 0; c < t.calls.size(); ++c) {
    const Call& call = t.calls[c];
    const bool all =
        std::all_of(call.in.begin(), call.in.end(), [&](Id id) { return constant[t.base_of(id)]; });
    if (!all) calls.push_back(c);
    for (const Id id : call.out) constant[id] = all;
  }
  return calls;
}

std::vector<Spec> specs_of(const Trace& t, const Call& call) {
  std::vector<Spec> specs;
  for (const Id id : call.in) specs.push_back(t.values[id].spec);
  return specs;
}

// Values from this one on, before all others: what views share stands before them.
void put_first(Trace& t, std::size_t from) {
  const std::size_t moved = t.values.size() - from;
  std::rotate(t.values.begin(), t.values.begin() + static_cast<std::ptrdiff_t>(from),
              t.values.end());
  const auto follow = [&](Id& id) {
    const auto was = static_cast<std::size_t>(id);
    id = static_cast<Id>(was >= from ? was - from : was + moved);
  };
  trace::each_use(t, follow);
  for (Call& call : t.calls)
    for (Id& id : call.out) follow(id);
}

class Finding {
 public:
  Finding(const Trace& t, std::int64_t examples, const Trace& other, std::int64_t other_examples)
      : t_(t),
        examples_(examples),
        other_(other),
        other_examples_(other_examples),
        is_(t.values.size(), Is::same),
        sum_(t.values.size(), -1),
        taken_(t.carry.size()) {}

  RankSums find() {
    const std::vector<std::size_t> counted = counted_calls(t_);
    if (!alike()) return refused(kOther);
    start();
    std::size_t next = 0;
    for (std::size_t c = 0; c < t_.calls.size() && found_.reason.empty(); ++c) {
      const bool counts = next < counted.size() && counted[next] == c;
      read(t_.calls[c], next);
      if (!counts) continue;
      found_.calls.push_back(&t_.calls[c].op.type());
      ++next;
    }
    if (found_.reason.empty()) find_counts(counted);
    return std::move(found_);
  }

 private:
  enum class Is : std::uint8_t {
    same,
    per_example,
    sum,   // or made of sums
    part,  // of a sum: these examples', to be added to what is so far
  };

  RankSums refused(std::string why) {
    found_.reason = std::move(why);
    return std::move(found_);
  }
  void refuse(const Call& call, const char* why) {
    found_.reason = fmt::format("{} {}", call.op.type().name, why);
  }

  bool alike() const {
    return t_.constants.size() == other_.constants.size() &&
           std::equal(t_.calls.begin(), t_.calls.end(), other_.calls.begin(), other_.calls.end(),
                      [](const Call& a, const Call& b) { return &a.op.type() == &b.op.type(); });
  }

  void start() {
    std::vector<bool> by_call(t_.values.size());
    for (const Call& call : t_.calls)
      for (const Id id : call.out) by_call[id] = true;
    for (std::size_t i = 0; i < t_.values.size(); ++i) {
      const trace::Value& v = t_.values[i];
      loose_.push_back(v.base != kNone && !by_call[i]);
      if (v.base != kNone) continue;
      if (v.kind == Kind::input || v.kind == Kind::key) is_[i] = Is::per_example;
      if (v.kind == Kind::sum_so_far) is_[i] = Is::sum;
      if (v.kind == Kind::constant &&
          grows(t_.constants[v.index], examples_, other_.constants[v.index], other_examples_))
        is_[i] = Is::per_example;
    }
    const auto made = made_of_constants(t_), made_other = made_of_constants(other_);
    growing_.resize(t_.values.size());
    for (std::size_t i = 0; i < made.size() && made.size() == made_other.size(); ++i)
      growing_[made[i]] = grows(t_.values[made[i]].spec, examples_,
                                other_.values[made_other[i]].spec, other_examples_);
  }

  Is of(const Call& call, Id id) {
    if (!loose_[id]) return is_[id];
    const Id base = t_.base_of(id);
    if (is_[base] == Is::per_example && t_.values[id].spec.bytes() != t_.values[base].spec.bytes())
      refuse(call, "reads some examples of the batch");
    return is_[base];
  }

  void read(const Call& call, std::size_t counted) {
    std::uint32_t examples = 0, sums = 0;
    bool any = false, any_sum = false;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      const Is is = of(call, call.in[i]);
      if (is == Is::part) return add_part(call, counted);
      any |= is == Is::per_example;
      any_sum |= is == Is::sum;
      if (i >= 32) continue;
      examples |= (is == Is::per_example ? 1u : 0u) << i;
      sums |= (is == Is::sum ? 1u : 0u) << i;
    }
    const std::vector<Spec> specs = specs_of(t_, call);
    for (std::size_t o = 0; o < call.out.size() && found_.reason.empty(); ++o) {
      const Id out = call.out[o];
      if (!any && !growing_[out]) {
        is_[out] = any_sum ? Is::sum : Is::same;
        continue;
      }
      const ops::BatchRule rule = call.op.type().batch_rule(
          call.op.attributes(), {specs, examples, sums, examples_}, static_cast<int>(o));
      if (rule == ops::BatchRule::mixed) return refuse(call, "makes examples depend on each other");
      is_[out] = rule == ops::BatchRule::per_example ? Is::per_example : Is::sum;
      if (is_[out] == Is::sum) add(call, counted, static_cast<int>(o), sums);
    }
  }

  // Of a sum that its call cannot go on from: exact where the order does not count, that is for integers.
  void add_part(const Call& call, std::size_t counted) {
    const trace::Value& so_far = t_.values[call.in[0]];
    if (&call.op.type() != &ops::op_type<ops::Add>() || so_far.kind != Kind::sum_so_far ||
        is_[call.in[1]] != Is::part || taken_[static_cast<std::size_t>(so_far.index)])
      return refuse(call, "reads a sum of some examples");
    const Id out = call.out[0];
    is_[out] = Is::sum;
    take(out, {counted, 0, 0, -1, static_cast<int>(so_far.index)});
  }

  void take(Id out, const RankSums::Sum& sum) {
    if (sum.place >= 0) taken_[static_cast<std::size_t>(sum.place)] = true;
    sum_[out] = static_cast<int>(found_.sums.size());
    found_.sums.push_back(sum);
  }

  // A call that sums over examples.
  void add(const Call& call, std::size_t counted, int output, std::uint32_t sums) {
    const Id out = call.out[static_cast<std::size_t>(output)];
    const Spec& made = t_.values[out].spec;
    if (is_half(made.dtype)) return refuse(call, "sums in 16 bits, which are rounded in between");
    RankSums::Sum sum{counted, output};
    for (std::size_t i = 0; i < call.in.size() && i < 32; ++i) {
      if (!(sums >> i & 1)) continue;
      const std::uint32_t over = call.op.type().overwrites(call.op.attributes(), output);
      if (!(over >> i & 1) || t_.values[call.in[i]].spec != made) continue;
      const trace::Value& from = t_.values[call.in[i]];
      sum.start = sum_[call.in[i]];
      if (from.kind == Kind::sum_so_far) sum.place = static_cast<int>(from.index);
      const auto follows = [&](const RankSums::Sum& s) {
        return sum.start >= 0 && s.start == sum.start;
      };
      if (sum.accumulator >= 0 || (sum.start < 0 && sum.place < 0) ||
          (sum.place >= 0 && taken_[static_cast<std::size_t>(sum.place)]) ||
          std::any_of(found_.sums.begin(), found_.sums.end(), follows))
        return refuse(call, "goes on from what is no sum of its own");
      sum.accumulator = static_cast<int>(i);
    }
    if (sum.accumulator < 0 &&
        !call.op.type().accumulating(call.op.attributes(), specs_of(t_, call), output)) {
      is_[out] = Is::part;
      if (is_float(made.dtype)) refuse(call, "cannot go on from a sum");
      return;
    }
    take(out, sum);
  }

  // Numbers that count the examples, read by what is made once.
  void find_counts(const std::vector<std::size_t>& counted) {
    for (std::size_t i = 0; i < t_.values.size(); ++i) {
      const trace::Value& v = t_.values[i];
      if (v.kind != Kind::constant || v.base != kNone || is_[i] == Is::per_example) continue;
      const Tensor &a = t_.constants[v.index], &b = other_.constants[v.index];
      if (a.spec() == b.spec() &&
          (a.raw() == b.raw() || std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0))
        continue;
      bool once = a.spec() == b.spec() && counts(a, examples_, b, other_examples_);
      for (const Call& call : t_.calls)
        for (const Id id : call.in) once &= t_.base_of(id) != static_cast<Id>(i) || call.finish;
      if (!once) {
        found_.reason =
            "a number that the function computes with depends on how many examples "
            "there are";
        return;
      }
      for (std::size_t c = 0; c < counted.size(); ++c)
        for (std::size_t k = 0; k < t_.calls[counted[c]].in.size(); ++k)
          if (t_.calls[counted[c]].in[k] == static_cast<Id>(i)) found_.counts.push_back({c, k});
    }
  }

  const Trace& t_;
  std::int64_t examples_;
  const Trace& other_;
  std::int64_t other_examples_;
  std::vector<Is> is_;       // per value
  std::vector<int> sum_;     // per value: which of the sums it is, or -1
  std::vector<bool> taken_;  // per place
  std::vector<bool> loose_,
      growing_;  // per value: a view that no call made; made of constants, for each example
  RankSums found_;
};

}  // namespace

bool RankSums::in_turn() const {
  return std::any_of(sums.begin(), sums.end(), [](const Sum& s) { return s.start >= 0; });
}

std::vector<std::size_t> RankSums::calls_of_places(std::size_t count) const {
  std::vector<std::size_t> calls(count, kNoCall);
  if (!possible()) return calls;
  std::size_t next = count;
  for (const Sum& s : sums) next -= s.place < 0;
  for (const Sum& s : sums)
    calls[s.place >= 0 ? static_cast<std::size_t>(s.place) : next++] = s.call;
  return calls;
}

RankSums find_rank_sums(const Trace& trace, std::int64_t examples, const Trace& other,
                        std::int64_t other_examples) {
  return Finding(trace, examples, other, other_examples).find();
}

Trace with_rank_sums(Trace t, const RankSums& sums, const Trace& all) {
  const std::vector<std::size_t> calls = counted_calls(t), of_all = counted_calls(all);
  const auto alike = [&](const Trace& trace, const std::vector<std::size_t>& list) {
    return std::equal(
        list.begin(), list.end(), sums.calls.begin(), sums.calls.end(),
        [&](std::size_t c, const ops::OpType* type) { return &trace.calls[c].op.type() == type; });
  };
  if (!alike(t, calls) || !alike(all, of_all)) throw Error(kOther);
  for (std::size_t i = 0; i < t.values.size(); ++i)
    if (const trace::Value& v = t.values[i]; v.kind == Kind::sum_so_far && v.base == kNone)
      if (Id& sum = t.carry[static_cast<std::size_t>(v.index)]; sum != kNone)
        sum = static_cast<Id>(i);  // as it is, unless there is one of these
  t.starts.assign(t.carry.size(), kNone);
  const std::size_t values = t.values.size();
  std::vector<Id> place;  // of each
  for (const RankSums::Sum& s : sums.sums) {
    Call& call = t.calls[calls[s.call]];
    const Id out = call.out[static_cast<std::size_t>(s.output)];
    place.push_back(s.place >= 0 ? s.place : static_cast<Id>(t.carry.size()));
    if (s.place >= 0) {
      t.carry[static_cast<std::size_t>(s.place)] = out;
      continue;
    }
    trace::Value so_far;
    so_far.spec = t.values[out].spec;
    so_far.kind = Kind::sum_so_far;
    so_far.index = static_cast<Id>(t.carry.size());
    so_far.category = Category::gradients;
    const auto id = static_cast<Id>(t.values.size());
    if (s.accumulator >= 0) {
      call.in[static_cast<std::size_t>(s.accumulator)] = id;
    } else {
      call.op = call.op.type().accumulating(call.op.attributes(), specs_of(t, call), s.output);
      call.in.push_back(id);
    }
    t.values.push_back(so_far);
    t.carry.push_back(out);
    t.starts.push_back(s.start < 0 ? kNone : place[static_cast<std::size_t>(s.start)]);
  }
  for (const RankSums::Count& c : sums.counts) {
    const trace::Value& here = t.values[t.calls[calls[c.call]].in[c.in]];
    const trace::Value& whole = all.values[all.calls[of_all[c.call]].in[c.in]];
    if (here.kind != Kind::constant || whole.kind != Kind::constant || here.spec != whole.spec)
      throw Error(kOther);
    t.constants[here.index] = all.constants[whole.index];
  }
  put_first(t, values);
  return t;
}

}  // namespace ebb::plan
