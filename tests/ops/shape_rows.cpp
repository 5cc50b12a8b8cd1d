// Reshape, permute, concat, slice, pad, tile, flip, broadcast_to and what is built from them.
#include "ebb/ops/shape.hpp"

#include <array>
#include <cmath>

#include "ebb/ops/stop_gradient.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

template <class T>
Array<T> reshaped(Array<T> x, const Shape& to) {
  x.shape = to;
  return x;
}

Row row(std::string name, std::string op, std::vector<Input> inputs, Call call,
        Reference reference) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .call = std::move(call),
          .reference = std::move(reference),
          .half = true};
}

// ---- reshape and what is built on it ----

void add_reshape(const std::string& name, const Shape& from, std::vector<std::int64_t> dims,
                 Shape to) {
  add_row(row(
      name, "reshape", {Input{.shape = from}},
      [dims](const Tensors& in) { return reshape(in[0], dims); },
      analytic([to](const auto& in) { return reshaped(in[0], to); })));
}

[[maybe_unused]] const bool reshapes = [] {
  add_reshape("reshape flat", {3, 5}, {15}, {15});
  add_reshape("reshape open", {4, 3, 2}, {2, -1}, {2, 12});
  add_reshape("reshape to scalar", {1, 1}, {}, {});
  add_reshape("reshape from scalar", {}, {1, -1}, {1, 1});
  add_reshape("reshape empty", {0, 3}, {3, 0, 2}, {3, 0, 2});
  add_row(row(
      "squeeze", "reshape", {f(3, 1, 2)}, [](const Tensors& in) { return squeeze(in[0], -2); },
      analytic([](const auto& in) {
        return reshaped(in[0], {3, 2});
      })));
  add_row(row(
      "squeeze all", "reshape", {f(1, 3, 1, 1)}, [](const Tensors& in) { return squeeze(in[0]); },
      analytic([](const auto& in) { return reshaped(in[0], {3}); })));
  add_row(row(
      "expand_dims front", "reshape", {f(3, 2)},
      [](const Tensors& in) { return expand_dims(in[0], 0); }, analytic([](const auto& in) {
        return reshaped(in[0], {1, 3, 2});
      })));
  add_row(row(
      "expand_dims back", "reshape", {f(3, 2)},
      [](const Tensors& in) { return expand_dims(in[0], -1); }, analytic([](const auto& in) {
        return reshaped(in[0], {3, 2, 1});
      })));
  return true;
}();

OP_ROW(
    "reshape mismatch", .op = "reshape", .inputs = {f(3, 5)},
    .call =
        [](const Tensors& in) {
          return reshape(in[0], {4, 4});
        },
    .refused = "reshape: f32(3, 5) has 15 elements, (4, 4) has 16");
OP_ROW(
    "reshape two open", .op = "reshape", .inputs = {f(3, 5)},
    .call =
        [](const Tensors& in) {
          return reshape(in[0], {-1, 3, -1});
        },
    .refused = "reshape: axes 0 and 2 are both -1; one size can be left open");
OP_ROW(
    "reshape open does not divide", .op = "reshape", .inputs = {f(3, 5)},
    .call =
        [](const Tensors& in) {
          return reshape(in[0], {4, -1});
        },
    .refused = "reshape: f32(3, 5) has 15 elements, which axis 1 cannot make up from 4");
OP_ROW(
    "reshape open of nothing", .op = "reshape", .inputs = {f(0, 5)},
    .call =
        [](const Tensors& in) {
          return reshape(in[0], {0, -1});
        },
    .refused = "reshape: f32(0, 5) has 0 elements, which axis 1 cannot make up from 0");
OP_ROW(
    "squeeze of more than one", .op = "reshape", .inputs = {f(3, 5)},
    .call = [](const Tensors& in) { return squeeze(in[0], 1); },
    .refused = "squeeze: axis 1 of f32(3, 5) is 5, expected 1");

// ---- permute ----

void add_permute(const std::string& name, const Shape& shape, std::vector<int> axes) {
  add_row(row(
      name, "permute", {Input{.shape = shape}},
      [axes](const Tensors& in) { return permute(in[0], axes); }, analytic([axes](const auto& in) {
        using T = typename std::decay_t<decltype(in[0])>::Element;
        std::vector<std::int64_t> dims;
        for (const int a : axes) dims.push_back(in[0].dim(a));
        return build<T>(Shape(dims), [&](const Index& i) {
          Index at{};
          for (std::size_t k = 0; k < axes.size(); ++k)
            at[static_cast<std::size_t>(axes[k] < 0 ? axes[k] + in[0].rank() : axes[k])] = i[k];
          return in[0].at(at);
        });
      })));
}

[[maybe_unused]] const bool permutes = [] {
  add_permute("permute matrix", {5, 7}, {1, 0});
  add_permute("permute blocks", {17, 21}, {1, 0});
  add_permute("permute one element", {1, 1}, {1, 0});
  add_permute("permute scalar", {}, {});
  add_permute("permute empty", {3, 0, 2}, {2, 0, 1});
  add_permute("permute ones only", {1, 4, 1}, {1, 0, 2});
  add_permute("permute heads", {2, 3, 4, 5}, {0, 2, 1, 3});
  add_permute("permute pairs", {5, 3, 2}, {1, 0, 2});
  add_permute("permute reverse", {2, 3, 4}, {-1, -2, -3});
  add_permute("permute rank 8", {2, 1, 2, 1, 3, 1, 2, 1}, {7, 4, 5, 6, 0, 2, 3, 1});
  add_permute("permute threads", {300, 401}, {1, 0});
  add_permute("permute heads threads", {4, 120, 8, 36}, {0, 2, 1, 3});
  return true;
}();

OP_ROW(
    "transpose", .op = "permute", .inputs = {f(2, 3, 5)},
    .call = [](const Tensors& in) { return transpose(in[0]); },
    .reference = analytic([](const auto& in) {
      using T = typename std::decay_t<decltype(in[0])>::Element;
      return build<T>({2, 5, 3}, [&](const Index& i) { return in[0](i[0], i[2], i[1]); });
    }),
    .half = true);
OP_ROW(
    "transpose of a vector", .op = "permute", .inputs = {f(3)},
    .call = [](const Tensors& in) { return transpose(in[0]); },
    .refused = "transpose: f32(3) has fewer than two axes");
OP_ROW(
    "permute too few axes", .op = "permute", .inputs = {f(2, 3)},
    .call = [](const Tensors& in) { return permute(in[0], {0}); },
    .refused = "permute: 1 axes were given for f32(2, 3), expected 2");
OP_ROW(
    "permute axis twice", .op = "permute", .inputs = {f(2, 3)},
    .call =
        [](const Tensors& in) {
          return permute(in[0], {1, -1});
        },
    .refused = "permute: axis 1 is there twice");
OP_ROW(
    "permute bad axis", .op = "permute", .inputs = {f(2, 3)},
    .call =
        [](const Tensors& in) {
          return permute(in[0], {0, 2});
        },
    .refused = "permute: axis 2 is out of range for rank 2; expected -2 to 1");

OP_ROW(
    "stop_gradient", .op = "stop_gradient", .inputs = {f(3, 5)},
    .call = [](const Tensors& in) { return stop_gradient(in[0]); },
    .reference = [](const auto& in) { return in[0]; }, .half = true, .order = 0,
    .why = "there is no way back, whatever the value says");
OP_ROW(
    "stop_gradient empty", .op = "stop_gradient", .inputs = {f(0)},
    .call = [](const Tensors& in) { return stop_gradient(in[0]); },
    .reference = [](const auto& in) { return in[0]; }, .order = 0,
    .why = "there is no way back, whatever the value says");

// ---- pad ----

void add_pad(const std::string& name, const Shape& shape, std::vector<Padding> around,
             double value) {
  add_row(row(
      name, "pad", {Input{.shape = shape}},
      [=](const Tensors& in) { return pad(in[0], around, value); }, analytic([=](const auto& in) {
        using T = typename std::decay_t<decltype(in[0])>::Element;
        std::vector<std::int64_t> dims;
        for (int d = 0; d < shape.rank(); ++d) {
          const Padding& p = around[static_cast<std::size_t>(d)];
          dims.push_back(p.before + shape[d] + p.after);
        }
        return build<T>(Shape(dims), [&](const Index& i) {
          Index at{};
          for (int d = 0; d < shape.rank(); ++d) {
            const auto k = static_cast<std::size_t>(d);
            at[k] = i[k] - around[k].before;
            if (at[k] < 0 || at[k] >= shape[d]) return T(value);
          }
          return in[0].at(at);
        });
      })));
}

[[maybe_unused]] const bool pads = [] {
  add_pad("pad vector", {3}, {{2, 1}}, 0);
  add_pad("pad matrix", {3, 5}, {{1, 0}, {0, 2}}, 0.5);
  add_pad("pad cube", {2, 3, 2}, {{1, 1}, {2, 0}, {1, 3}}, -1.25);
  add_pad("pad inner of more", {2, 3, 2, 1}, {{0, 0}, {1, 1}, {2, 2}, {0, 0}}, 0);
  add_pad("pad nothing", {0, 2}, {{1, 1}, {0, 1}}, 2);
  add_pad("pad one", {1}, {{0, 1}}, 0);
  return true;
}();
OP_ROW(
    "pad integers", .op = "pad", .inputs = {ids({3}, 100, DType::i32)},
    .call =
        [](const Tensors& in) {
          return pad(in[0], {{1, 1}}, -1);
        },
    .reference =
        [](const auto& in) {
          Array<double> y({5}, -1);
          for (int i = 0; i < 3; ++i) y[i + 1] = in[0][i];
          return y;
        });
OP_ROW(
    "pad negative", .op = "pad", .inputs = {f(3)},
    .call =
        [](const Tensors& in) {
          return pad(in[0], {{-1, 0}});
        },
    .refused = "pad: -1 and 0 around axis 0 of f32(3); expected 0 or more");
OP_ROW(
    "pad too few", .op = "pad", .inputs = {f(3, 2)},
    .call =
        [](const Tensors& in) {
          return pad(in[0], {{1, 0}});
        },
    .refused = "pad: 1 pairs were given for f32(3, 2), expected 2");

// ---- tile, flip, broadcast_to ----

void add_tile(const std::string& name, const Shape& shape, std::vector<std::int64_t> repeats) {
  Row r = row(
      name, "tile", {Input{.shape = shape}},
      [=](const Tensors& in) { return tile(in[0], repeats); }, analytic([=](const auto& in) {
        using T = typename std::decay_t<decltype(in[0])>::Element;
        std::vector<std::int64_t> dims;
        for (int d = 0; d < shape.rank(); ++d)
          dims.push_back(shape[d] * repeats[static_cast<std::size_t>(d)]);
        return build<T>(Shape(dims), [&](const Index& i) {
          Index at{};
          for (int d = 0; d < shape.rank(); ++d)
            at[static_cast<std::size_t>(d)] = i[static_cast<std::size_t>(d)] % shape[d];
          return in[0].at(at);
        });
      }));
  add_row(r);
}

void add_flip(const std::string& name, const Shape& shape, std::vector<int> axes) {
  add_row(row(
      name, "flip", {Input{.shape = shape}}, [=](const Tensors& in) { return flip(in[0], axes); },
      analytic([=](const auto& in) {
        using T = typename std::decay_t<decltype(in[0])>::Element;
        return build<T>(shape, [&](Index i) {
          for (const int a : axes) {
            const int d = a < 0 ? a + shape.rank() : a;
            auto& at = i[static_cast<std::size_t>(d)];
            at = shape[d] - 1 - at;
          }
          return in[0].at(i);
        });
      })));
}

void add_broadcast(const std::string& name, const Shape& from, const Shape& to) {
  add_row(row(
      name, "broadcast_to", {Input{.shape = from}},
      [=](const Tensors& in) { return broadcast_to(in[0], to); }, analytic([=](const auto& in) {
        using T = typename std::decay_t<decltype(in[0])>::Element;
        return build<T>(to, [&](const Index& i) { return broadcast_at(in[0], i, to.rank()); });
      })));
}

[[maybe_unused]] const bool repeats = [] {
  add_tile("tile vector", {3}, {4});
  add_tile("tile matrix", {2, 3}, {3, 2});
  add_tile("tile cube", {2, 1, 3}, {1, 5, 2});
  add_tile("tile once", {2, 3}, {1, 1});
  add_tile("tile nothing", {2, 0, 3}, {2, 3, 1});
  add_tile("tile never", {2, 3}, {2, 0});
  add_tile("tile scalar", {}, {});
  add_tile("tile rank 8", {1, 2, 1, 1, 2, 1, 1, 2}, {2, 1, 1, 3, 1, 1, 1, 2});
  add_flip("flip vector", {7}, {0});
  add_flip("flip one of two", {3, 5}, {-1});
  add_flip("flip rows", {3, 5}, {0});
  add_flip("flip both", {3, 5}, {0, 1});
  add_flip("flip middle", {2, 3, 4}, {1});
  add_flip("flip one element", {1}, {0});
  add_flip("flip empty", {0, 3}, {0, 1});
  add_flip("flip threads", {200, 301}, {0, 1});
  add_broadcast("broadcast nothing", {0, 1}, {2, 0, 3});
  add_broadcast("broadcast_to rows", {5}, {3, 5});
  add_broadcast("broadcast_to columns", {3, 1}, {3, 5});
  add_broadcast("broadcast_to both", {2, 1, 3, 1}, {2, 4, 3, 5});
  add_broadcast("broadcast_to from scalar", {}, {2, 3});
  add_broadcast("broadcast_to nothing", {1, 3}, {0, 3});
  add_broadcast("broadcast_to threads", {300, 1}, {300, 201});
  return true;
}();
void add_refused_padding(const std::string& name, DType dtype, double value, std::string refused) {
  add_row({.name = "pad of " + name,
           .op = "pad",
           .inputs = {Input{.shape = {2}}.as(dtype).of({0, 1})},
           .call =
               [=](const Tensors& in) {
                 return pad(in[0], std::array{Padding{1, 1}}, value);
               },
           .refused = std::move(refused)});
}
[[maybe_unused]] const bool refused_paddings = [] {
  add_refused_padding("i32 with infinity", DType::i32, INFINITY,
                      "pad: inf is no element of i32; expected a whole number from -2147483648 to "
                      "2147483647, or a tensor of another type");
  add_refused_padding("i32 with a fraction", DType::i32, 0.5, "pad: 0.5 is no element of i32");
  add_refused_padding("i64 with 2 to the 63", DType::i64, 0x1p63,
                      "pad: 9.223372036854776e+18 is no element of i64; expected a whole number "
                      "from -9223372036854775808 to 9223372036854775807");
  add_refused_padding("u8 with 300", DType::u8, 300,
                      "pad: 300 is no element of u8; expected a whole number from 0 to 255");
  add_refused_padding("u8 with -1", DType::u8, -1, "pad: -1 is no element of u8");
  add_refused_padding("bools with 2", DType::boolean, 2,
                      "pad: 2 is no element of bool; expected 0 or 1");
  add_refused_padding("i64 with nan", DType::i64, NAN, "pad: nan is no element of i64");
  return true;
}();
OP_ROW(
    "tile negative", .op = "tile", .inputs = {f(2)},
    .call = [](const Tensors& in) { return tile(in[0], {-1}); },
    .refused = "tile: axis 0 of f32(2) is repeated -1 times; expected 0 or more");
OP_ROW(
    "tile too many", .op = "tile", .inputs = {f(2)},
    .call = [](const Tensors& in) { return tile(in[0], {kEnd}); },
    .refused = "tile: axis 0 of f32(2) repeated 9223372036854775807 times is too long");
OP_ROW(
    "flip bad axis", .op = "flip", .inputs = {f(2, 3)},
    .call = [](const Tensors& in) { return flip(in[0], {-3}); },
    .refused = "flip: axis -3 is out of range for rank 2; expected -2 to 1");
OP_ROW(
    "flip axis twice", .op = "flip", .inputs = {f(2, 3)},
    .call =
        [](const Tensors& in) {
          return flip(in[0], {0, 0});
        },
    .refused = "flip: axis 0 is there twice");
OP_ROW(
    "broadcast_to mismatch", .op = "broadcast_to", .inputs = {f(2, 3)},
    .call =
        [](const Tensors& in) {
          return broadcast_to(in[0], {4, 3});
        },
    .refused = "broadcast_to: f32(2, 3) does not broadcast to (4, 3)");
OP_ROW(
    "broadcast_to lower rank", .op = "broadcast_to", .inputs = {f(1, 3)},
    .call = [](const Tensors& in) { return broadcast_to(in[0], {3}); },
    .refused = "broadcast_to: f32(1, 3) does not broadcast to (3)");

}  // namespace
}  // namespace ebb::table
