#include "ebb/ops/attention.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/kernels/attention.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/attention_second.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb {

using namespace ops;

namespace {

using Attributes = AttentionAttributes;

[[noreturn]] void refuse(const char* op, const std::string& why) {
  throw Error(fmt::format("{}: {}", op, why));
}

void check_attributes(const char* op, const Attributes& o) {
  if (o.heads < 1 || o.kv_heads < 1 || o.heads % o.kv_heads != 0)
    refuse(op, fmt::format("{} heads do not share {} key heads evenly", o.heads, o.kv_heads));
  if (!(o.dropout >= 0 && o.dropout < 1))
    refuse(op, fmt::format("the dropout is {}, expected at least 0 and below 1", o.dropout));
  if (!(o.scale >= 0) || std::isinf(o.scale))
    refuse(op, fmt::format("the scale is {}, expected a number above 0", o.scale));
  if (o.window < 0) refuse(op, fmt::format("the window is {}, expected 0 or more", o.window));
}

// The size of a head of x, (batch, positions, heads * size) or (batch, positions, heads, size).
std::int64_t head_size(const char* op, const char* what, const Spec& x, std::int64_t heads) {
  const bool apart = x.rank() == 4 && x.shape[2] == heads;
  const bool joined = x.rank() == 3 && x.shape[2] % heads == 0;
  if (!apart && !joined)
    refuse(op, fmt::format("{} is {}, expected (batch, positions, {} heads * size)", what,
                           to_string(x), heads));
  const std::int64_t size = apart ? x.shape[3] : x.shape[2] / heads;
  if (size == 0) refuse(op, fmt::format("{} is {}: its heads are empty", what, to_string(x)));
  return size;
}

// `in` are the first inputs and, after `between` others, mask and key.
kernels::Attention described(const char* op, const Attributes& o, Specs in, std::size_t between) {
  check_attributes(op, o);
  const std::size_t expected = o.parts() + between + o.extras();
  if (in.size() != expected)
    refuse(op, fmt::format("{} inputs were given, expected {}", in.size(), expected));
  const Spec& q = in[0];
  check_float(op, q);
  kernels::Attention a;
  std::int64_t size = 0;
  if (o.fused) {
    if (q.rank() != 3) refuse(op, fmt::format("qkv is {}, expected three axes", to_string(q)));
    size = head_size(op, "qkv", q, o.heads + 2 * o.kv_heads);
    a.keys = static_cast<std::size_t>(q.shape[1]);
    a.q_row = a.k_row = a.v_row = static_cast<std::size_t>(q.shape[2]);
  } else {
    const Spec &k = in[1], &v = in[2];
    size = head_size(op, "q", q, o.heads);
    check_same_type(op, q, k);
    check_same_type(op, q, v);
    if (head_size(op, "k", k, o.kv_heads) != size || k.shape[0] != q.shape[0])
      refuse(op, fmt::format("q {} and k {} differ in batch or size of a head", to_string(q),
                             to_string(k)));
    if (k != v) refuse(op, fmt::format("k {} and v {} differ", to_string(k), to_string(v)));
    a.keys = static_cast<std::size_t>(k.shape[1]);
    a.q_row = static_cast<std::size_t>(o.heads * size);
    a.k_row = a.v_row = static_cast<std::size_t>(o.kv_heads * size);
  }
  a.batch = static_cast<std::size_t>(q.shape[0]);
  a.queries = static_cast<std::size_t>(q.shape[1]);
  a.heads = static_cast<std::size_t>(o.heads);
  a.kv_heads = static_cast<std::size_t>(o.kv_heads);
  a.size = static_cast<std::size_t>(size);
  a.scale = o.scale > 0 ? o.scale : 1 / std::sqrt(static_cast<double>(size));
  a.causal = o.causal || o.window > 0;
  a.window = static_cast<std::size_t>(o.window);
  a.offset = o.offset;
  a.dropout = static_cast<double>(o.dropout);
  if (o.masked) {
    const Spec& mask = in[o.parts() + between];
    const std::int64_t batch = q.shape[0], keys = static_cast<std::int64_t>(a.keys);
    a.mask_by_query = mask.rank() == 3;
    if (mask != Spec{{batch, keys}, DType::boolean} &&
        mask != Spec{{batch, q.shape[1], keys}, DType::boolean})
      refuse(op, fmt::format("the mask is {}, expected bool({}, {}) or bool({}, {}, {})",
                             to_string(mask), batch, keys, batch, q.shape[1], keys));
  }
  if (o.dropout > 0 && in.back() != Spec{{random::kKeySize}, DType::i64})
    refuse(op, fmt::format("the key is {}, expected i64({}): seed, step, first row, rows",
                           to_string(in.back()), random::kKeySize));
  return a;
}

Spec out_spec(const kernels::Attention& a, const Attributes& o, const Spec& q) {
  if (!o.fused) return q;
  return {{q.shape[0], q.shape[1], static_cast<std::int64_t>(a.heads * a.size)}, q.dtype};
}
Spec levels_spec(const kernels::Attention& a, const Spec& q) {
  return {{q.shape[0], static_cast<std::int64_t>(a.heads), q.shape[1], 2}, q.dtype};
}

// The same with what only a run knows: the mask's bytes and the draws.
kernels::Attention given(const char* op, const Attributes& o, Ins in, std::size_t between) {
  Spec specs[8];  // 3 parts, 3 between, mask and key
  for (std::size_t i = 0; i < in.size(); ++i) specs[i] = *in[i].spec;
  kernels::Attention a = described(op, o, {specs, in.size()}, between);
  if (o.masked) a.mask = in[o.parts() + between].as<bool>();
  if (o.dropout > 0) {
    const std::int64_t* key = in.back().as<std::int64_t>();
    const auto weights = static_cast<std::int64_t>(a.batch * a.heads * a.queries * a.keys);
    a.draws = {{static_cast<std::uint64_t>(key[0]), static_cast<std::uint64_t>(key[1])},
               o.stream,
               random::first_position(key, weights, static_cast<std::int64_t>(a.batch))};
  }
  return a;
}

// q, k and v, or the places of their gradients, wherever they lie.
template <class T, class Places>
std::array<T*, 3> parts_of(const kernels::Attention& a, bool fused, const Places& in) {
  T* first = static_cast<T*>(in[0].data);
  if (fused) return {first, first + a.heads * a.size, first + (a.heads + a.kv_heads) * a.size};
  return {first, static_cast<T*>(in[1].data), static_cast<T*>(in[2].data)};
}

double pairs_seen(const kernels::Attention& a) {
  const double all = static_cast<double>(a.batch * a.heads) * static_cast<double>(a.queries) *
                     static_cast<double>(a.keys);
  if (!a.causal) return all;
  const double window = static_cast<double>(a.window), keys = static_cast<double>(a.keys);
  return a.window > 0 && window < keys / 2 ? all * window / keys : all / 2;
}

// Short heads are filled up to a vector, and each head of each row has its own beginning and end, which is what
// short sequences pay for: measured as so many multiply-adds for each product.
constexpr double kHead = 6000, kVector = 16;

Cost cost_of(const kernels::Attention& a, Specs in, double products) {
  const double size = std::max(static_cast<double>(a.size), kVector);
  const double heads = static_cast<double>(a.batch * a.heads);
  Cost c{pairs_seen(a) * (2 * products * size + 15) + heads * 2 * products * kHead, 0,
         Work::attention};
  for (const Spec& x : in) c.bytes += static_cast<double>(x.bytes());
  return c;
}

template <class F>
std::size_t scratch_of(DType dtype, F&& bytes) {
  std::size_t result = 0;
  with_float(dtype, [&](auto zero) { result = bytes(zero); });
  return result;
}

void check_backward(const char* op, const Attributes& o, const kernels::Attention& a, Specs in) {
  const std::size_t n = o.parts();
  const Spec out = out_spec(a, o, in[0]), levels = levels_spec(a, in[0]);
  if (in[n] != out || in[n + 1] != levels || in[n + 2] != out)
    refuse(op, fmt::format("out, levels and dout are {}, {} and {}, expected {}, {} and {}",
                           to_string(in[n]), to_string(in[n + 1]), to_string(in[n + 2]),
                           to_string(out), to_string(levels), to_string(out)));
}

kernels::Attention described_backward(const char* op, const Attributes& o, Specs in) {
  const kernels::Attention a = described(op, o, in, 3);
  check_backward(op, o, a, in);
  return a;
}

void run_backward(const char* op, const Attributes& o, Ins in, Outs grads, Scratch scratch) {
  const kernels::Attention a = given(op, o, in, 3);
  with_float(in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::size_t n = o.parts();
    const auto [q, k, v] = parts_of<const T>(a, o.fused, in);
    const auto [dq, dk, dv] = parts_of<T>(a, o.fused, grads);
    kernels::attention_backward<T>(a, q, k, v, in[n].as<T>(), in[n + 1].as<T>(), in[n + 2].as<T>(),
                                   dq, dk, dv, scratch);
  });
}

std::size_t backward_scratch(const kernels::Attention& a, DType dtype) {
  return scratch_of(
      dtype, [&](auto zero) { return kernels::attention_backward_scratch<decltype(zero)>(a); });
}

// All but out and levels.
Needs backward_needs(const Attributes& o) {
  const std::size_t n = o.parts();
  const std::uint32_t all = (1u << (n + 3 + o.extras())) - 1;
  return {all & ~(0b11u << n), 0};
}

std::vector<Spec> in_specs(const Back& b) {
  std::vector<Spec> specs;
  for (int i = 0; i < b.inputs(); ++i) specs.push_back(b.in_spec(i));
  return specs;
}

}  // namespace

BatchRule AttentionAttributes::rule_of(const BatchInputs& batch) const {
  std::uint32_t all = (1u << batch.in.size()) - 1;
  const std::uint32_t key = dropout > 0 ? 1u << (batch.in.size() - 1) : 0;
  return (batch.carry | key) == all && batch.sums == 0 ? BatchRule::per_example : BatchRule::mixed;
}

// ---- forward ----

std::array<Spec, 2> Attention::shape(Specs in) const {
  const kernels::Attention a = described(name, *this, in, 0);
  return {out_spec(a, *this, in[0]), levels_spec(a, in[0])};
}
Cost Attention::cost(Specs in) const { return cost_of(described(name, *this, in, 0), in, 2); }
std::size_t Attention::scratch(Specs in) const {
  const kernels::Attention a = described(name, *this, in, 0);
  return scratch_of(in[0].dtype,
                    [&](auto zero) { return kernels::attention_scratch<decltype(zero)>(a); });
}

void Attention::run(Ins in, Out out, Out levels, Scratch scratch) const {
  const kernels::Attention a = given(name, *this, in, 0);
  with_float(in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto [q, k, v] = parts_of<const T>(a, fused, in);
    kernels::attention<T>(a, q, k, v, out.as<T>(), levels.as<T>(), scratch);
  });
}

Needs Attention::needs(int) const { return {(1u << (parts() + extras())) - 1, 0b11}; }

void Attention::grad(Back& b) const {
  const Tensor* in[8];
  std::size_t count = 0;
  for (std::size_t i = 0; i < parts(); ++i) in[count++] = &b.in(static_cast<int>(i));
  in[count++] = &b.out(0);
  in[count++] = &b.out(1);
  in[count++] = &b.d(0);
  for (std::size_t i = 0; i < extras(); ++i) in[count++] = &b.in(static_cast<int>(parts() + i));
  const std::span<const Tensor* const> inputs(in, count);
  if (fused) {
    b.give(0, apply_all(AttentionFusedBackward{*this}, inputs));
    return;
  }
  const auto d = apply_all(AttentionBackward{*this}, inputs);
  for (int i = 0; i < 3; ++i)
    if (b.wants(i)) b.give(i, d[static_cast<std::size_t>(i)]);
}

// ---- back ----

std::array<Spec, 3> AttentionBackward::shape(Specs in) const {
  described_backward(name, *this, in);
  return {in[0], in[1], in[2]};
}
Cost AttentionBackward::cost(Specs in) const {
  return cost_of(described_backward(name, *this, in), in, 5);
}
std::size_t AttentionBackward::scratch(Specs in) const {
  return backward_scratch(described_backward(name, *this, in), in[0].dtype);
}
void AttentionBackward::run(Ins in, Out dq, Out dk, Out dv, Scratch scratch) const {
  const Out grads[] = {dq, dk, dv};
  run_backward(name, *this, in, grads, scratch);
}
Needs AttentionBackward::needs(int) const { return backward_needs(*this); }

void AttentionBackward::grad(Back& b) const {
  const AttentionSecond second(*this, described(name, *this, in_specs(b), 3));
  const auto r = second.walk(b, b.in(0), b.in(1), b.in(2), b.d(0), b.d(1), b.d(2));
  const Shape &q = b.in_spec(0).shape, &k = b.in_spec(1).shape;
  if (b.wants(0)) b.give(0, second.unstacked(r.q, q));
  if (b.wants(1)) b.give(1, second.by_position(r.k, k));
  if (b.wants(2)) b.give(2, second.by_position(r.v, k));
  if (b.wants(5)) b.give(5, second.unstacked(r.dout, q));
}

Spec AttentionFusedBackward::shape(Specs in) const {
  described_backward(name, *this, in);
  return in[0];
}
Cost AttentionFusedBackward::cost(Specs in) const {
  return cost_of(described_backward(name, *this, in), in, 5);
}
std::size_t AttentionFusedBackward::scratch(Specs in) const {
  return backward_scratch(described_backward(name, *this, in), in[0].dtype);
}
void AttentionFusedBackward::run(Ins in, Out dqkv, Scratch scratch) const {
  run_backward(name, *this, in, {&dqkv, 1}, scratch);
}
Needs AttentionFusedBackward::needs(int) const { return backward_needs(*this); }

void AttentionFusedBackward::grad(Back& b) const {
  const AttentionSecond second(*this, described(name, *this, in_specs(b), 3));
  const std::int64_t q_end = second.heads * second.size,
                     k_end = q_end + second.kv_heads * second.size;
  const auto cut = [&](const Tensor& x) {
    return std::array{slice(x, 2, 0, q_end), slice(x, 2, q_end, k_end), slice(x, 2, k_end)};
  };
  const auto [q, k, v] = cut(b.in(0));
  const auto [a_dq, a_dk, a_dv] = cut(b.d(0));
  const auto r = second.walk(b, q, k, v, a_dq, a_dk, a_dv);
  if (b.wants(0))
    b.give(0, concat({second.unstacked(r.q, q.shape()), second.by_position(r.k, k.shape()),
                      second.by_position(r.v, v.shape())},
                     2));
  if (b.wants(3)) b.give(3, second.unstacked(r.dout, q.shape()));
}

// ---- what users call ----

namespace {

Attributes attributes_of(const AttentionOptions& options, bool fused, const Tensor& mask) {
  Attributes o;
  o.heads = options.heads;
  o.kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  o.window = options.window;
  o.offset = options.offset;
  o.scale = options.scale;
  o.dropout = static_cast<float>(options.dropout);
  o.causal = options.causal;
  o.fused = fused;
  o.masked = static_cast<bool>(mask);
  if (options.dropout > 0) o.stream = random::next_stream();
  return o;
}

Tensor attention_of(const Attributes& o, std::span<const Tensor* const> parts, const Tensor& mask) {
  const Tensor* in[5];
  std::size_t count = 0;
  for (const Tensor* x : parts) in[count++] = x;
  if (mask) in[count++] = &mask;
  const Tensor key = o.dropout > 0 ? random::key() : Tensor();
  if (key) in[count++] = &key;
  return apply_all(Attention{o}, std::span<const Tensor* const>(in, count))[0];
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                 const Tensor& mask) {
  if (q.shape().rank() == 4 && k.shape().rank() == 4) {
    options.heads = q.shape()[2];
    options.kv_heads = k.shape()[2];
  }
  const Tensor* parts[] = {&q, &k, &v};
  return attention_of(attributes_of(options, false, mask), parts, mask);
}

Tensor attention(const Tensor& qkv, AttentionOptions options, const Tensor& mask) {
  const Tensor* parts[] = {&qkv};
  return attention_of(attributes_of(options, true, mask), parts, mask);
}

}  // namespace ebb
