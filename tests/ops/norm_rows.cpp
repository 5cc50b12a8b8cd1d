// Layer, rms and batch norm, and their ways back.
#include "ebb/ops/norm.hpp"

#include "ebb/ops/batch_norm.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

constexpr double kEps = 0.01;

// The arrays of (rows, n) seen as such, whatever the shape in front.
template <class T>
struct Normalised {
  std::int64_t rows, n;
  std::vector<T> mean, rstd;  // of each row
  Array<T> xh;

  Normalised(const Array<T>& x, bool layer) : xh(x.shape) {
    n = x.dim(-1);
    rows = n == 0 ? 0 : x.size() / n;
    for (std::int64_t r = 0; r < rows; ++r) {
      T m = 0, square = 0;
      if (layer)
        for (std::int64_t i = 0; i < n; ++i) m += x[r * n + i];
      m /= static_cast<double>(n);
      for (std::int64_t i = 0; i < n; ++i) square += (x[r * n + i] - m) * (x[r * n + i] - m);
      const T s = 1.0 / std::sqrt(square / static_cast<double>(n) + kEps);
      mean.push_back(m);
      rstd.push_back(s);
      for (std::int64_t i = 0; i < n; ++i) xh[r * n + i] = (x[r * n + i] - m) * s;
    }
  }
};

template <class T>
Array<T> norm_of(const Arrays<T>& in, bool layer) {
  const Normalised<T> s(in[0], layer);
  Array<T> y(in[0].shape);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    y[i] = s.xh[i] * in[1][i % s.n];
    if (layer) y[i] += in[2][i % s.n];
  }
  return y;
}

// dx, dweight and (layer) dbias; inputs 3 and 4, where there, are the sums so far.
template <class T>
Arrays<T> norm_backward_of(const Arrays<T>& in, bool layer) {
  const Normalised<T> s(in[0], layer);
  const double n = static_cast<double>(s.n);
  Array<T> dx(in[0].shape), dw(in[1].shape), db(in[1].shape);
  if (in.size() > 3) dw = in[3];
  if (in.size() > 4) db = in[4];
  for (std::int64_t r = 0; r < s.rows; ++r) {
    T level = 0, along = 0;
    for (std::int64_t i = 0; i < s.n; ++i) {
      const std::int64_t at = r * s.n + i;
      const T g = in[2][at] * in[1][i];
      if (layer) level += g;
      along += g * s.xh[at];
      dw[i] += in[2][at] * s.xh[at];
      db[i] += in[2][at];
    }
    for (std::int64_t i = 0; i < s.n; ++i) {
      const std::int64_t at = r * s.n + i;
      const T g = in[2][at] * in[1][i];
      dx[at] = s.rstd[static_cast<std::size_t>(r)] * (g - level / n - s.xh[at] * along / n);
    }
  }
  return layer ? Arrays<T>{dx, dw, db} : Arrays<T>{dx, dw};
}

void add_norm(const std::string& name, const Shape& shape, bool half = false) {
  const Input x{.shape = shape}, w{.shape = {shape[shape.rank() - 1]}};
  add_row({.name = "layer_norm " + name,
           .op = "layer_norm",
           .inputs = {x, w, w},
           .call = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2], kEps); },
           .reference = analytic([](const auto& in) { return norm_of(in, true); }),
           .half = half});
  add_row({.name = "rms_norm " + name,
           .op = "rms_norm",
           .inputs = {x, w},
           .call = [](const Tensors& in) { return rms_norm(in[0], in[1], kEps); },
           .reference = analytic([](const auto& in) { return norm_of(in, false); }),
           .half = half});
}

void add_norm_backward(const std::string& name, const Shape& shape, bool go_on) {
  const Input x{.shape = shape}, w{.shape = {shape[shape.rank() - 1]}};
  std::vector<Input> layer = {x, w, x}, rms = {x, w, x};
  if (go_on) {
    layer.insert(layer.end(), 2, w);
    rms.push_back(w);
  }
  add_row({.name = "layer_norm_backward " + name,
           .op = "layer_norm_backward",
           .inputs = layer,
           .call =
               [=](const Tensors& in) {
                 return go_on ? layer_norm_backward(in[0], in[1], in[2], kEps, in[3], in[4])
                              : layer_norm_backward(in[0], in[1], in[2], kEps);
               },
           .reference = analytic([](const auto& in) { return norm_backward_of(in, true); })});
  add_row({.name = "rms_norm_backward " + name,
           .op = "rms_norm_backward",
           .inputs = rms,
           .call =
               [=](const Tensors& in) {
                 return rms_norm_backward(in[0], in[1], in[2], kEps, go_on ? in[3] : Tensor());
               },
           .reference = analytic([](const auto& in) { return norm_backward_of(in, false); })});
}

[[maybe_unused]] const bool norms = [] {
  add_norm("rows", {4, 16}, true);
  add_norm("odd", {3, 19});
  add_norm("vector", {7});
  add_norm("of one", {3, 1});
  add_norm("three axes", {2, 3, 5});
  add_norm("no rows", {0, 4});
  add_norm("of nothing", {3, 0});
  add_norm("threads", {700, 129});
  add_norm_backward("rows", {4, 9}, false);
  add_norm_backward("sums so far", {3, 17}, true);
  add_norm_backward("of one", {2, 1}, false);
  add_norm_backward("no rows", {0, 3}, true);
  add_norm_backward("threads", {700, 129}, true);
  return true;
}();

// One sum so far of the two: the other starts from zero.
[[maybe_unused]] const bool one_sum = [] {
  for (const bool weight : {true, false})
    add_row({.name = std::string("layer_norm_backward so far: ") + (weight ? "dweight" : "dbias"),
             .op = "layer_norm_backward",
             .inputs = {f(4, 9), f(9), f(4, 9), f(9)},
             .call =
                 [=](const Tensors& in) {
                   return layer_norm_backward(in[0], in[1], in[2], kEps, weight ? in[3] : Tensor(),
                                              weight ? Tensor() : in[3]);
                 },
             .reference = analytic([=](auto in) {
               using A = typename decltype(in)::value_type;
               in.insert(weight ? in.end() : in.begin() + 3, A(in[1].shape));
               return norm_backward_of(in, true);
             })});
  return true;
}();

OP_ROW(
    "layer_norm weight of another size", .op = "layer_norm", .inputs = {f(4, 8), f(4), f(8)},
    .call = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
    .refused = "layer_norm: the weight is f32(4), expected (8) to go with f32(4, 8)");
OP_ROW(
    "layer_norm bias of another size", .op = "layer_norm", .inputs = {f(4, 8), f(8), f(1)},
    .call = [](const Tensors& in) { return layer_norm(in[0], in[1], in[2]); },
    .refused = "layer_norm: the bias is f32(1), expected (8) to go with f32(4, 8)");
OP_ROW(
    "rms_norm scalar", .op = "rms_norm", .inputs = {f(), f(1)},
    .call = [](const Tensors& in) { return rms_norm(in[0], in[1]); },
    .refused = "rms_norm: f32() has no last axis to normalise");
OP_ROW(
    "rms_norm of integers", .op = "rms_norm", .inputs = {ids({2, 3}, 4), f(3)},
    .call = [](const Tensors& in) { return rms_norm(in[0], in[1]); },
    .refused = "rms_norm: i64(2, 3) is not a floating type; cast it first");
OP_ROW(
    "rms_norm_backward shapes differ", .op = "rms_norm_backward",
    .inputs = {f(4, 8), f(8), f(8, 4)},
    .call = [](const Tensors& in) { return rms_norm_backward(in[0], in[1], in[2], kEps); },
    .refused = "rms_norm_backward: f32(4, 8) and f32(8, 4) differ");

// ---- batch norm ----

template <class T>
struct Channels {
  std::int64_t rows, n;
  std::vector<T> mean, var;
  explicit Channels(const Array<T>& x) {
    n = x.dim(-1);
    rows = n == 0 ? 0 : x.size() / n;
    for (std::int64_t c = 0; c < n; ++c) {
      T m = 0, v = 0;
      for (std::int64_t r = 0; r < rows; ++r) m += x[r * n + c];
      m /= static_cast<double>(rows);
      for (std::int64_t r = 0; r < rows; ++r) v += (x[r * n + c] - m) * (x[r * n + c] - m);
      mean.push_back(m);
      var.push_back(v / static_cast<double>(rows));
    }
  }
};

template <class T>
Array<T> applied(const Array<T>& x, const Array<T>& w, const Array<T>& b,
                 const std::vector<T>& mean, const std::vector<T>& var) {
  Array<T> y(x.shape);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const auto c = static_cast<std::size_t>(i % x.dim(-1));
    y[i] = (x[i] - mean[c]) / std::sqrt(var[c] + kEps) * w.data[c] + b.data[c];
  }
  return y;
}

void add_batch_norm(const std::string& name, const Shape& shape) {
  const Input x{.shape = shape}, c{.shape = {shape[shape.rank() - 1]}};
  add_row({.name = "batch_norm_train " + name,
           .op = "batch_norm_train",
           .inputs = {x, c, c},
           .call =
               [](const Tensors& in) {
                 const auto [y, mean, var] = batch_norm_train(in[0], in[1], in[2], kEps);
                 return Tensors{y, mean, var};
               },
           .reference = analytic([](const auto& in) {
             const Channels s(in[0]);
             auto mean = in[1], var = in[1];
             mean.data = s.mean;
             var.data = s.var;
             return std::vector{applied(in[0], in[1], in[2], s.mean, s.var), mean, var};
           })});
  add_row(
      {.name = "batch_norm " + name,
       .op = "batch_norm",
       .inputs = {x, c, c, c, c.in(0.5, 2)},
       .call =
           [](const Tensors& in) { return batch_norm(in[0], in[1], in[2], in[3], in[4], kEps); },
       .reference = analytic(
           [](const auto& in) { return applied(in[0], in[1], in[2], in[3].data, in[4].data); })});
}

[[maybe_unused]] const bool batch_norms = [] {
  add_batch_norm("rows", {6, 5});
  add_batch_norm("images", {2, 3, 2, 4});
  add_batch_norm("one channel", {7, 1});
  add_batch_norm("many channels", {3, 300});
  add_batch_norm("of nothing", {4, 0});
  add_batch_norm("threads", {3000, 40});
  return true;
}();
// Statistics of nothing are zeros, and constants.
OP_ROW(
    "batch_norm_train no rows", .op = "batch_norm_train", .inputs = {f(0, 3), f(3), f(3)},
    .call =
        [](const Tensors& in) {
          const auto [y, mean, var] = batch_norm_train(in[0], in[1], in[2], kEps);
          return Tensors{y, mean, var};
        },
    .reference =
        [](const Arrays<double>& in) {
          const Array<double> nothing(Shape{3});
          return Arrays<double>{in[0], nothing, nothing};
        });
OP_ROW(
    "batch_norm no rows", .op = "batch_norm", .inputs = {f(0, 3), f(3), f(3), f(3), f(3).in(1, 2)},
    .call = [](const Tensors& in) { return batch_norm(in[0], in[1], in[2], in[3], in[4], kEps); },
    .reference = analytic([](const auto& in) {
      return applied(in[0], in[1], in[2], in[3].data, in[4].data);
    }));

void add_batch_norm_backward(const std::string& name, const Shape& shape) {
  const Input x{.shape = shape}, c{.shape = {shape[shape.rank() - 1]}};
  add_row({.name = "batch_norm_backward " + name,
           .op = "batch_norm_backward",
           .inputs = {x, c, x, c, c.in(0.5, 2)},
           .call =
               [](const Tensors& in) {
                 return batch_norm_backward(in[0], in[1], in[2], in[3], in[4], kEps);
               },
           .reference = analytic([](const auto& in) {
             auto dx = in[0], dw = in[1], db = in[1];
             const std::int64_t n = dw.size(), rows = n == 0 ? 0 : dx.size() / n;
             for (std::int64_t c = 0; c < n; ++c) {
               const auto r = 1.0 / std::sqrt(in[4][c] + kEps);
               dw[c] = db[c] = 0;
               for (std::int64_t i = c; i < dx.size(); i += n) {
                 db[c] += in[2][i];
                 dw[c] += in[2][i] * (in[0][i] - in[3][c]) * r;
               }
               for (std::int64_t i = c; i < dx.size(); i += n) {
                 const auto xh = (in[0][i] - in[3][c]) * r;
                 dx[i] =
                     in[1][c] * r * (in[2][i] - (db[c] + xh * dw[c]) / static_cast<double>(rows));
               }
             }
             return std::vector{dx, dw, db};
           })});
}

[[maybe_unused]] const bool batch_norm_backwards = [] {
  add_batch_norm_backward("rows", {5, 3});
  add_batch_norm_backward("no rows", {0, 3});
  add_batch_norm_backward("of nothing", {4, 0});
  return true;
}();

OP_ROW(
    "batch_norm_train weight of another size", .op = "batch_norm_train",
    .inputs = {f(4, 8), f(4), f(8)},
    .call = [](const Tensors& in) { return batch_norm_train(in[0], in[1], in[2]).y; },
    .refused = "batch_norm_train: the weight is f32(4), expected (8) to go with f32(4, 8)");
OP_ROW(
    "batch_norm variance of another size", .op = "batch_norm",
    .inputs = {f(4, 8), f(8), f(8), f(8), f(4, 8)},
    .call = [](const Tensors& in) { return batch_norm(in[0], in[1], in[2], in[3], in[4]); },
    .refused = "batch_norm: the var is f32(4, 8), expected (8) to go with f32(4, 8)");

}  // namespace
}  // namespace ebb::table
