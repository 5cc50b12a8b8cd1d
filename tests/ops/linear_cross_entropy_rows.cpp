// The projection and cross-entropy in one, and its way back.
#include "ebb/ops/linear_cross_entropy.hpp"

#include "ebb/ops/cast.hpp"

#include "ebb/ops/apply.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

constexpr std::int64_t kIgnore = 7;

// x, weight, labels, dsum[, dweight so far] → dweight, dx, sum, count, row by row.
template <class T>
Arrays<T> reference(const Arrays<T>& in, double smoothing, T dsum) {
  const std::int64_t classes = in[1].dim(0), width = in[1].dim(1), rows = in[2].size();
  Array<T> dw = in.size() > 4 ? in[4] : Array<T>(in[1].shape), dx(in[0].shape);
  T sum = 0, count = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (whole(in[2][r]) == kIgnore) continue;
    count += 1.0;
    std::vector<T> logits(static_cast<std::size_t>(classes));
    T total = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      T& logit = logits[static_cast<std::size_t>(c)];
      for (std::int64_t i = 0; i < width; ++i) logit += in[0][r * width + i] * in[1][c * width + i];
    }
    const T first = logits[0];
    for (const T& logit : logits) total += std::exp(logit - first);
    const T lse = first + std::log(total);
    for (std::int64_t c = 0; c < classes; ++c) {
      const T logit = logits[static_cast<std::size_t>(c)];
      const double target =
          smoothing / static_cast<double>(classes) + (whole(in[2][r]) == c ? 1 - smoothing : 0);
      sum += target * (lse - logit);
      const T g = dsum * (std::exp(logit - lse) - target);
      for (std::int64_t i = 0; i < width; ++i) {
        dx[r * width + i] += g * in[1][c * width + i];
        dw[c * width + i] += g * in[0][r * width + i];
      }
    }
  }
  return {dw, dx, scalar(sum), scalar(count)};
}

struct Case {
  std::string name;
  Shape x;
  std::int64_t classes;
  DType labels = DType::i64;
  double smoothing = 0;
  std::vector<double> exactly{};
  bool half = false;
};

void add(const Case& c) {
  const std::int64_t width = c.x[c.x.rank() - 1];
  const Shape rows(c.x.dims().first(static_cast<std::size_t>(c.x.rank() - 1)));
  Input labels = ids(rows, std::max<std::int64_t>(c.classes, 1), c.labels);
  if (!c.exactly.empty()) labels = labels.of(c.exactly);
  const Input x = Input{.shape = c.x}.in(-1, 1), weight = f(c.classes, width).in(-1, 1);
  const double smoothing = c.smoothing;
  add_row({.name = "linear_cross_entropy " + c.name,
           .op = "linear_cross_entropy",
           .inputs = {x, weight, labels},
           .call =
               [=](const Tensors& in) {
                 const Loss loss = linear_cross_entropy(
                     in[0], in[1], in[2], {.ignore_index = kIgnore, .label_smoothing = smoothing});
                 return Tensors{loss.sum, loss.count};
               },
           .reference = analytic([=](const auto& in) {
             using T = typename std::decay_t<decltype(in[0])>::Element;
             const auto all = reference(in, smoothing, T(1));
             return std::vector{all[2], all[3]};
           }),
           .half = c.half});
  for (const bool so_far : {false, true}) {
    std::vector<Input> inputs{x, weight, labels, f()};
    if (so_far) inputs.push_back(weight);
    add_row(
        {.name = "linear_cross_entropy_backward " + c.name + (so_far ? " going on" : ""),
         .op = "linear_cross_entropy_backward",
         .inputs = inputs,
         .call =
             [=](const Tensors& in) {
               // Gradients of 16 bits are f32.
               const auto wide = [](const Tensor& t) {
                 return is_half(t.dtype()) ? cast(t, DType::f32) : t;
               };
               const Tensor dsum = wide(in[3]), dweight = wide(in.back());
               const Tensor* all[] = {&in[0], &in[1], &in[2], &dsum, &dweight};
               return apply_all(LinearCrossEntropyBackward{{kIgnore, smoothing}, so_far},
                                std::span(all, 4u + so_far));
             },
         .reference = analytic([=](const auto& in) { return reference(in, smoothing, in[3][0]); }),
         .half = c.half});
  }
}

[[maybe_unused]] const bool added = [] {
  add({.name = "rows", .x = {6, 4}, .classes = 5, .half = true});
  add({.name = "smooth", .x = {4, 3}, .classes = 17, .labels = DType::i32, .smoothing = 0.1});
  add({.name = "sequences", .x = {2, 3, 5}, .classes = 4, .labels = DType::i32});
  add({.name = "one row", .x = {3}, .classes = 6});
  add({.name = "one class", .x = {3, 2}, .classes = 1});
  add({.name = "width 1", .x = {3, 1}, .classes = 9});
  add({.name = "ignored",
       .x = {4, 3},
       .classes = 5,
       .smoothing = 0.2,
       .exactly = {1, 7, 0, 7},
       .half = true});
  add({.name = "all ignored", .x = {2, 3}, .classes = 5, .exactly = {7, 7}});
  add({.name = "no rows", .x = {0, 3}, .classes = 5});
  add({.name = "blocks", .x = {5, 3}, .classes = 1100, .smoothing = 0.1});
  add({.name = "threads", .x = {130, 33}, .classes = 777, .labels = DType::i32});
  return true;
}();

// Going on from a sum that is given last.
OP_ROW(
    "linear_cross_entropy so far", .op = "linear_cross_entropy",
    .inputs = {f(6, 4), f(5, 4), ids({6}, 5), f()},
    .call =
        [](const Tensors& in) {
          const Tensor* all[] = {&in[0], &in[1], &in[2], &in[3]};
          const auto made = apply_all(LinearCrossEntropy{{kIgnore, 0}, true}, all);
          return Tensors{made[0], made[1]};
        },
    .reference = analytic([](const auto& in) {
      using T = typename std::decay_t<decltype(in[0])>::Element;
      auto all = reference(in, 0.0, T(1));
      all[2][0] += in[3][0];
      return std::vector{all[2], all[3]};
    }));
OP_ROW(
    "linear_cross_entropy_backward so far", .op = "linear_cross_entropy_backward",
    .inputs = {f(6, 4), f(5, 4), ids({6}, 5), f(), f()},
    .call =
        [](const Tensors& in) {
          const Tensor* all[] = {&in[0], &in[1], &in[2], &in[3], &in[4]};
          return apply_all(LinearCrossEntropyBackward{{kIgnore, 0}, false, true}, all);
        },
    .reference = analytic([](const auto& in) {
      auto all = reference({in.begin(), in.begin() + 4}, 0.0, in[3][0]);
      all[2][0] += in[4][0];
      return all;
    }));

const auto kCall = [](const Tensors& in) { return linear_cross_entropy(in[0], in[1], in[2]).sum; };

OP_ROW("linear: labels of bytes", .op = "linear_cross_entropy",
       .inputs = {f(3, 2).in(-1, 1), f(5, 2).in(-1, 1), ids({3}, 5, DType::u8)}, .call = kCall,
       .reference = analytic([](const auto& in) {
         using T = typename std::decay_t<decltype(in[0])>::Element;
         return reference(in, 0, T(1))[2];
       }));
OP_ROW("linear: label out of range", .op = "linear_cross_entropy",
       .inputs = {f(3, 2), f(5, 2), ids({3}, 5).of({1, 5, 2})}, .call = kCall,
       .refused = "linear_cross_entropy: label 5 in row 1 is out of range for 5 classes");
OP_ROW("linear: label below zero", .op = "linear_cross_entropy",
       .inputs = {f(2, 2), f(5, 2), ids({2}, 5, DType::i32).of({0, -1})}, .call = kCall,
       .refused = "linear_cross_entropy: label -1 in row 1 is out of range for 5 classes");
OP_ROW("linear: another width", .op = "linear_cross_entropy",
       .inputs = {f(3, 2), f(5, 3), ids({3}, 5)}, .call = kCall,
       .refused =
           "linear_cross_entropy: x is f32(3, 2) and the weight f32(5, 3); expected "
           "(…, width) and (classes, width)");
OP_ROW("linear: labels for other rows", .op = "linear_cross_entropy",
       .inputs = {f(3, 2), f(5, 2), ids({4}, 5)}, .call = kCall,
       .refused =
           "linear_cross_entropy: x is f32(3, 2) and the labels i64(4); expected a label "
           "for each row, (3)");
OP_ROW("linear: labels of floats", .op = "linear_cross_entropy", .inputs = {f(3, 2), f(5, 2), f(3)},
       .call = kCall,
       .refused = "linear_cross_entropy: the labels are f32(3); expected i32 or i64");
OP_ROW(
    "linear: too much smoothing", .op = "linear_cross_entropy",
    .inputs = {f(3, 2), f(5, 2), ids({3}, 5)},
    .call =
        [](const Tensors& in) {
          return linear_cross_entropy(in[0], in[1], in[2], {.label_smoothing = 1.5}).sum;
        },
    .refused = "linear_cross_entropy: the label smoothing is 1.5, expected 0 to 1");

}  // namespace
}  // namespace ebb::table
