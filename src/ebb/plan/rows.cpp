#include "ebb/plan/rows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace ebb::plan {
namespace {

using trace::Call;
using trace::Kind;
using trace::Trace;

enum class Is : std::uint8_t {
  same,
  carrying,
  sum
};  // the same for every part; rows; a sum so far

std::string place(const Call& call) {
  const std::string scope = Scope::path(call.scope);
  return scope.empty() ? std::string(call.op.type().name)
                       : fmt::format("{} in {}", call.op.type().name, scope);
}

// Whether a constant is made for each row, the same for all.
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
  return true;
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

}  // namespace

SplitAnswer can_split(const Trace& t, std::int64_t examples, const Trace& other,
                      std::int64_t other_examples) {
  SplitAnswer answer;
  std::vector<Is> is(t.values.size(), Is::same);
  for (std::size_t i = 0; i < t.values.size(); ++i) {
    const trace::Value& v = t.values[i];
    if (v.base != trace::kNone) continue;
    if (v.kind == Kind::input || v.kind == Kind::key) is[i] = Is::carrying;  // draws are by row
    if (v.kind == Kind::carried) is[i] = Is::sum;
    if (v.kind == Kind::constant && t.constants.size() == other.constants.size() &&
        grows(t.constants[v.index], examples, other.constants[v.index], other_examples))
      is[i] = Is::carrying;
  }
  const auto made = made_of_constants(t), made_other = made_of_constants(other);
  std::vector<bool> growing(t.values.size());
  for (std::size_t i = 0; i < made.size() && made.size() == made_other.size(); ++i)
    growing[made[i]] = grows(t.values[made[i]].spec, examples, other.values[made_other[i]].spec,
                             other_examples);
  for (const Call& call : t.calls) {
    if (call.finish) continue;
    std::vector<Spec> specs;
    std::uint32_t carry = 0, sums = 0;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      specs.push_back(t.values[call.in[i]].spec);
      if (i >= 32) continue;
      carry |= (is[call.in[i]] == Is::carrying ? 1u : 0u) << i;
      sums |= (is[call.in[i]] == Is::sum ? 1u : 0u) << i;
    }
    for (std::size_t o = 0; o < call.out.size(); ++o) {
      if (!carry && !sums && !growing[call.out[o]]) continue;
      const ops::Rows rows = call.op.type().rows(
          call.op.attributes(), {specs, carry, sums, examples}, static_cast<int>(o));
      if (rows == ops::Rows::mixed) {
        answer.reason = fmt::format("rows depend on each other in {}", place(call));
        return answer;
      }
      is[call.out[o]] = rows == ops::Rows::apart ? Is::carrying : Is::sum;
    }
  }
  // What happens once for the whole batch may read sums only as the whole: those that go on.
  std::vector<bool> whole(t.values.size(), false);
  for (const trace::Id id : t.carry)
    if (id != trace::kNone) whole[id] = true;
  const auto usable = [&](trace::Id id) { return is[id] == Is::same || whole[id]; };
  for (const Call& call : t.calls) {
    if (!call.finish) continue;
    for (const trace::Id id : call.in)
      if (!usable(id) && t.values[id].kind != Kind::made) {
        answer.reason = fmt::format("{} reads rows after the optimizer's step", place(call));
        return answer;
      }
  }
  for (const trace::Id id : t.results) {
    const bool rows = is[id] == Is::carrying;
    if (!rows && !usable(id)) {
      answer.reason = "a result is a sum over the rows that no Loss adds up";
      return answer;
    }
    answer.result_carries.push_back(rows);
  }
  answer.possible = true;

  // One chain: the call that gives the sum goes on from what was carried, with nothing between.
  answer.same_bits = true;
  for (std::size_t k = 0; k < t.carry.size(); ++k) {
    const trace::Id id = t.carry[k];
    if (id == trace::kNone || !is_float(t.values[id].spec.dtype)) continue;
    if (t.values[id].spec.rank() == 0 && k + 2 >= t.carry.size()) continue;  // the loss, to report
    const trace::Value& v = t.values[id];
    bool chain = false;
    if (v.call != trace::kNone && !is_half(v.spec.dtype)) {  // 16 bits are rounded between parts
      const Call& call = t.calls[v.call];
      std::uint32_t carry = 0;
      for (std::size_t i = 0; i < call.in.size() && i < 32; ++i)
        carry |= (is[call.in[i]] == Is::carrying ? 1u : 0u) << i;
      const std::uint32_t over = call.op.type().overwrites(call.op.attributes(), v.index);
      for (std::size_t i = 0; i < call.in.size() && i < 32; ++i) {
        const trace::Value& in = t.values[call.in[i]];
        chain |= carry && (over >> i & 1) && in.kind == Kind::carried &&
                 in.index == static_cast<trace::Id>(k);
      }
    }
    if (!chain) {
      answer.same_bits = false;
      answer.reason = fmt::format("sum {} over the rows is not one chain ({})", k,
                                  v.call == trace::kNone ? "carried" : place(t.calls[v.call]));
      break;
    }
  }
  return answer;
}

}  // namespace ebb::plan
