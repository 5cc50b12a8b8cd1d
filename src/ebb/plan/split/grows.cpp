#include "ebb/plan/split/grows.hpp"

#include <algorithm>
#include <cstring>

#include "ebb/ops/apply.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb::plan {

using trace::Call;
using trace::Kind;
using trace::Trace;

namespace {

template <class Op>
bool told_to(const ops::AnyOp& a, std::int64_t a_examples, const ops::AnyOp& b,
             std::int64_t b_examples) {
  if (&a.type() != &ops::op_type<Op>()) return false;
  Op x = *static_cast<const Op*>(a.attributes());
  const Op& y = *static_cast<const Op*>(b.attributes());
  if (x.to.rank() == 0 || x.to.rank() != y.to.rank() ||
      x.to[0] * b_examples != y.to[0] * a_examples)
    return false;
  x.to = x.to.with_axis(0, y.to[0]);
  return x == y;
}

}  // namespace

bool told_batch(const ops::AnyOp& a, std::int64_t a_examples, const ops::AnyOp& b,
                std::int64_t b_examples) {
  return told_to<ops::Reshape>(a, a_examples, b, b_examples) ||
         told_to<ops::BroadcastTo>(a, a_examples, b, b_examples) ||
         told_to<ops::SumTo>(a, a_examples, b, b_examples);
}

bool grows(const Tensor& a, std::int64_t a_examples, const Tensor& b, std::int64_t b_examples) {
  const Spec &x = a.spec(), &y = b.spec();
  if (x.dtype != y.dtype || x.rank() != y.rank() || x.rank() == 0 || a_examples == b_examples)
    return false;
  for (int i = 1; i < x.rank(); ++i)
    if (x.shape[i] != y.shape[i]) return false;
  if (x.shape[0] == 0 || x.shape[0] % a_examples != 0 ||
      x.shape[0] / a_examples * b_examples != y.shape[0])
    return false;
  const std::size_t row = x.bytes() / static_cast<std::size_t>(a_examples);
  for (std::int64_t r = 1; r < a_examples; ++r)
    if (std::memcmp(a.raw(), a.raw() + static_cast<std::size_t>(r) * row, row) != 0) return false;
  return std::memcmp(a.raw(), b.raw(), row) == 0;
}

bool counts(const Tensor& a, std::int64_t a_examples, const Tensor& b, std::int64_t b_examples) {
  if (a.rank() != 0) return false;
  const double x = a.item(), y = b.item();
  return x != y && x * static_cast<double>(b_examples) == y * static_cast<double>(a_examples);
}

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

bool grows(const Spec& a, std::int64_t a_examples, const Spec& b, std::int64_t b_examples) {
  return a.rank() > 0 && b.rank() == a.rank() && a.shape[0] != b.shape[0] &&
         a.shape[0] % a_examples == 0 && a.shape[0] / a_examples * b_examples == b.shape[0];
}

}  // namespace ebb::plan
