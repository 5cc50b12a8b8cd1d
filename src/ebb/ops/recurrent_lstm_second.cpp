#include "ebb/ops/recurrent_lstm_second.hpp"

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb::ops::recurrent {
namespace {

Tensor at_time(const Tensor& x, std::int64_t t) { return squeeze(slice(x, 1, t, t + 1), 1); }

// The values of one step that the forward pass kept: (batch, hidden) each.
struct Step {
  std::int64_t time, before;  // before: time of the step taken before, or -1
  Tensor i, f, g, o, c, c_before, t;
  Step(const LstmWayBack& way, std::int64_t step) {
    const std::int64_t steps = way.cells.dim(1), hidden = way.cells.dim(2);
    time = way.along.reverse ? steps - 1 - step : step;
    before = step == 0 ? -1 : way.along.reverse ? time + 1 : time - 1;
    const std::vector<Tensor> gates = split(at_time(way.gates, time), 4, 1);
    i = gates[0], f = gates[1], g = gates[2], o = gates[3];
    c = at_time(way.cells, time);
    t = tanh(c);
    c_before = before >= 0 ? at_time(way.cells, before)
               : way.state ? slice(way.state, 1, hidden)
                           : Tensor::zeros(c.shape(), c.dtype());
  }
};

// x + y, either of which may be empty.
Tensor plus(const Tensor& x, const Tensor& y) { return !x ? y : !y ? x : x + y; }

std::size_t index(std::int64_t t) { return static_cast<std::size_t>(t); }

}  // namespace

LstmWalk walk_back(const LstmWayBack& way) {
  if (way.along.lengths)
    throw Error("lstm: has no second derivative where there is a length for each row");
  const std::int64_t steps = way.cells.dim(1), hidden = way.cells.dim(2);
  LstmWalk walk;
  walk.dh.resize(index(steps)), walk.dc.resize(index(steps)), walk.da.resize(index(steps));
  const Shape state{way.cells.dim(0), hidden};
  const Tensor none = Tensor::zeros(state, way.cells.dtype());
  Tensor dh = way.dlast ? slice(way.dlast, 1, 0, hidden) : none;
  Tensor dc = way.dlast ? slice(way.dlast, 1, hidden) : none;
  for (std::int64_t step = steps; step-- > 0;) {
    const Step s(way, step);
    if (way.dh) dh = dh + at_time(way.dh, s.time);
    if (way.to_cells) dc = dc + at_time(way.to_cells, s.time);
    dc = dc + dh * s.o * (1 - square(s.t));
    Tensor di = dc * s.g, df = dc * s.c_before, dg = dc * s.i, d_o = dh * s.t;
    if (way.to_gates) {
      const std::vector<Tensor> to = split(at_time(way.to_gates, s.time), 4, 1);
      di = di + to[0], df = df + to[1], dg = dg + to[2], d_o = d_o + to[3];
    }
    const Tensor da = concat(
        {di * s.i * (1 - s.i), df * s.f * (1 - s.f), dg * (1 - square(s.g)), d_o * s.o * (1 - s.o)},
        1);
    walk.dh[index(s.time)] = dh, walk.dc[index(s.time)] = dc, walk.da[index(s.time)] = da;
    dh = matmul(da, way.weight);
    dc = dc * s.f;
  }
  walk.dh_first = dh, walk.dc_first = dc;
  return walk;
}

std::array<Tensor, 2> LstmWalk::gradients(const LstmWayBack&) const {
  return {stack(da, 1), concat({dh_first, dc_first}, 1)};
}

// Reverse mode over walk_back, so forward in time. A name with `_` is the gradient of what it
// names.
LstmSecond second_order(const LstmWayBack& way, const Tensor& of_dgates, const Tensor& of_dstate) {
  const LstmWalk walk = walk_back(way);
  const std::int64_t steps = way.cells.dim(1), hidden = way.cells.dim(2);
  const Tensor none = Tensor::zeros(Shape{way.cells.dim(0), hidden}, way.cells.dtype());
  Tensor dh_ = of_dstate ? slice(of_dstate, 1, 0, hidden) : none;
  Tensor dc_ = of_dstate ? slice(of_dstate, 1, hidden) : none;
  std::vector<Tensor> gates_(index(steps)), cells_(index(steps)), out_(index(steps));
  Tensor weight_, first_cell_ = none;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Step s(way, step);
    const Tensor &dh = walk.dh[index(s.time)], &dc = walk.dc[index(s.time)];
    weight_ = matmul_into(weight_, walk.da[index(s.time)], dh_, {true, false});
    Tensor da_ = matmul(dh_, way.weight, {false, true});
    if (of_dgates) da_ = da_ + at_time(of_dgates, s.time);
    const std::vector<Tensor> a_ = split(da_, 4, 1);
    const Tensor di = dc * s.g, df = dc * s.c_before, dg = dc * s.i, d_o = dh * s.t;
    const Tensor di_ = a_[0] * s.i * (1 - s.i), df_ = a_[1] * s.f * (1 - s.f);
    const Tensor dg_ = a_[2] * (1 - square(s.g)), do_ = a_[3] * s.o * (1 - s.o);
    const Tensor rest = 1 - square(s.t);
    const Tensor before_ = df_ * dc;
    const Tensor to_dc = di_ * s.g + df_ * s.c_before + dg_ * s.i + dc_ * s.f;
    const Tensor i_ = a_[0] * di * (1 - 2 * s.i) + dg_ * dc;
    const Tensor f_ = a_[1] * df * (1 - 2 * s.f) + dc_ * dc;
    const Tensor g_ = a_[2] * dg * (-2 * s.g) + di_ * dc;
    const Tensor o_ = a_[3] * d_o * (1 - 2 * s.o) + to_dc * dh * rest;
    const Tensor t_ = do_ * dh - 2 * to_dc * dh * s.o * s.t;
    gates_[index(s.time)] = concat({i_, f_, g_, o_}, 1);
    cells_[index(s.time)] = plus(cells_[index(s.time)], t_ * rest);
    if (s.before >= 0) {
      cells_[index(s.before)] = plus(cells_[index(s.before)], before_);
    } else {
      first_cell_ = before_;
    }
    dh_ = do_ * s.t + to_dc * s.o * rest;
    dc_ = to_dc;
    out_[index(s.time)] = dh_;
  }
  LstmSecond second;
  second.gates = stack(gates_, 1);
  second.cells = stack(cells_, 1);
  second.weight = weight_;
  second.state = concat({none, first_cell_}, 1);
  second.dh = stack(out_, 1);
  second.dlast = concat({dh_, dc_}, 1);
  return second;
}

}  // namespace ebb::ops::recurrent
