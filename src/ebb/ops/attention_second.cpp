#include "ebb/ops/attention_second.hpp"

#include <vector>

#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/softmax.hpp"

namespace ebb::ops {

AttentionSecond::AttentionSecond(const AttentionAttributes& attributes,
                                 const kernels::Attention& described)
    : o(attributes), a(described) {
  const auto whole = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  batch = whole(a.batch), queries = whole(a.queries), keys = whole(a.keys);
  heads = whole(a.heads), kv_heads = whole(a.kv_heads), size = whole(a.size);
  group = heads / kv_heads;
}

Tensor AttentionSecond::stacked(const Tensor& x) const {
  const Tensor apart = reshape(x, Shape{batch, queries, kv_heads, group, size});
  return reshape(permute(apart, {0, 2, 3, 1, 4}), Shape{batch, kv_heads, group * queries, size});
}

Tensor AttentionSecond::unstacked(const Tensor& x, const Shape& to) const {
  return reshape(permute(reshape(x, Shape{batch, kv_heads, group, queries, size}), {0, 3, 1, 2, 4}),
                 to);
}

Tensor AttentionSecond::by_head(const Tensor& x) const {
  return permute(reshape(x, Shape{batch, keys, kv_heads, size}), {0, 2, 1, 3});
}

Tensor AttentionSecond::by_position(const Tensor& x, const Shape& to) const {
  return reshape(permute(x, {0, 2, 1, 3}), to);
}

Tensor AttentionSecond::seen(const Tensor& mask, DType dtype) const {
  std::vector<float> by_place(a.queries * a.keys, 1);
  if (a.causal) {
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j) {
        const std::int64_t back = o.offset + i - j;
        if (back < 0 || (o.window > 0 && back >= o.window))
          by_place[static_cast<std::size_t>(i * keys + j)] = 0;
      }
  }
  Tensor all = cast(Tensor::from(std::span<const float>(by_place), Shape{queries, keys}), dtype);
  if (mask) {
    const std::int64_t rows = a.mask_by_query ? queries : 1;
    all = all * reshape(cast(mask, dtype), Shape{batch, 1, 1, rows, keys});
  }
  return reshape(broadcast_to(all, Shape{batch, kv_heads, group, queries, keys}), matrix());
}

Tensor AttentionSecond::factors(const Tensor& key, DType dtype) const {
  const Tensor ones = Tensor::ones(Shape{batch, heads, queries, keys}, dtype);
  return reshape(apply(Dropout{o.dropout, o.stream}, ones, key), matrix());
}

AttentionSecond::Result AttentionSecond::of(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const Tensor& dout, const Tensor& visible,
                                            const Tensor& m, const Tensor& a_dq, const Tensor& a_dk,
                                            const Tensor& a_dv) const {
  const MatmulOptions bt{.transpose_b = true}, at{.transpose_a = true};
  const double s = a.scale;
  const auto row = [](const Tensor& x) { return sum(x, {-1}, true); };
  const auto dropped = [&](const Tensor& x) { return m ? x * m : x; };
  // Scores that do not count lie far below the others; where none does, the product clears them.
  const Tensor p = softmax(matmul(q, k, bt) * s + (visible - 1.0) * 1e30) * visible;
  const Tensor e = dropped(matmul(dout, v, bt));
  const Tensor centered = e - row(p * e);
  const Tensor g = p * centered;
  const Tensor a_g = (matmul(a_dq, k, bt) + matmul(q, a_dk, bt)) * s;
  const Tensor mean = row(a_g * p);
  const Tensor a_e = dropped(p * (a_g - mean));
  const Tensor a_p = a_g * centered - e * mean + dropped(matmul(dout, a_dv, bt));
  const Tensor a_s = p * (a_p - row(a_p * p)) * s;
  return {matmul(a_s, k) + matmul(g, a_dk) * s, matmul(a_s, q, at) + matmul(g, a_dq, at) * s,
          matmul(a_e, dout, at), matmul(a_e, v) + matmul(dropped(p), a_dv)};
}

AttentionSecond::Result AttentionSecond::walk(Back& b, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const Tensor& a_dq,
                                              const Tensor& a_dk, const Tensor& a_dv) const {
  const int n = static_cast<int>(o.parts());
  const Tensor mask = o.masked ? b.in(n + 3) : Tensor();
  const Tensor m = o.dropout > 0 ? factors(b.in(b.inputs() - 1), q.dtype()) : Tensor();
  return of(stacked(q), by_head(k), by_head(v), stacked(b.in(n + 2)), seen(mask, q.dtype()), m,
            stacked(a_dq), by_head(a_dk), by_head(a_dv));
}

}  // namespace ebb::ops
