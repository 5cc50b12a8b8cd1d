#include "tests/ops/parts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "ebb/base/memory/memory.hpp"
#include "ebb/ops/conv.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/norm.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/tensor/with_type.hpp"

namespace ebb::table {
namespace {

using namespace ops;
using Tensors = std::vector<Tensor>;

std::vector<Spec> specs_of(const Tensors& in) {
  std::vector<Spec> specs;
  for (const Tensor& x : in) specs.push_back(x.spec());
  return specs;
}

Tensor copy(const Tensor& x) { return Tensor::from_bytes({x.raw(), x.spec().bytes()}, x.spec()); }

struct Over {  // which output is written over which input
  int output = -1;
  std::size_t input = 0;
};

Tensors run(const AnyOp& op, const Tensors& in, Over over = {}) {
  const OpType& type = op.type();
  const std::vector<Spec> specs = specs_of(in);
  Spec made[kMaxOutputs];
  type.shape(op.attributes(), specs, made);
  Tensors out;
  std::vector<In> ins;
  std::vector<Out> outs;
  for (int o = 0; o < type.outputs; ++o) {
    out.push_back(o == over.output ? copy(in[over.input]) : Tensor::uninitialized(made[o], "part"));
    if (o != over.output) std::memset(out.back().bytes(), 0xA5, made[o].bytes());
  }
  for (int o = 0; o < type.outputs; ++o) {
    Tensor& y = out[static_cast<std::size_t>(o)];
    outs.push_back({&y.spec(), y.bytes()});
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool shared = over.output >= 0 && i == over.input;
    ins.push_back(
        {&in[i].spec(), shared ? outs[static_cast<std::size_t>(over.output)].data : in[i].raw()});
  }
  const std::size_t bytes = type.scratch(op.attributes(), specs);
  memory::Buffer scratch(bytes, "part");
  if (bytes) std::memset(scratch.data(), 0xA5, bytes);
  type.run(op.attributes(), ins, outs, {scratch.data(), bytes});
  return out;
}

// ---- what a part's call differs in ----

template <class Op, class F>
bool change(const AnyOp& from, AnyOp& to, F&& f) {
  if (std::string_view(from.type().name) != Op::name) return false;
  Op op = *static_cast<const Op*>(from.attributes());
  f(op);
  to = AnyOp(from.type(), &op);
  return true;
}

// The op for `taken` of the examples: some have the shape of the result, batch and all, in them.
AnyOp for_part(const AnyOp& op, BatchRule rule, std::int64_t taken, std::int64_t examples) {
  if (rule != BatchRule::per_example) return op;
  const AnyOp part = op.type().for_examples(op.attributes(), examples, taken);
  return part ? part : op;
}

// The same sum going on from one that is given, after the other inputs.
bool accumulating(const AnyOp& op, AnyOp& on) {
  const auto set = [](auto& o) { o.accumulate = true; };
  const auto both = [](LayerNormBackward& o) { o.dweight_so_far = o.dbias_so_far = true; };
  return change<Matmul>(op, on, set) || change<SumTo>(op, on, set) ||
         change<Conv2dWeightGrad>(op, on, set) || change<ScatterAdd>(op, on, set) ||
         change<PutAlongAdd>(op, on, set) || change<Unslice>(op, on, set) ||
         change<RmsNormBackward>(op, on, set) || change<LayerNormBackward>(op, on, both);
}

bool accumulates(const AnyOp& op) {
  AnyOp on;
  bool any = false;
  for (int o = 0; o < op.type().outputs; ++o) any |= op.type().overwrites(op.attributes(), o) != 0;
  return any && accumulating(op, on);
}

// Ops that draw take the key (ops/random.hpp) last.
bool draws(const AnyOp& op, const Tensors& in) {
  const std::string_view name = op.type().name;
  return (name == "dropout" || name.starts_with("attention")) &&
         in.back().spec() == Spec{{random::kKeySize}, DType::i64};
}

// Inputs of examples [begin, end) of all. The key of an op that draws says which they are.
Tensors part_of(const AnyOp& op, const Tensors& in, std::uint32_t carry, std::int64_t examples,
                std::int64_t begin, std::int64_t end) {
  Tensors part = in;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!(carry >> i & 1)) continue;
    const std::int64_t each = in[i].shape()[0] / examples;
    part[i] = copy(in[i].rows(begin * each, end * each));
  }
  if (draws(op, in)) {
    part.back() = copy(in.back());
    auto* key = reinterpret_cast<std::int64_t*>(part.back().bytes());
    key[2] += begin;
    key[3] = end - begin;
  }
  return part;
}

// ---- comparing ----

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() &&
         (a.size() == 0 || std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0);
}

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> all(static_cast<std::size_t>(t.size()));
  with_type(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = reinterpret_cast<const T*>(t.raw());
    for (double& v : all) v = number_of(*from++);
  });
  return all;
}

Tensor of_numbers(const std::vector<double>& all, const Spec& spec) {
  Tensor t = Tensor::uninitialized(spec, "part");
  with_type(spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = reinterpret_cast<T*>(t.bytes());
    for (const double v : all) *to++ = element_of<T>(v);
  });
  return t;
}

// whole against a + b, up to rounding.
bool adds_up(const Tensor& whole, const Tensor& a, const Tensor& b, bool half) {
  if (whole.spec() != a.spec() || whole.spec() != b.spec()) return false;
  const auto w = numbers(whole), x = numbers(a), y = numbers(b);
  const double rounding = half ? 0x1p-6 : 1e-5;
  double most = 0;
  for (std::size_t i = 0; i < w.size(); ++i)
    for (const double v : {w[i], x[i], y[i]})
      if (std::isfinite(v)) most = std::max(most, std::abs(v));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double sum = x[i] + y[i];
    if (!(std::abs(w[i] - sum) <= rounding * most) && std::isfinite(w[i]) && std::isfinite(sum))
      return false;
  }
  return true;
}

// A part of a sum, and the rest of it.
std::pair<Tensor, Tensor> cut(const Tensor& sum) {
  std::vector<double> a = numbers(sum), b = a;
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] *= i % 3 == 0 ? 0.25 : 0.75;
    if (!is_float(sum.dtype())) a[i] = std::floor(a[i]);
    b[i] -= a[i];
  }
  return {of_numbers(a, sum.spec()), of_numbers(b, sum.spec())};
}

class PartsCheck {
 public:
  explicit PartsCheck(const OpCall& call)
      : op_(call.op), in_(call.in), specs_(specs_of(in_)), whole_(run(op_, in_)) {
    for (const Tensor& x : in_) half_ |= is_half(x.dtype());
    for (const Tensor& y : whole_) half_ |= is_half(y.dtype());
  }

  PartsReport run_all() {
    in_place();
    from_zeros();
    each_way();
    return std::move(report_);
  }

 private:
  void fail(const std::string& text) {
    report_.failures.push_back(fmt::format("{}{}: {}", op_.type().name, inputs(), text));
  }
  std::string inputs() const {
    std::string text;
    for (const Spec& s : specs_) text += " " + to_string(s);
    return text;
  }
  std::uint32_t overwrites(std::size_t o) const {
    return op_.type().overwrites(op_.attributes(), static_cast<int>(o));
  }

  void in_place() {
    for (std::size_t o = 0; o < whole_.size(); ++o)
      for (std::size_t i = 0; i < in_.size() && i < 32; ++i) {
        if (!(overwrites(o) >> i & 1) || specs_[i] != whole_[o].spec()) continue;
        ++report_.in_place;
        const Tensors over = run(op_, in_, {static_cast<int>(o), i});
        for (std::size_t p = 0; p < over.size(); ++p)
          if (!same(over[p], whole_[p]))
            fail(fmt::format("output {} differs where {} is written over input {}", p, o, i));
      }
  }

  void from_zeros() {
    AnyOp on;
    if (accumulates(op_) || !accumulating(op_, on)) return;
    Tensors in = in_;
    for (std::size_t o = sums_from(); o < whole_.size(); ++o)
      in.push_back(Tensor::zeros(whole_[o].shape(), whole_[o].dtype()));
    const Tensors out = run(on, in);
    for (std::size_t o = 0; o < out.size(); ++o)
      if (!same(out[o], whole_[o])) fail(fmt::format("output {} differs starting from zeros", o));
  }

  // Of several outputs, those after the first are sums.
  std::size_t sums_from() const { return whole_.size() > 1 ? 1 : 0; }

  // Every input is the same for all, carries the batch, or is a sum: all ways for few inputs, all
  // of one kind for many.
  void each_way() {
    const std::size_t n = in_.size();
    constexpr std::size_t kFew = 5;
    std::size_t ways = 1;
    for (std::size_t i = 0; i < std::min(n, kFew); ++i) ways *= 3;
    for (std::size_t way = 1; way < ways; ++way) {
      std::uint32_t carry = 0, sums = 0;
      std::size_t rest = way;
      for (std::size_t i = 0; i < std::min(n, kFew); ++i, rest /= 3) {
        carry |= (rest % 3 == 1 ? 1u : 0u) << i;
        sums |= (rest % 3 == 2 ? 1u : 0u) << i;
      }
      const std::uint32_t many = n < 32 ? (1u << n) - 1 : 0;
      if (n > kFew && way != 1 && way != 2) continue;
      if (n > kFew) carry = way == 1 ? many : 0, sums = way == 2 ? many : 0;
      if (carry) {
        std::int64_t rows = 0;
        bool all = true;
        for (std::size_t i = 0; i < n; ++i)
          if (carry >> i & 1) {
            all &= specs_[i].rank() > 0 && specs_[i].shape[0] > 0;
            if (all) rows = std::gcd(rows, specs_[i].shape[0]);
          }
        if (!all || rows < 2) continue;
        batch(carry, sums, rows);
        for (const std::int64_t of : {2, 3})
          if (rows > of && rows % of == 0) batch(carry, sums, of);
      } else {
        batch(0, sums, 2);
      }
    }
  }

  void batch(std::uint32_t carry, std::uint32_t sums, std::int64_t examples) {
    for (std::size_t o = 0; o < whole_.size(); ++o) {
      const BatchRule rule = op_.type().batch_rule(
          op_.attributes(), {specs_, carry, sums, examples}, static_cast<int>(o));
      doing_ =
          fmt::format("output {} is said to be {} (carry {:b}, sums {:b}, {} examples)", o,
                      rule == BatchRule::per_example ? "apart" : "summed", carry, sums, examples);
      if (rule == BatchRule::per_example) {
        ++report_.apart;
        apart(o, carry, examples);
      }
      if (rule == BatchRule::summed) {
        ++report_.summed;
        carry ? summed(o, carry, sums, examples) : linear(o, sums);
      }
    }
  }

  std::vector<std::int64_t> cuts(std::int64_t examples) const {
    if (examples == 2) return {1};
    return {1, examples - 1};
  }

  void apart(std::size_t o, std::uint32_t carry, std::int64_t examples) {
    const Tensor& whole = whole_[o];
    if (whole.rank() == 0 || whole.shape()[0] % examples != 0)
      return fail(doing_ + ", but does not carry the batch");
    const std::int64_t each = whole.shape()[0] / examples;
    for (const std::int64_t at : cuts(examples))
      for (const auto& [begin, end] : {std::pair{std::int64_t{0}, at}, std::pair{at, examples}}) {
        const AnyOp op = for_part(op_, BatchRule::per_example, end - begin, examples);
        const Tensors part = run(op, part_of(op_, in_, carry, examples, begin, end));
        if (!same(part[o], whole.rows(begin * each, end * each)))
          fail(fmt::format("{}, but examples {} to {} alone differ", doing_, begin, end));
      }
  }

  void summed(std::size_t o, std::uint32_t carry, std::uint32_t sums, std::int64_t examples) {
    // The op that goes on, and where what it goes on from stands.
    AnyOp on = op_;
    std::uint32_t over = overwrites(o) & sums;
    const bool starts = !accumulates(op_) && accumulating(op_, on);
    if (starts) over = on.type().overwrites(on.attributes(), static_cast<int>(o));
    for (const std::int64_t at : cuts(examples)) {
      const Tensors first = run(op_, part_of(op_, in_, carry, examples, 0, at));
      Tensors rest = part_of(op_, in_, carry, examples, at, examples);
      if (!over) {
        const Tensors last = run(op_, rest);
        if (!adds_up(whole_[o], first[o], last[o], half_))
          fail(doing_ + ", but its parts do not add up");
        continue;
      }
      for (std::size_t p = sums_from(); starts && p < first.size(); ++p) rest.push_back(first[p]);
      for (std::size_t i = 0; i < rest.size(); ++i)
        if (over >> i & 1) rest[i] = first[o];
      const Tensor all = run(on, rest)[o];
      const Tensor none = Tensor::zeros(all.shape(), all.dtype());
      // A sum in 16 bits is rounded between parts.
      const bool holds =
          is_half(all.dtype()) ? adds_up(whole_[o], all, none, true) : same(all, whole_[o]);
      if (!holds) fail(fmt::format("{}, but differs going on after {} of them", doing_, at));
    }
  }

  void linear(std::size_t o, std::uint32_t sums) {
    Tensors a = in_, b = in_;
    for (std::size_t i = 0; i < in_.size() && i < 32; ++i)
      if (sums >> i & 1) std::tie(a[i], b[i]) = cut(in_[i]);
    if (!adds_up(whole_[o], run(op_, a)[o], run(op_, b)[o], half_))
      fail(doing_ + ", but is not the sum of what it makes of two terms");
  }

  const AnyOp& op_;
  const Tensors& in_;
  std::vector<Spec> specs_;
  Tensors whole_;
  bool half_ = false;  // 16 bits are met somewhere
  std::string doing_;
  PartsReport report_;
};

}  // namespace

PartsReport check_parts(const OpCall& call) { return PartsCheck(call).run_all(); }

}  // namespace ebb::table
