// Max and average pooling, their gradients, pooling over lengths.
#include "ebb/ops/pooling.hpp"

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

struct Windows {
  Shape x, y;
  Pool2dOptions o;
  std::array<std::int64_t, 2> stride;

  Windows(const Shape& shape, const Pool2dOptions& options) : x(shape), o(options) {
    std::int64_t out[2];
    for (std::size_t s = 0; s < 2; ++s) {
      stride[s] = o.stride[s] == 0 ? o.window[s] : o.stride[s];
      out[s] =
          (x[static_cast<int>(s) + 1] + o.padding[2 * s] + o.padding[2 * s + 1] - o.window[s]) /
              stride[s] +
          1;
    }
    y = {x[0], out[0], out[1], x[3]};
  }

  // The cells of x that window `at` of y holds, in order.
  std::vector<Index> cells(const Index& at) const {
    std::vector<Index> all;
    for (std::int64_t a = 0; a < o.window[0]; ++a)
      for (std::int64_t b = 0; b < o.window[1]; ++b) {
        const std::int64_t h = at[1] * stride[0] - o.padding[0] + a;
        const std::int64_t w = at[2] * stride[1] - o.padding[2] + b;
        if (h >= 0 && h < x[1] && w >= 0 && w < x[2]) all.push_back({at[0], h, w, at[3]});
      }
    return all;
  }
  template <class A>
  Index largest(const A& in, const Index& at) const {
    const std::vector<Index> all = cells(at);
    Index best = all.front();
    for (const Index& i : all)
      if (real(in.at(i)) > real(in.at(best))) best = i;
    return best;
  }
  double count(const Index& at) const {
    return static_cast<double>(o.count_padding ? o.window[0] * o.window[1]
                                               : static_cast<std::int64_t>(cells(at).size()));
  }
};

void add_pools(const std::string& name, const Shape& x, const Pool2dOptions& o) {
  const Windows w(x, o);
  const Input apart = Input{.shape = x}.distinct().in(-20, 20);  // no step reaches a tie
  add_row({.name = "max_pool2d " + name,
           .op = "max_pool2d",
           .inputs = {apart},
           .call = [o](const Tensors& in) { return max_pool2d(in[0], o); },
           .reference = analytic([w](const auto& in) {
             using T = typename std::decay_t<decltype(in[0])>::Element;
             return build<T>(w.y, [&](const Index& i) { return in[0].at(w.largest(in[0], i)); });
           })});
  add_row({.name = "max_pool2d_backward " + name,
           .op = "max_pool2d_backward",
           .inputs = {apart, Input{.shape = w.y}},
           .call = [o](const Tensors& in) { return max_pool2d_backward(in[0], in[1], o); },
           .reference = analytic([w](const auto& in) {
             auto dx = std::decay_t<decltype(in[0])>(w.x);
             for_each_index(w.y,
                            [&](const Index& i) { dx.at(w.largest(in[0], i)) += in[1].at(i); });
             return dx;
           })});
  add_row({.name = "max_pool2d_pick " + name,
           .op = "max_pool2d_pick",
           .inputs = {apart, Input{.shape = x}},
           .call = [o](const Tensors& in) { return max_pool2d_pick(in[0], in[1], o); },
           .reference = analytic([w](const auto& in) {
             using T = typename std::decay_t<decltype(in[0])>::Element;
             return build<T>(w.y, [&](const Index& i) { return in[1].at(w.largest(in[0], i)); });
           })});
  for (const bool all : {false, true}) {
    Pool2dOptions counted = o;
    counted.count_padding = all;
    const Windows v(x, counted);
    const std::string suffix = (all ? "counting padding " : "") + name;
    add_row({.name = "avg_pool2d " + suffix,
             .op = "avg_pool2d",
             .inputs = {Input{.shape = x}},
             .call = [counted](const Tensors& in) { return avg_pool2d(in[0], counted); },
             .reference = analytic([v](const auto& in) {
               using T = typename std::decay_t<decltype(in[0])>::Element;
               return build<T>(v.y, [&](const Index& i) {
                 T sum = 0;
                 for (const Index& cell : v.cells(i)) sum += in[0].at(cell);
                 return sum / v.count(i);
               });
             })});
    add_row(
        {.name = "avg_pool2d_backward " + suffix,
         .op = "avg_pool2d_backward",
         .inputs = {Input{.shape = v.y}},
         .call = [counted,
                  x](const Tensors& in) { return avg_pool2d_backward(in[0], x[1], x[2], counted); },
         .reference = analytic([v](const auto& in) {
           auto dx = std::decay_t<decltype(in[0])>(v.x);
           for_each_index(v.y, [&](const Index& i) {
             for (const Index& cell : v.cells(i)) dx.at(cell) += in[0].at(i) / v.count(i);
           });
           return dx;
         })});
  }
}

[[maybe_unused]] const bool pools = [] {
  add_pools("2x2", {2, 4, 6, 3}, {});
  add_pools("of a ragged image", {1, 5, 7, 2}, {});
  add_pools("overlapping", {2, 5, 5, 3},
            {.window = {3, 3}, .stride = {1, 2}, .padding = {1, 1, 1, 1}});
  add_pools("with gaps", {1, 6, 7, 2}, {.window = {2, 1}, .stride = {3, 3}});
  add_pools("padded unevenly", {1, 4, 3, 2},
            {.window = {2, 3}, .stride = {2, 2}, .padding = {1, 0, 0, 2}});
  add_pools("whole image", {2, 3, 4, 2}, {.window = {3, 4}});
  add_pools("one", {1, 1, 1, 1}, {.window = {1, 1}});
  add_pools("no examples", {0, 4, 4, 2}, {});
  add_pools("no channels", {1, 4, 4, 0}, {});
  add_pools("threads", {4, 20, 21, 19}, {.window = {3, 2}, .stride = {2, 2}});
  return true;
}();

OP_ROW(
    "max_pool1d", .op = "max_pool2d", .inputs = {f(2, 7, 3).distinct()},
    .call =
        [](const Tensors& in) {
          return max_pool1d(in[0], {.window = 3, .stride = 2, .padding = {1, 0}});
        },
    .reference = analytic([](const auto& in) {
      using T = typename std::decay_t<decltype(in[0])>::Element;
      return build<T>(Shape{2, 3, 3}, [&](const Index& i) {
        T best = in[0](i[0], 2 * i[1], i[2]);
        for (std::int64_t at = 2 * i[1] - 1; at < 2 * i[1] + 2; ++at)
          if (at >= 0 && real(in[0](i[0], at, i[2])) > real(best)) best = in[0](i[0], at, i[2]);
        return best;
      });
    }));
OP_ROW(
    "avg_pool1d", .op = "avg_pool2d", .inputs = {f(2, 6, 3)},
    .call = [](const Tensors& in) { return avg_pool1d(in[0]); },
    .reference = analytic([](const auto& in) {
      using T = typename std::decay_t<decltype(in[0])>::Element;
      return build<T>(Shape{2, 3, 3}, [&](const Index& i) {
        return (in[0](i[0], 2 * i[1], i[2]) + in[0](i[0], 2 * i[1] + 1, i[2])) / 2.0;
      });
    }));
OP_ROW(
    "max_pool2d in 16 bits", .op = "max_pool2d", .inputs = {f(1, 4, 4, 3).distinct()},
    .call = [](const Tensors& in) { return max_pool2d(in[0]); },
    .no_reference = "the values are checked above", .half = true);

OP_ROW(
    "max_pool2d refuses a matrix", .op = "max_pool2d", .inputs = {f(4, 4)},
    .call = [](const Tensors& in) { return max_pool2d(in[0]); },
    .refused = "max_pool2d: x is f32(4, 4); expected (batch, height, width, channels)");
OP_ROW(
    "max_pool2d refuses a large window", .op = "max_pool2d", .inputs = {f(1, 4, 4, 1)},
    .call =
        [](const Tensors& in) {
          return max_pool2d(in[0], {.window = {5, 2}});
        },
    .refused = "max_pool2d: a window of 5x2 does not fit an image of 4x4 with this padding");
OP_ROW(
    "max_pool2d refuses wide padding", .op = "max_pool2d", .inputs = {f(1, 4, 4, 1)},
    .call =
        [](const Tensors& in) {
          return max_pool2d(in[0], {.padding = {2, 0, 0, 0}});
        },
    .refused = "max_pool2d: padding 2 is out of range; expected 0 to 1, less than the window");
OP_ROW(
    "avg_pool2d refuses a window of nothing", .op = "avg_pool2d", .inputs = {f(1, 4, 4, 1)},
    .call =
        [](const Tensors& in) {
          return avg_pool2d(in[0], {.window = {0, 2}});
        },
    .refused = "avg_pool2d: window 0 is out of range; expected 1 to 16777216");
OP_ROW(
    "max_pool2d_backward refuses another dy", .op = "max_pool2d_backward",
    .inputs = {f(1, 4, 4, 1), f(1, 2, 3, 1)},
    .call = [](const Tensors& in) { return max_pool2d_backward(in[0], in[1]); },
    .refused = "max_pool2d_backward: dy is f32(1, 2, 3, 1), expected f32(1, 2, 2, 1)");
OP_ROW(
    "avg_pool1d refuses an image", .op = "avg_pool2d", .inputs = {f(1, 4, 4, 1)},
    .call = [](const Tensors& in) { return avg_pool1d(in[0]); },
    .refused = "avg_pool1d: x is f32(1, 4, 4, 1); expected (batch, length, channels)");

}  // namespace
}  // namespace ebb::table
