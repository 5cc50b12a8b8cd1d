// Concat, stack, slice, split and unslice.
#include "ebb/ops/slice.hpp"

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

template <class T>
Array<T> joined(const Arrays<T>& parts, int axis) {
  std::vector<std::int64_t> dims(parts[0].shape.begin(), parts[0].shape.end());
  const auto along = static_cast<std::size_t>(axis);
  dims[along] = 0;
  for (const auto& p : parts) dims[along] += p.shape[axis];
  Array<T> y{Shape(dims)};
  std::int64_t begin = 0;
  for (const auto& p : parts) {
    for_each_index(p.shape, [&](Index i) {
      const T value = p.at(i);
      i[along] += begin;
      y.at(i) = value;
    });
    begin += p.shape[axis];
  }
  return y;
}

template <class T>
Array<T> cut(const Array<T>& x, int axis, std::int64_t begin, std::int64_t end,
             std::int64_t step = 1) {
  std::vector<std::int64_t> dims(x.shape.begin(), x.shape.end());
  const auto along = static_cast<std::size_t>(axis);
  dims[along] = (end - begin + step - 1) / step;
  return build<T>(Shape(dims), [&](Index i) {
    i[along] = begin + i[along] * step;
    return x.at(i);
  });
}

void add_concat(const std::string& name, std::vector<Input> parts, int axis) {
  const int front = axis < 0 ? axis + parts[0].shape.rank() : axis;
  add_row({.name = name,
           .op = "concat",
           .inputs = std::move(parts),
           .call = [axis](const Tensors& in) { return concat(in, axis); },
           .reference = analytic([front](const auto& in) { return joined(in, front); }),
           .half = true});
}

[[maybe_unused]] const bool concats = [] {
  add_concat("concat vectors", {f(3), f(1), f(4)}, 0);
  add_concat("concat rows", {f(2, 3), f(4, 3)}, 0);
  add_concat("concat columns", {f(3, 2), f(3, 1), f(3, 5)}, -1);
  add_concat("concat middle", {f(2, 3, 2), f(2, 1, 2)}, 1);
  add_concat("concat one", {f(2, 3)}, 1);
  add_concat("concat with empty", {f(2, 0), f(2, 3), f(2, 0)}, 1);
  add_concat("concat ten", std::vector<Input>(10, f(2, 2)), 1);
  add_concat("concat threads", {f(300, 150), f(300, 151)}, 1);
  return true;
}();
OP_ROW(
    "concat labels", .op = "concat", .inputs = {ids({2}, 9), ids({3}, 9)},
    .call = [](const Tensors& in) { return concat(in); },
    .reference = [](const auto& in) { return joined(in, 0); });
OP_ROW(
    "concat shapes differ", .op = "concat", .inputs = {f(2, 3), f(3, 3)},
    .call = [](const Tensors& in) { return concat(in, 1); },
    .refused = "concat: f32(2, 3) and f32(3, 3) (part 1) differ beside axis 1");
OP_ROW(
    "concat types differ", .op = "concat", .inputs = {f(2), ids({2}, 3)},
    .call = [](const Tensors& in) { return concat(in); },
    .refused = "concat: f32(2) and i64(2) differ in type; cast one");
OP_ROW(
    "concat of nothing", .op = "concat", .inputs = {f(2)},
    .call = [](const Tensors&) { return concat(std::span<const Tensor>()); },
    .refused = "concat: no tensors were given, expected one or more");
OP_ROW(
    "concat bad axis", .op = "concat", .inputs = {f(2), f(2)},
    .call = [](const Tensors& in) { return concat(in, 1); },
    .refused = "concat: axis 1 is out of range for rank 1; expected -1 to 0");

void add_stack(const std::string& name, const Shape& shape, int axis, std::size_t parts) {
  const int front = axis < 0 ? axis + shape.rank() + 1 : axis;
  add_row({.name = name,
           .op = "concat",
           .inputs = std::vector<Input>(parts, Input{.shape = shape}),
           .call = [axis](const Tensors& in) { return stack(in, axis); },
           .reference = analytic([=](auto in) {
             std::vector<std::int64_t> dims(shape.begin(), shape.end());
             dims.insert(dims.begin() + front, 1);
             for (auto& x : in) x.shape = Shape(dims);
             return joined(in, front);
           }),
           .half = true});
}

[[maybe_unused]] const bool stacks = [] {
  add_stack("stack scalars", {}, 0, 3);
  add_stack("stack front", {2, 3}, 0, 2);
  add_stack("stack back", {2, 3}, -1, 3);
  add_stack("stack middle", {2, 3}, 1, 1);
  return true;
}();
OP_ROW(
    "stack shapes differ", .op = "concat", .inputs = {f(2, 3), f(3, 3)},
    .call = [](const Tensors& in) { return stack(in); },
    .refused = "stack: f32(2, 3) and f32(3, 3) (part 1) differ");

void add_slice(const std::string& name, const Shape& shape, int axis, std::int64_t begin,
               std::int64_t end, std::int64_t step = 1) {
  add_row({.name = name,
           .op = "slice",
           .inputs = {Input{.shape = shape}},
           .call = [=](const Tensors& in) { return slice(in[0], axis, begin, end, step); },
           .reference = analytic([=](const auto& in) {
             const int front = axis < 0 ? axis + shape.rank() : axis;
             const auto at = [&](std::int64_t i) {
               return i == kEnd ? shape[front] : i < 0 ? i + shape[front] : i;
             };
             return cut(in[0], front, at(begin), at(end), step);
           }),
           .half = true});
}

[[maybe_unused]] const bool slices = [] {
  add_slice("slice rows", {5, 3}, 0, 1, 4);
  add_slice("slice columns", {3, 5}, 1, 2, 4);
  add_slice("slice middle", {2, 5, 3}, 1, 1, 3);
  add_slice("slice step", {2, 7}, -1, 1, kEnd, 2);
  add_slice("slice step of rows", {7, 2}, 0, 0, 7, 3);
  add_slice("slice from the back", {6}, 0, -4, -1);
  add_slice("slice behind ones", {1, 5, 2}, 1, 1, 4);
  add_slice("slice to nothing", {4, 2}, 0, 3, 3);
  add_slice("slice columns to nothing", {2, 4}, 1, 4, 4);
  add_slice("slice of nothing", {0, 3}, 1, 1, 3);
  add_slice("slice of no columns", {3, 0}, 0, 1, 2);
  add_slice("slice single", {1, 1}, 1, 0, 0);
  add_slice("slice threads", {400, 301}, 1, 1, 300, 2);
  return true;
}();
OP_ROW(
    "slice out of range", .op = "slice", .inputs = {f(4, 2)},
    .call = [](const Tensors& in) { return slice(in[0], 0, 1, 5); },
    .refused = "slice: 1:5 is out of range for axis 0 of f32(4, 2); expected 0 to 4");
OP_ROW(
    "slice backwards", .op = "slice", .inputs = {f(4, 2)},
    .call = [](const Tensors& in) { return slice(in[0], 0, 3, 0, -1); },
    .refused = "slice: 3:0:-1 is out of range for axis 0 of f32(4, 2); expected 0 to 4");
OP_ROW(
    "slice bad axis", .op = "slice", .inputs = {f(4, 2)},
    .call = [](const Tensors& in) { return slice(in[0], 2, 0, 1); },
    .refused = "slice: axis 2 is out of range for rank 2; expected -2 to 1");

OP_ROW(
    "split equal", .op = "slice", .inputs = {f(2, 6)},
    .call = [](const Tensors& in) { return split(in[0], 3, 1); },
    .reference = analytic([](const auto& in) {
      return std::vector{cut(in[0], 1, 0, 2), cut(in[0], 1, 2, 4), cut(in[0], 1, 4, 6)};
    }),
    .half = true);
OP_ROW(
    "split sizes", .op = "slice", .inputs = {f(6, 2)},
    .call =
        [](const Tensors& in) {
          return split(in[0], {1, 0, 5}, 0);
        },
    .reference = analytic([](const auto& in) {
      return std::vector{cut(in[0], 0, 0, 1), cut(in[0], 0, 1, 1), cut(in[0], 0, 1, 6)};
    }),
    .half = true);
OP_ROW(
    "split does not divide", .op = "slice", .inputs = {f(2, 5)},
    .call = [](const Tensors& in) { return split(in[0], 2, 1); },
    .refused = "split: axis 1 of f32(2, 5) cannot be cut into 2 equal parts");
OP_ROW(
    "split sizes do not add up", .op = "slice", .inputs = {f(5)},
    .call =
        [](const Tensors& in) {
          return split(in[0], {2, 2});
        },
    .refused = "split: the parts of axis 0 of f32(5) add up to 4, expected 5");

template <class T>
Array<T> put(const Array<T>& x, const Slice& at, Array<T> y) {
  for_each_index(x.shape, [&](Index i) {
    const T value = x.at(i);
    auto& k = i[static_cast<std::size_t>(at.axis)];
    k = at.begin + k * at.step;
    y.at(i) += value;
  });
  return y;
}

void add_unslice(const std::string& name, const Shape& part, const Slice& at, std::int64_t size) {
  std::vector<std::int64_t> dims(part.begin(), part.end());
  dims[static_cast<std::size_t>(at.axis)] = size;
  const Shape whole(dims);
  add_row({.name = name,
           .op = "unslice",
           .inputs = {Input{.shape = part}},
           .call = [=](const Tensors& in) { return unslice(in[0], at, size); },
           .reference = analytic([=](const auto& in) {
             return put(in[0], at, std::decay_t<decltype(in[0])>(whole));
           }),
           .half = true});
  add_row({.name = name + " into",
           .op = "unslice",
           .inputs = {Input{.shape = part}, Input{.shape = whole}},
           .call = [=](const Tensors& in) { return unslice(in[0], at, size, in[1]); },
           .reference = analytic([=](const auto& in) { return put(in[0], at, in[1]); }),
           .half = true});
}

[[maybe_unused]] const bool unslices = [] {
  add_unslice("unslice rows", {2, 3}, {0, 1, 3, 1}, 5);
  add_unslice("unslice columns", {3, 2}, {1, 1, 3, 1}, 4);
  add_unslice("unslice step", {2, 3}, {1, 1, 6, 2}, 7);
  add_unslice("unslice nothing", {0, 3}, {0, 2, 2, 1}, 4);
  add_unslice("unslice threads", {200, 150}, {1, 0, 300, 2}, 301);
  return true;
}();
OP_ROW(
    "unslice wrong part", .op = "unslice", .inputs = {f(2, 3)},
    .call =
        [](const Tensors& in) {
          return unslice(in[0], {0, 0, 3, 1}, 5);
        },
    .refused = "unslice: f32(2, 3) is not the slice 0:3 of f32(5, 3), which is f32(3, 3)");

}  // namespace
}  // namespace ebb::table
