#include "ebb/ops/recurrent_lstm_second.hpp"

#include "ebb/ops/binary.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/recurrent_second.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb::ops::recurrent {
namespace {

// The values of one step that the forward pass kept: (batch, hidden) each. Where a row does not
// take part its gates are zero and its cell is the one before.
struct Step : Time {
  Tensor i, f, g, o, c, c_before, t;
  Tensor on;  // what a gradient of c is multiplied by on its way to the cell before
  Step(const LstmWayBack& way, const Taking& taking, std::int64_t step)
      : Time(way.along, way.cells.dim(1), step) {
    const std::vector<Tensor> gates = split(at_time(way.gates, now), 4, 1);
    i = gates[0], f = gates[1], g = gates[2], o = gates[3];
    on = taking ? f + taking.rest(now) : f;
    c = at_time(way.cells, now);
    t = tanh(c);
    c_before = before >= 0 ? at_time(way.cells, before)
               : way.state ? slice(way.state, 1, way.cells.dim(2))
                           : Tensor::zeros(c.shape(), c.dtype());
  }
};

}  // namespace

LstmWalk walk_back(const LstmWayBack& way) {
  const std::int64_t steps = way.cells.dim(1), hidden = way.cells.dim(2);
  LstmWalk walk;
  walk.dh.resize(index(steps)), walk.dc.resize(index(steps)), walk.da.resize(index(steps));
  const Taking taking(way.lengths, way.along, way.cells.dtype());
  const Tensor none = Tensor::zeros(Shape{way.cells.dim(0), hidden}, way.cells.dtype());
  Tensor dh = way.dlast ? slice(way.dlast, 1, 0, hidden) : none;
  Tensor dc = way.dlast ? slice(way.dlast, 1, hidden) : none;
  for (std::int64_t step = steps; step-- > 0;) {
    const Step s(way, taking, step);
    if (way.dh) dh = dh + taking.keep(at_time(way.dh, s.now), s.now);
    if (way.to_cells) dc = dc + at_time(way.to_cells, s.now);
    dc = dc + dh * s.o * (1 - square(s.t));
    Tensor di = dc * s.g, df = dc * s.c_before, dg = dc * s.i, d_o = dh * s.t;
    if (way.to_gates) {
      const Tensor part = taking.keep(at_time(way.to_gates, s.now), s.now);
      const std::vector<Tensor> to = split(part, 4, 1);
      di = di + to[0], df = df + to[1], dg = dg + to[2], d_o = d_o + to[3];
    }
    const Tensor da = concat(
        {di * s.i * (1 - s.i), df * s.f * (1 - s.f), dg * (1 - square(s.g)), d_o * s.o * (1 - s.o)},
        1);
    walk.dh[index(s.now)] = dh, walk.dc[index(s.now)] = dc, walk.da[index(s.now)] = da;
    const Tensor from_gates = matmul(da, way.weight);
    dh = taking ? from_gates + dh * taking.rest(s.now) : from_gates;
    dc = dc * s.on;
  }
  walk.dh_first = dh, walk.dc_first = dc;
  return walk;
}

std::array<Tensor, 2> LstmWalk::gradients() const {
  return {stack(da, 1), concat({dh_first, dc_first}, 1)};
}

// Reverse mode over walk_back, so forward in time. A name with `_` is the gradient of what it
// names.
LstmSecond second_order(const LstmWayBack& way, const Tensor& of_dgates, const Tensor& of_dstate) {
  const LstmWalk walk = walk_back(way);
  const Taking taking(way.lengths, way.along, way.cells.dtype());
  const std::int64_t steps = way.cells.dim(1), hidden = way.cells.dim(2);
  const Tensor none = Tensor::zeros(Shape{way.cells.dim(0), hidden}, way.cells.dtype());
  Tensor dh_ = of_dstate ? slice(of_dstate, 1, 0, hidden) : none;
  Tensor dc_ = of_dstate ? slice(of_dstate, 1, hidden) : none;
  std::vector<Tensor> gates_(index(steps)), cells_(index(steps)), out_(index(steps));
  Tensor weight_, first_cell_ = none;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Step s(way, taking, step);
    const Tensor &dh = walk.dh[index(s.now)], &dc = walk.dc[index(s.now)];
    weight_ = matmul_into(weight_, walk.da[index(s.now)], dh_, {true, false});
    Tensor da_ = matmul(dh_, way.weight, {false, true});
    if (of_dgates) da_ = da_ + at_time(of_dgates, s.now);
    const std::vector<Tensor> a_ = split(taking.keep(da_, s.now), 4, 1);
    const Tensor di = dc * s.g, df = dc * s.c_before, dg = dc * s.i, d_o = dh * s.t;
    const Tensor di_ = a_[0] * s.i * (1 - s.i), df_ = a_[1] * s.f * (1 - s.f);
    const Tensor dg_ = a_[2] * (1 - square(s.g)), do_ = a_[3] * s.o * (1 - s.o);
    const Tensor rest = 1 - square(s.t);
    const Tensor before_ = df_ * dc;
    const Tensor to_dc = di_ * s.g + df_ * s.c_before + dg_ * s.i + dc_ * s.on;
    const Tensor i_ = a_[0] * di * (1 - 2 * s.i) + dg_ * dc;
    const Tensor f_ = a_[1] * df * (1 - 2 * s.f) + taking.keep(dc_ * dc, s.now);
    const Tensor g_ = a_[2] * dg * (-2 * s.g) + di_ * dc;
    const Tensor o_ = a_[3] * d_o * (1 - 2 * s.o) + taking.keep(to_dc * dh * rest, s.now);
    const Tensor t_ = do_ * dh - 2 * to_dc * dh * s.o * s.t;
    gates_[index(s.now)] = concat({i_, f_, g_, o_}, 1);
    cells_[index(s.now)] = plus(cells_[index(s.now)], t_ * rest);
    if (s.before >= 0) {
      cells_[index(s.before)] = plus(cells_[index(s.before)], before_);
    } else {
      first_cell_ = before_;
    }
    const Tensor stays_ = taking ? dh_ * taking.rest(s.now) : Tensor();
    dh_ = plus(do_ * s.t + to_dc * s.o * rest, stays_);
    dc_ = to_dc;
    out_[index(s.now)] = taking.keep(dh_, s.now);
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
