#include "ebb/ops/recurrent_gru_second.hpp"

#include "ebb/ops/binary.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/recurrent_second.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb::ops::recurrent {
namespace {

// The values of one step that the forward pass kept, (batch, hidden) each: reset, update, new, what
// the hidden units gave new, and h before. Where a row does not take part they are zero.
struct Step : Time {
  Tensor r, z, n, q, h_before;
  Tensor on;  // what a gradient of h is multiplied by on its way straight to the state before
  Step(const GruWayBack& way, const Taking& taking, std::int64_t step)
      : Time(way.along, way.h.dim(1), step) {
    const std::vector<Tensor> gates = split(at_time(way.gates, now), 3, 1);
    r = gates[0], z = gates[1], n = gates[2];
    q = at_time(way.hidden_n, now);
    on = taking ? z + taking.rest(now) : z;
    const Tensor first = way.state ? way.state : Tensor::zeros(q.shape(), q.dtype());
    if (before < 0) {
      h_before = first;
    } else {
      // In reverse, a row's first step follows on ones it takes no part in.
      h_before = taking.keep(at_time(way.h, before), before);
      if (taking) h_before = h_before + first * taking.rest(before);
    }
  }
};

}  // namespace

GruWalk walk_back(const GruWayBack& way) {
  const std::int64_t steps = way.h.dim(1), hidden = way.h.dim(2);
  const Taking taking(way.lengths, way.along, way.h.dtype());
  GruWalk walk;
  walk.dh.resize(index(steps)), walk.da.resize(index(steps)), walk.dq.resize(index(steps));
  Tensor dh = way.dlast ? way.dlast : Tensor::zeros(Shape{way.h.dim(0), hidden}, way.h.dtype());
  for (std::int64_t step = steps; step-- > 0;) {
    const Step s(way, taking, step);
    if (way.dh) dh = dh + taking.keep(at_time(way.dh, s.now), s.now);
    Tensor to_r, to_z, to_n, to_q;
    if (way.to_gates) {
      const Tensor part = taking.keep(at_time(way.to_gates, s.now), s.now);
      const std::vector<Tensor> to = split(part, 3, 1);
      to_r = to[0], to_z = to[1], to_n = to[2];
    }
    if (way.to_hidden_n) to_q = taking.keep(at_time(way.to_hidden_n, s.now), s.now);
    const Tensor dn =
        plus(taking.keep(dh * (1 - s.z), s.now), to_n) * (1 - square(s.n));  // before activation
    const Tensor dr = plus(dn * s.q, to_r), dz = plus(dh * (s.h_before - s.n), to_z);
    const Tensor ar = dr * s.r * (1 - s.r), az = dz * s.z * (1 - s.z);
    const Tensor dq = plus(dn * s.r, to_q);
    walk.dh[index(s.now)] = dh, walk.dq[index(s.now)] = dq;
    walk.da[index(s.now)] = concat({ar, az, dn}, 1);
    dh = dh * s.on + matmul(concat({ar, az, dq}, 1), way.weight);
  }
  walk.dh_first = dh;
  return walk;
}

std::array<Tensor, 3> GruWalk::gradients() const { return {stack(da, 1), stack(dq, 1), dh_first}; }

// Reverse mode over walk_back, so forward in time. A name with `_` is the gradient of what it
// names.
GruSecond second_order(const GruWayBack& way, const Tensor& of_dgates, const Tensor& of_dhidden_n,
                       const Tensor& of_dstate) {
  const GruWalk walk = walk_back(way);
  const std::int64_t steps = way.h.dim(1), hidden = way.h.dim(2);
  const Taking taking(way.lengths, way.along, way.h.dtype());
  const Tensor none = Tensor::zeros(Shape{way.h.dim(0), hidden}, way.h.dtype());
  Tensor dh_ = of_dstate ? of_dstate : none;
  std::vector<Tensor> gates_(index(steps)), q_(index(steps)), h_(index(steps)), out_(index(steps));
  Tensor weight_, state_ = none;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Step s(way, taking, step);
    const Tensor &dh = walk.dh[index(s.now)], &dq = walk.dq[index(s.now)];
    const std::vector<Tensor> da = split(walk.da[index(s.now)], 3, 1);
    weight_ = matmul_into(weight_, concat({da[0], da[1], dq}, 1), dh_, {true, false});
    const std::vector<Tensor> e_ =
        split(taking.keep(matmul(dh_, way.weight, {false, true}), s.now), 3, 1);
    Tensor ar_ = e_[0], az_ = e_[1], an_, dq_ = e_[2];
    if (of_dgates) {
      const std::vector<Tensor> a_ = split(taking.keep(at_time(of_dgates, s.now), s.now), 3, 1);
      ar_ = ar_ + a_[0], az_ = az_ + a_[1], an_ = a_[2];
    }
    if (of_dhidden_n) dq_ = dq_ + taking.keep(at_time(of_dhidden_n, s.now), s.now);
    const Tensor &dn = da[2], slope = 1 - square(s.n), far = s.h_before - s.n;
    const Tensor dr_ = ar_ * s.r * (1 - s.r), dz_ = az_ * s.z * (1 - s.z);
    const Tensor dn_ = plus(dr_ * s.q + dq_ * s.r, an_), fresh_ = dn_ * slope;  // of dh * (1 - z)
    const Tensor r_ = ar_ * dn * s.q * (1 - 2 * s.r) + dq_ * dn;
    const Tensor z_ = az_ * dh * far * (1 - 2 * s.z) - fresh_ * dh + taking.keep(dh_ * dh, s.now);
    const Tensor n_ = -2 * dn_ * dh * (1 - s.z) * s.n - dz_ * dh;
    gates_[index(s.now)] = concat({r_, z_, n_}, 1);
    q_[index(s.now)] = dr_ * dn;
    const Tensor before_ = dz_ * dh;
    if (s.before >= 0) {
      h_[index(s.before)] = taking.keep(before_, s.before);
      if (taking) state_ = state_ + before_ * taking.rest(s.before);
    } else {
      state_ = state_ + before_;
    }
    dh_ = dz_ * far + fresh_ * (1 - s.z) + dh_ * s.on;
    out_[index(s.now)] = taking.keep(dh_, s.now);
  }
  h_[index(Time(way.along, steps, steps - 1).now)] = none;  // nothing comes after the last
  return {stack(gates_, 1), stack(q_, 1), stack(h_, 1), weight_, state_, stack(out_, 1), dh_};
}

}  // namespace ebb::ops::recurrent
