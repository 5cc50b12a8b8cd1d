// The gradient of attention's gradient, in plain matrices. For attention.cpp.
//
// Rows are the queries of a group of heads: q (batch, kv_heads, group * T, d), k and v (batch,
// kv_heads, S, d), weights (…, group * T, S). With M the factors of dropout, s the scale and R(x) =
// x - rowsum(x * P), the way back is
//   P = softmax(s q kᵀ);  E = dout vᵀ * M;  G = P * (E - rowsum(P * E));
//   dq = s G k;  dk = s Gᵀ q;  dv = (P * M)ᵀ dout
#pragma once

#include "ebb/kernels/attention.hpp"
#include "ebb/ops/attention.hpp"

namespace ebb::ops {

struct AttentionSecond {
  const AttentionAttributes& o;
  kernels::Attention a;
  std::int64_t batch, queries, keys, heads, kv_heads, group, size;

  AttentionSecond(const AttentionAttributes& attributes, const kernels::Attention& described);

  struct Result {
    Tensor q, k, v, dout;
  };
  // Gradients of <a_dq, dq> + <a_dk, dk> + <a_dv, dv>, of the call that `b` walks back, as matrices.
  Result walk(Back& b, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a_dq,
              const Tensor& a_dk, const Tensor& a_dv) const;

  // Matrices to tensors again.
  Tensor unstacked(const Tensor& x, const Shape& to) const;    // of q, out
  Tensor by_position(const Tensor& x, const Shape& to) const;  // of k, v

 private:
  Tensor stacked(const Tensor& x) const;  // of q, out
  Tensor by_head(const Tensor& x) const;  // of k, v
  Shape matrix() const { return Shape{batch, kv_heads, group * queries, keys}; }
  Tensor seen(const Tensor& mask, DType dtype) const;  // 1 where a query sees a key, else 0
  Tensor factors(const Tensor& key, DType dtype) const;
  Result of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dout,
            const Tensor& visible, const Tensor& m, const Tensor& a_dq, const Tensor& a_dk,
            const Tensor& a_dv) const;
};

}  // namespace ebb::ops
