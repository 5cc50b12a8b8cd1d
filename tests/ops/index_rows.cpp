// Gather, embedding, scatter_add, take_along, put_along_add, one_hot.
#include "ebb/ops/index.hpp"

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

// Where element i of gather(x, indices, axis) comes from.
template <class T>
Index picked(const Index& i, const Array<T>& indices, int axis, int rank) {
  Index which{}, at{};
  for (int d = 0; d < indices.rank(); ++d)
    which[static_cast<std::size_t>(d)] = i[static_cast<std::size_t>(axis + d)];
  for (int d = 0; d < rank; ++d) {
    const int from = d < axis ? d : d + indices.rank() - 1;
    at[static_cast<std::size_t>(d)] =
        d == axis ? whole(indices.at(which)) : i[static_cast<std::size_t>(from)];
  }
  return at;
}

Shape spliced(const Shape& x, int axis, const Shape& indices) {
  std::vector<std::int64_t> dims(x.begin(), x.end());
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, indices.begin(), indices.end());
  return Shape(dims);
}

void add_gather(const std::string& name, const Shape& x, const Input& indices, int axis) {
  const int front = axis < 0 ? axis + x.rank() : axis;
  const Shape to = spliced(x, front, indices.shape);
  add_row({.name = "gather " + name,
           .op = "gather",
           .inputs = {Input{.shape = x}, indices},
           .call = [axis](const Tensors& in) { return gather(in[0], in[1], axis); },
           .reference = analytic([=](const auto& in) {
             using T = typename std::decay_t<decltype(in[0])>::Element;
             return build<T>(
                 to, [&](const Index& i) { return in[0].at(picked(i, in[1], front, x.rank())); });
           }),
           .half = true});
  // The way back: from zeros, and added to something.
  const auto add = [=](const auto& indices_in, const auto& updates, auto y) {
    for_each_index(updates.shape, [&](const Index& i) {
      y.at(picked(i, indices_in, front, x.rank())) += updates.at(i);
    });
    return y;
  };
  add_row(
      {.name = "scatter_add " + name,
       .op = "scatter_add",
       .inputs = {indices, Input{.shape = to}},
       .call = [=](const Tensors& in) { return scatter_add_along(in[0], in[1], front, x[front]); },
       .reference = analytic(
           [=](const auto& in) { return add(in[0], in[1], std::decay_t<decltype(in[0])>(x)); })});
  add_row({.name = "scatter_add into " + name,
           .op = "scatter_add",
           .inputs = {indices, Input{.shape = to}, Input{.shape = x}},
           .call =
               [=](const Tensors& in) {
                 return scatter_add_along(in[0], in[1], front, x[front], in[2]);
               },
           .reference = analytic([=](const auto& in) { return add(in[0], in[1], in[2]); }),
           .half = true,
           .tolerance = {.half = 2},
           .why = "a sum that cancels is off by a rounding of what went into it"});
}

[[maybe_unused]] const bool gathers = [] {
  add_gather("rows", {5, 3}, ids({7}, 5), 0);
  add_gather("elements", {6}, ids({4}, 6, DType::i32), 0);
  add_gather("elements of bytes", {6}, ids({9}, 6, DType::u8), 0);
  add_gather("columns", {3, 5}, ids({4}, 5, DType::i32), 1);
  add_gather("middle", {2, 4, 3}, ids({2, 3}, 4), -2);
  add_gather("batch of ids", {7, 2}, ids({2, 3}, 7), 0);
  add_gather("one id", {4, 3}, ids({}, 4), 0);
  add_gather("nothing", {4, 3}, ids({0}, 4), 0);
  add_gather("from nothing", {0, 3}, ids({0}, 1), 0);
  add_gather("empty rows", {4, 0}, ids({3}, 4), 0);
  add_gather("one row again and again", {1, 2}, ids({5}, 1), 0);
  add_gather("threads wide", {40, 260}, ids({150}, 40), 0);
  add_gather("threads narrow", {90, 3}, ids({9000}, 90), 0);
  add_gather("threads outer", {16, 30, 20}, ids({100}, 30), 1);
  return true;
}();

OP_ROW(
    "embedding", .op = "gather", .inputs = {f(6, 4), ids({2, 3}, 6)},
    .call = [](const Tensors& in) { return embedding(in[0], in[1]); },
    .reference = analytic([](const auto& in) {
      using T = typename std::decay_t<decltype(in[0])>::Element;
      return build<T>({2, 3, 4},
                      [&](const Index& i) { return in[0](whole(in[1](i[0], i[1])), i[2]); });
    }),
    .half = true);
OP_ROW(
    "scatter_add to a base", .op = "scatter_add", .inputs = {f(4, 3), ids({5}, 4), f(5, 3)},
    .call = [](const Tensors& in) { return scatter_add(in[0], in[1], in[2]); },
    .reference = analytic([](const auto& in) {
      auto y = in[0];
      for (int j = 0; j < 5; ++j)
        for (int c = 0; c < 3; ++c) y(whole(in[1][j]), c) += in[2](j, c);
      return y;
    }));
OP_ROW(
    "scatter_add counts", .op = "scatter_add",
    .inputs = {ints({4}, 0, 9, DType::i64), ids({20}, 4, DType::i32), ints({20}, 0, 9, DType::i64)},
    .call = [](const Tensors& in) { return scatter_add(in[0], in[1], in[2]); },
    .reference =
        [](const auto& in) {
          auto y = in[0];
          for (int j = 0; j < 20; ++j) y[whole(in[1][j])] += in[2][j];
          return y;
        });

OP_ROW(
    "gather out of range", .op = "gather", .inputs = {f(10, 4), ids({5}, 10).of({0, 9, 3, 12, 40})},
    .call = [](const Tensors& in) { return gather(in[0], in[1]); },
    .refused =
        "gather: index 12 at position 3 is out of range for axis 0 of f32(10, 4); "
        "expected 0 to 9");
OP_ROW(
    "gather negative index", .op = "gather",
    .inputs = {f(2, 3), ids({2}, 3, DType::i32).of({0, -1})},
    .call = [](const Tensors& in) { return gather(in[0], in[1], 1); },
    .refused =
        "gather: index -1 at position 1 is out of range for axis 1 of f32(2, 3); "
        "expected 0 to 2");
OP_ROW(
    "gather from nothing at all", .op = "gather", .inputs = {f(0, 3), ids({1}, 1)},
    .call = [](const Tensors& in) { return gather(in[0], in[1]); },
    .refused =
        "gather: index 0 at position 0 is out of range for axis 0 of f32(0, 3); it has none");
OP_ROW(
    "gather by floats", .op = "gather", .inputs = {f(2, 3), f(2)},
    .call = [](const Tensors& in) { return gather(in[0], in[1]); },
    .refused = "gather: the indices are f32(2); expected i32, i64 or u8");
OP_ROW(
    "gather bad axis", .op = "gather", .inputs = {f(2, 3), ids({2}, 2)},
    .call = [](const Tensors& in) { return gather(in[0], in[1], 2); },
    .refused = "gather: axis 2 is out of range for rank 2; expected -2 to 1");
OP_ROW(
    "gather rank too high", .op = "gather", .inputs = {f(1, 1, 1, 1, 1), ids({1, 1, 1, 1, 1}, 1)},
    .call = [](const Tensors& in) { return gather(in[0], in[1]); },
    .refused = "has rank 9, above the largest, 8");
OP_ROW(
    "embedding of a vector", .op = "gather", .inputs = {f(2), ids({2}, 2)},
    .call = [](const Tensors& in) { return embedding(in[0], in[1]); },
    .refused = "embedding: the weight is f32(2); expected (rows, width)");
OP_ROW(
    "scatter_add out of range", .op = "scatter_add",
    .inputs = {f(3, 2), ids({2}, 3).of({1, 3}), f(2, 2)},
    .call = [](const Tensors& in) { return scatter_add(in[0], in[1], in[2]); },
    .refused =
        "scatter_add: index 3 at position 1 is out of range for axis 0 of f32(3, 2); "
        "expected 0 to 2");
OP_ROW(
    "scatter_add updates do not fit", .op = "scatter_add",
    .inputs = {f(3, 2), ids({4}, 3), f(5, 2)},
    .call = [](const Tensors& in) { return scatter_add(in[0], in[1], in[2]); },
    .refused = "scatter_add: updates f32(5, 2) do not have the indices i64(4) at axis 0");
OP_ROW(
    "scatter_add base does not fit", .op = "scatter_add", .inputs = {f(3, 2), ids({4}, 3), f(4, 5)},
    .call = [](const Tensors& in) { return scatter_add(in[0], in[1], in[2]); },
    .refused = "scatter_add: the accumulator is f32(3, 2), expected f32(3, 5)");
OP_ROW(
    "scatter_add of bytes", .op = "scatter_add", .inputs = {ids({3}, 3), ids({3}, 9, DType::u8)},
    .call = [](const Tensors& in) { return scatter_add_along(in[0], in[1], 0, 3); },
    .refused = "scatter_add: u8(3) is not a floating, i32 or i64 type; cast it first");

// ---- take_along ----

void add_take_along(const std::string& name, const Shape& x, const Input& indices, int axis) {
  const int front = axis < 0 ? axis + x.rank() : axis;
  const auto along = static_cast<std::size_t>(front);
  const auto at = [along](Index i, const auto& indices_in) {
    const std::int64_t to = whole(indices_in.at(i));
    i[along] = to;
    return i;
  };
  add_row({.name = "take_along " + name,
           .op = "take_along",
           .inputs = {Input{.shape = x}, indices},
           .call = [axis](const Tensors& in) { return take_along(in[0], in[1], axis); },
           .reference = analytic([=](const auto& in) {
             using T = typename std::decay_t<decltype(in[0])>::Element;
             return build<T>(indices.shape, [&](const Index& i) { return in[0].at(at(i, in[1])); });
           }),
           .half = true});
  const auto add = [=](const auto& in, auto y) {
    for_each_index(in[1].shape, [&](const Index& i) { y.at(at(i, in[0])) += in[1].at(i); });
    return y;
  };
  add_row({.name = "put_along_add " + name,
           .op = "put_along_add",
           .inputs = {indices, Input{.shape = indices.shape}},
           .call = [=](const Tensors& in) { return put_along_add(in[0], in[1], axis, x[front]); },
           .reference = analytic(
               [=](const auto& in) { return add(in, std::decay_t<decltype(in[0])>(x)); })});
  add_row(
      {.name = "put_along_add into " + name,
       .op = "put_along_add",
       .inputs = {indices, Input{.shape = indices.shape}, Input{.shape = x}},
       .call =
           [=](const Tensors& in) { return put_along_add(in[0], in[1], axis, x[front], in[2]); },
       .reference = analytic([=](const auto& in) { return add(in, in[2]); })});
}

[[maybe_unused]] const bool takes = [] {
  add_take_along("last", {3, 5}, ids({3, 2}, 5), -1);
  add_take_along("first", {5, 3}, ids({4, 3}, 5, DType::i32), 0);
  add_take_along("middle", {2, 4, 3}, ids({2, 5, 3}, 4, DType::u8), 1);
  add_take_along("vector", {6}, ids({3}, 6), 0);
  add_take_along("one", {1}, ids({1}, 1), 0);
  add_take_along("nothing", {3, 4}, ids({3, 0}, 4), 1);
  add_take_along("from nothing", {0, 4}, ids({0, 2}, 4), 1);
  add_take_along("threads", {3, 20, 2500}, ids({3, 4, 2500}, 20), 1);
  add_take_along("threads rows", {4000, 5}, ids({4000, 3}, 5), 1);
  return true;
}();
OP_ROW(
    "take_along out of range", .op = "take_along", .inputs = {f(2, 3), ids({2, 1}, 3).of({2, 3})},
    .call = [](const Tensors& in) { return take_along(in[0], in[1], 1); },
    .refused =
        "take_along: index 3 at position 1 is out of range for axis 1 of f32(2, 3); "
        "expected 0 to 2");
OP_ROW(
    "take_along shapes differ", .op = "take_along", .inputs = {f(2, 3), ids({3, 1}, 3)},
    .call = [](const Tensors& in) { return take_along(in[0], in[1], 1); },
    .refused = "take_along: f32(2, 3) and the indices i64(3, 1) differ beside axis 1");
OP_ROW(
    "put_along_add shapes differ", .op = "put_along_add", .inputs = {ids({2, 1}, 3), f(2, 2)},
    .call = [](const Tensors& in) { return put_along_add(in[0], in[1], 1, 3); },
    .refused = "put_along_add: the indices i64(2, 1) and the updates f32(2, 2) differ in shape");

// ---- one_hot ----

void add_one_hot(const std::string& name, const Input& which, std::int64_t depth, DType dtype) {
  std::vector<std::int64_t> dims(which.shape.begin(), which.shape.end());
  dims.push_back(depth);
  const Shape to(dims);
  add_row({.name = name,
           .op = "one_hot",
           .inputs = {which},
           .call = [=](const Tensors& in) { return one_hot(in[0], depth, dtype); },
           .reference =
               [=](const auto& in) {
                 Array<double> y(to);
                 for (std::int64_t j = 0; j < in[0].size(); ++j) y[j * depth + whole(in[0][j])] = 1;
                 return y;
               }});
}

[[maybe_unused]] const bool one_hots = [] {
  add_one_hot("one_hot", ids({5}, 4), 4, DType::f32);
  add_one_hot("one_hot f64", ids({5}, 4, DType::i32), 4, DType::f64);
  add_one_hot("one_hot bf16", ids({3}, 4), 4, DType::bf16);
  add_one_hot("one_hot f16", ids({3}, 4), 4, DType::f16);
  add_one_hot("one_hot i32", ids({3}, 4), 5, DType::i32);
  add_one_hot("one_hot i64", ids({3}, 4), 5, DType::i64);
  add_one_hot("one_hot bytes", ids({2, 3}, 4, DType::u8), 4, DType::u8);
  add_one_hot("one_hot bool", ids({3}, 2), 2, DType::boolean);
  add_one_hot("one_hot of one", ids({}, 3), 3, DType::f32);
  add_one_hot("one_hot of nothing", ids({0, 2}, 3), 3, DType::f32);
  add_one_hot("one_hot threads", ids({2000}, 20), 20, DType::f32);
  return true;
}();
OP_ROW(
    "one_hot out of range", .op = "one_hot", .inputs = {ids({3}, 5).of({0, 4, 5})},
    .call = [](const Tensors& in) { return one_hot(in[0], 5); },
    .refused = "one_hot: index 5 at position 2 is out of range for depth 5; expected 0 to 4");
OP_ROW(
    "one_hot of floats", .op = "one_hot", .inputs = {f(3)},
    .call = [](const Tensors& in) { return one_hot(in[0], 5); },
    .refused = "one_hot: the indices are f32(3); expected i32, i64 or u8");
OP_ROW(
    "one_hot negative depth", .op = "one_hot", .inputs = {ids({3}, 5)},
    .call = [](const Tensors& in) { return one_hot(in[0], -2); },
    .refused = "one_hot: the depth is -2; expected 0 or more");

}  // namespace
}  // namespace ebb::table
