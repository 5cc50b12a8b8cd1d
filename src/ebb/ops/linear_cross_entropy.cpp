#include "ebb/ops/linear_cross_entropy.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/kernels/linear_cross_entropy.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/labels.hpp"
#include "ebb/ops/last_axis.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/products.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/softmax.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb {

using namespace ops;

namespace {

// The most scratch: so much, or this part of a large weight. Tiles of few rows are slower, and what
// reads a gigabyte of weights may hold the logits of 200 rows.
constexpr std::size_t kMostScratch = std::size_t{64} << 20;
constexpr double kPartOfWeight = 0.285;
constexpr std::size_t kLittleScratch = std::size_t{8} << 20;
constexpr std::size_t kLittleForward = std::size_t{2} << 20;

void check(const char* op, const Spec& x, const Spec& weight, const Spec& labels,
           double smoothing) {
  products::result_type(op, x, weight);
  if (x.rank() == 0 || weight.rank() != 2 || x.shape[x.rank() - 1] != weight.shape[1])
    throw Error(
        fmt::format("{}: x is {} and the weight {}; expected (…, width) and (classes, width)", op,
                    to_string(x), to_string(weight)));
  if (labels.dtype != DType::i32 && labels.dtype != DType::i64)
    throw Error(fmt::format("{}: the labels are {}; expected i32 or i64", op, to_string(labels)));
  const Shape rows(x.shape.dims().first(static_cast<std::size_t>(x.rank() - 1)));
  if (labels.shape != rows)
    throw Error(fmt::format("{}: x is {} and the labels {}; expected a label for each row, {}", op,
                            to_string(x), to_string(labels), to_string(rows)));
  if (!(smoothing >= 0 && smoothing <= 1))
    throw Error(fmt::format("{}: the label smoothing is {}, expected 0 to 1", op, smoothing));
}

// Sums and gradients of 16 bits are f32.
DType computed(const Spec& x) { return x.dtype == DType::f64 ? DType::f64 : DType::f32; }
Spec computed_like(const Spec& s) { return {s.shape, computed(s)}; }

kernels::LinearShape sizes(const Spec& x, const Spec& weight, bool backward) {
  const LastAxis r(x.shape);
  return {.rows = r.count,
          .classes = static_cast<std::size_t>(weight.shape[0]),
          .width = r.size,
          .element = size_of(computed(x)),
          .backward = backward,
          .x = products::storage(x.dtype),
          .weight = products::storage(weight.dtype)};
}

std::size_t most_scratch(const kernels::LinearShape& shape) {
  const double weight = static_cast<double>(shape.classes * shape.width * shape.element);
  return std::max(kMostScratch, static_cast<std::size_t>(weight * kPartOfWeight));
}

std::size_t scratch_within(const kernels::LinearShape& shape, std::size_t most) {
  return kernels::linear_scratch(shape, kernels::linear_tiles(shape, most));
}

// Of `products` products; one more where the logits are not kept.
double slowdown_within(const kernels::LinearShape& shape, int products, std::size_t scratch) {
  const auto time = [&](std::size_t bytes) {
    const auto tiles = kernels::linear_tiles(shape, bytes);
    return (products + !tiles.keep) * kernels::linear_slowness(tiles);
  };
  return time(scratch) / time(most_scratch(shape));
}

double product_flops(const kernels::LinearShape& s) {
  return 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.classes) *
         static_cast<double>(s.width);
}

// f(T{}, labels in their own type), all of them in range.
template <class F>
void with_types(const char* op, DType dtype, In labels, std::size_t classes, std::int64_t ignore,
                F&& f) {
  with_labels(op, labels, classes, ignore, [&](const auto* all) {
    with_float(dtype == DType::f64 ? dtype : DType::f32, [&](auto value) { f(value, all); });
  });
}

const Spec kCount{{}, DType::i64};

Tensor wide(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

}  // namespace

std::array<Spec, 2> LinearCrossEntropy::shape(Specs in) const {
  check_so_far(name, in, 3, accumulate);
  check(name, in[0], in[1], in[2], targets.smoothing);
  if (accumulate) check_so_far(name, in[3], computed(in[0]));
  return {Spec{{}, computed(in[0])}, kCount};
}
Cost LinearCrossEntropy::cost(Specs in) const {
  const double bytes = static_cast<double>(in[0].bytes() + in[1].bytes() + in[2].bytes());
  return {product_flops(sizes(in[0], in[1], false)), bytes, Work::product};
}
std::size_t LinearCrossEntropy::scratch(Specs in) const {
  return scratch_within(sizes(in[0], in[1], false), kMostScratch);
}
AnyOp LinearCrossEntropy::accumulating(Specs, int output) const {
  return output == 0 && !accumulate ? any_op(LinearCrossEntropy{targets, true}) : AnyOp();
}
std::size_t LinearCrossEntropy::least_scratch(Specs in) const {
  return scratch_within(sizes(in[0], in[1], false), kLittleForward);
}
double LinearCrossEntropy::slowdown(Specs in, std::size_t scratch) const {
  return slowdown_within(sizes(in[0], in[1], false), 0, scratch);
}

void LinearCrossEntropy::run(Ins in, Out sum, Out count, Scratch scratch) const {
  const In &x = in[0], &weight = in[1], &labels = in[2];
  const auto s = sizes(*x.spec, *weight.spec, false);
  with_types(name, x.dtype(), labels, s.classes, targets.ignore_index,
             [&](auto zero, const auto* all) {
               using T = decltype(zero);
               *sum.as<T>() = accumulate ? *in[3].as<T>() : T(0);
               *count.as<std::int64_t>() = 0;
               kernels::linear_cross_entropy(s, x.data, weight.data, all, targets, sum.as<T>(),
                                             count.as<std::int64_t>(), scratch);
             });
}

void LinearCrossEntropy::grad(Back& b) const {
  if (accumulate && b.wants(3)) b.give(3, b.d(0));
  if (!b.wants(0) && !b.wants(1)) return;
  const Spec &x = b.in_spec(0), &weight = b.in_spec(1);
  const bool whole = b.wants(1) && !is_half(weight.dtype);  // else the sum so far is rounded
  const Tensor so_far = whole ? b.take(1) : Tensor();
  const Tensor* in[] = {&b.in(0), &b.in(1), &b.in(2), &b.d(0), &so_far};
  const LinearCrossEntropyBackward op{targets, static_cast<bool>(so_far)};
  const auto d = so_far ? apply_all(op, std::span(in, 5), 4) : apply_all(op, std::span(in, 4));
  if (b.wants(0)) b.give(0, cast(d[1], x.dtype));
  if (b.wants(1)) b.give(1, cast(d[0], weight.dtype));
}

std::array<Spec, 4> LinearCrossEntropyBackward::shape(Specs in) const {
  const std::size_t expected = 4u + dweight_so_far + sum_so_far;
  if (in.size() != expected)
    throw Error(fmt::format("{}: {} inputs were given, expected {}", name, in.size(), expected));
  check(name, in[0], in[1], in[2], targets.smoothing);
  const Spec scalar{{}, computed(in[0])}, dweight = computed_like(in[1]);
  if (in[3] != scalar)
    throw Error(fmt::format("{}: the sum's gradient is {}, expected a scalar of {}", name,
                            to_string(in[3]), ebb::name(scalar.dtype)));
  if (dweight_so_far && in[4] != dweight)
    throw Error(fmt::format("{}: the accumulator is {}, expected {}", name, to_string(in[4]),
                            to_string(dweight)));
  if (sum_so_far) check_so_far(name, in[4u + dweight_so_far], scalar.dtype);
  return {dweight, computed_like(in[0]), scalar, kCount};
}
Cost LinearCrossEntropyBackward::cost(Specs in) const {
  const Spec dx = computed_like(in[0]), dweight = computed_like(in[1]);
  const double bytes = static_cast<double>(in[0].bytes() + dx.bytes() + in[1].bytes()) +
                       (1.0 + dweight_so_far) * static_cast<double>(dweight.bytes());
  return {3 * product_flops(sizes(in[0], in[1], true)), bytes, Work::product};
}

std::size_t LinearCrossEntropyBackward::scratch(Specs in) const {
  const auto s = sizes(in[0], in[1], true);
  return scratch_within(s, most_scratch(s));
}
std::size_t LinearCrossEntropyBackward::least_scratch(Specs in) const {
  return scratch_within(sizes(in[0], in[1], true), kLittleScratch);
}
double LinearCrossEntropyBackward::slowdown(Specs in, std::size_t scratch) const {
  return slowdown_within(sizes(in[0], in[1], true), 3, scratch);
}

void LinearCrossEntropyBackward::run(Ins in, Out dweight, Out dx, Out sum, Out count,
                                     Scratch scratch) const {
  const auto s = sizes(*in[0].spec, *in[1].spec, true);
  with_types(name, in[0].dtype(), in[2], s.classes, targets.ignore_index,
             [&](auto zero, const auto* all) {
               using T = decltype(zero);
               if (dweight_so_far && in[4].data != dweight.data)
                 std::memcpy(dweight.data, in[4].data, dweight.spec->bytes());
               *sum.as<T>() = sum_so_far ? *in[4u + dweight_so_far].as<T>() : T(0);
               *count.as<std::int64_t>() = 0;
               kernels::linear_cross_entropy_backward<T>(
                   s, in[0].data, in[1].data, all, targets,
                   {*in[3].as<T>(), dx.as<T>(), dweight.as<T>(), !dweight_so_far}, sum.as<T>(),
                   count.as<std::int64_t>(), scratch);
             });
}

BatchRule LinearCrossEntropyBackward::batch_rule(const BatchInputs& batch, int output) const {
  const bool rows = batch.carry == 0b101 && batch.in[0].rank() > 1 && (batch.sums & 0b1111) == 0;
  if (!rows || (batch.sums & overwrites(output)) != overwrites(output)) return BatchRule::mixed;
  return output == 1 ? BatchRule::per_example : BatchRule::summed;
}

AnyOp LinearCrossEntropyBackward::accumulating(Specs, int output) const {
  if (output != 2 || sum_so_far) return {};
  return any_op(LinearCrossEntropyBackward{targets, dweight_so_far, true});
}

Subsumed LinearCrossEntropyBackward::subsumes() const {
  const LinearCrossEntropy op{targets};
  return {.op = {op_type<LinearCrossEntropy>(), &op}, .inputs = 3, .from = 2};
}

std::array<Spec, 4> LinearCrossEntropyInputGrad::shape(Specs in) const {
  const auto whole = LinearCrossEntropyBackward{targets}.shape(in);
  const auto rows = static_cast<std::int64_t>(sizes(in[0], in[1], true).rows);
  return {whole[1], whole[2], whole[3], Spec{{rows, 2}, computed(in[0])}};
}
Cost LinearCrossEntropyInputGrad::cost(Specs in) const {
  return {2 * product_flops(sizes(in[0], in[1], true)),
          static_cast<double>(in[0].bytes() + computed_like(in[0]).bytes() + in[1].bytes()),
          Work::product};
}
std::size_t LinearCrossEntropyInputGrad::scratch(Specs in) const {
  const auto s = sizes(in[0], in[1], true);
  return scratch_within(s, most_scratch(s));
}
std::size_t LinearCrossEntropyInputGrad::least_scratch(Specs in) const {
  return scratch_within(sizes(in[0], in[1], true), kLittleScratch);
}
double LinearCrossEntropyInputGrad::slowdown(Specs in, std::size_t scratch) const {
  return slowdown_within(sizes(in[0], in[1], true), 2, scratch);
}

void LinearCrossEntropyInputGrad::run(Ins in, Out dx, Out sum, Out count, Out row_sums,
                                      Scratch scratch) const {
  const auto s = sizes(*in[0].spec, *in[1].spec, true);
  with_types(name, in[0].dtype(), in[2], s.classes, targets.ignore_index,
             [&](auto zero, const auto* all) {
               using T = decltype(zero);
               *sum.as<T>() = 0;
               *count.as<std::int64_t>() = 0;
               kernels::linear_cross_entropy_backward<T>(
                   s, in[0].data, in[1].data, all, targets,
                   {*in[3].as<T>(), dx.as<T>(), nullptr, false, row_sums.as<T>()}, sum.as<T>(),
                   count.as<std::int64_t>(), scratch);
             });
}

Spec LinearCrossEntropyWeightGrad::shape(Specs in) const {
  check(name, in[0], in[1], in[2], targets.smoothing);
  return computed_like(in[1]);
}
Cost LinearCrossEntropyWeightGrad::cost(Specs in) const {
  return {2 * product_flops(sizes(in[0], in[1], true)),
          static_cast<double>(in[0].bytes() + in[1].bytes() + computed_like(in[1]).bytes()),
          Work::product};
}
std::size_t LinearCrossEntropyWeightGrad::row_block_scratch(Specs in, std::int64_t some) const {
  auto s = sizes(in[0], in[1], true);
  s.classes = static_cast<std::size_t>(some);
  return kernels::linear_dweight_scratch(s);
}

void LinearCrossEntropyWeightGrad::run_row_block(Ins in, Out dweight, std::int64_t first,
                                                 Scratch scratch) const {
  const auto s = sizes(*in[0].spec, *in[1].spec, true);
  const auto all_classes = static_cast<std::size_t>(classes);
  with_types(name, in[0].dtype(), in[2], all_classes, targets.ignore_index,
             [&](auto zero, const auto* all) {
               using T = decltype(zero);
               if (dweight_so_far && in[5].data != dweight.data)
                 std::memcpy(dweight.data, in[5].data, dweight.spec->bytes());
               kernels::linear_cross_entropy_dweight<T>(
                   s, in[0].data, in[1].data, all, targets,
                   {*in[3].as<T>(), in[4].as<T>(), dweight.as<T>(), !dweight_so_far,
                    static_cast<std::size_t>(first), all_classes},
                   scratch);
             });
}

// With g = dsum * (softmax(logits) - target), the way back is dweight = gᵀ · x and dx = g · weight.
// The second order is for small models and for checks: it takes the logits as a whole.
void LinearCrossEntropyBackward::grad(Back& b) const {
  if (dweight_so_far && b.wants(4)) b.give(4, b.d(0));
  if (const int last = 4 + dweight_so_far; sum_so_far && b.wants(last)) b.give(last, b.d(2));
  if (!b.wants(0) && !b.wants(1) && !b.wants(3)) return;
  const Tensor weight = wide(b.in(1)), &dsum = b.in(3);
  const Shape matrix{b.in(2).shape().size(), weight.shape()[1]};
  const Tensor x = reshape(wide(b.in(0)), matrix), labels = reshape(b.in(2), {matrix[0]});
  const Tensor logits = matmul(x, weight, {.transpose_b = true});
  const Tensor unit =
      apply(SparseCrossEntropyBackward{targets}, logits, labels, Tensor::ones({}, x.dtype()));
  const Tensor g = unit * dsum;

  const bool from_dweight = b.has(0), from_dx = b.has(1), from_sum = b.has(2);
  Tensor adw, adx, along;  // along: the gradient of g
  if (from_dweight) {
    adw = b.d(0);
    along = matmul(x, adw, {.transpose_b = true});
  }
  if (from_dx) {
    adx = reshape(b.d(1), matrix);
    along = matmul_into(along, adx, weight, {.transpose_b = true});
  }
  if (along && b.wants(3)) b.give(3, sum(along * unit));
  Tensor dlogits;
  if (along) {
    const Tensor ignored =
        equal(labels, Tensor::scalar(static_cast<double>(targets.ignore_index), labels.dtype()));
    const Tensor counts = expand_dims(cast(logical_not(ignored), x.dtype()), -1);
    dlogits = softmax_backward(softmax(logits), along) * counts * dsum;
  }
  if (from_sum) dlogits = dlogits ? dlogits + unit * b.d(2) : unit * b.d(2);
  if (!dlogits) return;
  if (b.wants(0)) {
    Tensor dx = matmul(dlogits, weight);
    if (from_dweight) dx = matmul_into(std::move(dx), g, adw);
    b.give(0, cast(reshape(dx, b.in_spec(0).shape), b.in_spec(0).dtype));
  }
  if (b.wants(1)) {
    const DType type = b.in_spec(1).dtype;
    Tensor dw =
        matmul_into(is_half(type) ? Tensor() : b.take(1), dlogits, x, {.transpose_a = true});
    if (from_dx) dw = matmul_into(std::move(dw), g, adx, {.transpose_a = true});
    b.give(1, cast(dw, type));
  }
}

Loss linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& labels,
                          SparseCrossEntropyOptions options) {
  const LinearCrossEntropy op{{options.ignore_index, options.label_smoothing}};
  const Tensor classes = labels.dtype() == DType::u8 ? cast(labels, DType::i32) : labels;
  auto [sum, count] = apply(op, x, weight, classes);
  return {std::move(sum), std::move(count)};
}

}  // namespace ebb
