#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/kernels/loss.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/labels.hpp"
#include "ebb/ops/last_axis.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/softmax.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb {

using namespace ops;

void ops::refuse_label(const char* op, std::int64_t label, std::ptrdiff_t row,
                       std::size_t classes) {
  throw Error(fmt::format("{}: label {} in row {} is out of range for {} classes", op, label, row,
                          classes));
}

namespace {

Tensor wide(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

void check_logits(const char* op, const Spec& logits) {
  check_float(op, logits);
  if (logits.rank() == 0)
    throw Error(fmt::format("{}: the logits are {}; expected (…, classes)", op, to_string(logits)));
}

void check_sparse(const char* op, const Spec& logits, const Spec& labels, double smoothing) {
  check_logits(op, logits);
  if (labels.dtype != DType::i32 && labels.dtype != DType::i64)
    throw Error(fmt::format("{}: the labels are {}; expected i32 or i64", op, to_string(labels)));
  const Shape rows(logits.shape.dims().first(static_cast<std::size_t>(logits.rank() - 1)));
  if (labels.shape != rows)
    throw Error(
        fmt::format("{}: the logits are {} and the labels {}; expected a label for each row, "
                    "{}",
                    op, to_string(logits), to_string(labels), to_string(rows)));
  if (!(smoothing >= 0 && smoothing <= 1))
    throw Error(fmt::format("{}: the label smoothing is {}, expected 0 to 1", op, smoothing));
}

void check_soft(const char* op, const Spec& logits, const Spec& targets) {
  check_logits(op, logits);
  if (logits.shape != targets.shape)
    throw Error(fmt::format("{}: the logits are {} and the targets {}; expected one shape", op,
                            to_string(logits), to_string(targets)));
  check_same_type(op, logits, targets);
}

void check_dsum(const char* op, const Spec& logits, const Spec& dsum) {
  if (dsum != Spec{{}, logits.dtype})
    throw Error(fmt::format("{}: the sum's gradient is {}, expected a scalar of {}", op,
                            to_string(dsum), name(logits.dtype)));
}

const Spec kCount{{}, DType::i64};

std::size_t rows_scratch(const Spec& logits) {
  return LastAxis(logits.shape).count * size_of(logits.dtype);
}

}  // namespace

// ---- one label for each row ----

std::array<Spec, 2> SparseCrossEntropy::shape(Specs in) const {
  check_so_far(name, in, 2, accumulate);
  check_sparse(name, in[0], in[1], targets.smoothing);
  if (accumulate) check_so_far(name, in[2], in[0].dtype);
  return {Spec{{}, in[0].dtype}, kCount};
}
Cost SparseCrossEntropy::cost(Specs in) const {
  return reduction_cost(20, in[0], {&in[0], &in[1]});
}
std::size_t SparseCrossEntropy::scratch(Specs in) const { return rows_scratch(in[0]); }
AnyOp SparseCrossEntropy::accumulating(Specs, int output) const {
  return output == 0 && !accumulate ? any_op(SparseCrossEntropy{{true}, targets}) : AnyOp();
}

void SparseCrossEntropy::run(Ins in, Out sum, Out count, Scratch scratch) const {
  const In &logits = in[0], &labels = in[1];
  const LastAxis r(logits.shape());
  with_labels(name, labels, r.size, targets.ignore_index, [&](const auto* all) {
    with_float(logits.dtype(), [&](auto zero) {
      using T = decltype(zero);
      *sum.as<T>() = accumulate ? *in[2].as<T>() : T(0);
      *count.as<std::int64_t>() = 0;
      kernels::sparse_cross_entropy(logits.as<T>(), all, r.count, r.size, targets, sum.as<T>(),
                                    count.as<std::int64_t>(), scratch);
    });
  });
}

void SparseCrossEntropy::grad(Back& b) const {
  if (accumulate && b.wants(2)) b.give(2, b.d(0));
  if (!b.wants(0)) return;
  b.give(0, apply(SparseCrossEntropyBackward{targets}, b.in(0), b.in(1), b.d(0)));
}

Spec SparseCrossEntropyBackward::shape(const Spec& logits, const Spec& labels,
                                       const Spec& dsum) const {
  check_sparse(name, logits, labels, targets.smoothing);
  check_dsum(name, logits, dsum);
  return logits;
}
Cost SparseCrossEntropyBackward::cost(const Spec& logits, const Spec& labels, const Spec&) const {
  return reduction_cost(20, logits, {&logits, &labels, &logits});
}

void SparseCrossEntropyBackward::run(In logits, In labels, In dsum, Out dlogits, Scratch) const {
  const LastAxis r(logits.shape());
  with_labels(name, labels, r.size, targets.ignore_index, [&](const auto* all) {
    with_float(logits.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::sparse_cross_entropy_backward(logits.as<T>(), all, r.count, r.size, targets,
                                             *dsum.as<T>(), dlogits.as<T>());
    });
  });
}

// dlogits = dsum * (p - target), p = softmax(logits), in rows that are not ignored.
void SparseCrossEntropyBackward::grad(Back& b) const {
  const Tensor &logits = b.in(0), &labels = b.in(1), &a = b.d();
  if (b.wants(0)) {
    const Tensor ignored =
        equal(labels, Tensor::scalar(static_cast<double>(targets.ignore_index), labels.dtype()));
    const Tensor counts = expand_dims(cast(logical_not(ignored), a.dtype()), -1);
    b.give(0, softmax_backward(softmax(logits), a) * counts * b.in(2));
  }
  if (b.wants(2)) b.give(2, sum(a * apply(*this, logits, labels, Tensor::ones({}, a.dtype()))));
}

Loss sparse_cross_entropy(const Tensor& logits, const Tensor& labels,
                          SparseCrossEntropyOptions options) {
  const SparseCrossEntropy op{{}, {options.ignore_index, options.label_smoothing}};
  const Tensor classes = labels.dtype() == DType::u8 ? cast(labels, DType::i32) : labels;
  auto [sum, count] = apply(op, wide(logits), classes);
  return {std::move(sum), std::move(count)};
}

// ---- a distribution for each row ----

std::array<Spec, 2> CrossEntropy::shape(Specs in) const {
  check_so_far(name, in, 2, accumulate);
  check_soft(name, in[0], in[1]);
  if (accumulate) check_so_far(name, in[2], in[0].dtype);
  return {Spec{{}, in[0].dtype}, kCount};
}
Cost CrossEntropy::cost(Specs in) const { return reduction_cost(22, in[0], {&in[0], &in[1]}); }
std::size_t CrossEntropy::scratch(Specs in) const { return rows_scratch(in[0]); }
AnyOp CrossEntropy::accumulating(Specs, int output) const {
  return output == 0 && !accumulate ? any_op(CrossEntropy{{true}}) : AnyOp();
}

void CrossEntropy::run(Ins in, Out sum, Out count, Scratch scratch) const {
  const In &logits = in[0], &targets = in[1];
  const LastAxis r(logits.shape());
  with_float(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    *sum.as<T>() = accumulate ? *in[2].as<T>() : T(0);
    kernels::cross_entropy(logits.as<T>(), targets.as<T>(), r.count, r.size, sum.as<T>(), scratch);
  });
  *count.as<std::int64_t>() = static_cast<std::int64_t>(r.count);
}

void CrossEntropy::grad(Back& b) const {
  if (accumulate && b.wants(2)) b.give(2, b.d(0));
  if (b.wants(0)) b.give(0, apply(CrossEntropyBackward{}, b.in(0), b.in(1), b.d(0)));
  if (b.wants(1)) b.give(1, -(log_softmax(b.in(0)) * b.d(0)));
}

Spec CrossEntropyBackward::shape(const Spec& logits, const Spec& targets, const Spec& dsum) const {
  check_soft(name, logits, targets);
  check_dsum(name, logits, dsum);
  return logits;
}
Cost CrossEntropyBackward::cost(const Spec& logits, const Spec& targets, const Spec&) const {
  return reduction_cost(40, logits, {&logits, &targets, &logits});
}

void CrossEntropyBackward::run(In logits, In targets, In dsum, Out dlogits, Scratch) const {
  const LastAxis r(logits.shape());
  with_float(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cross_entropy_backward(logits.as<T>(), targets.as<T>(), r.count, r.size, *dsum.as<T>(),
                                    dlogits.as<T>());
  });
}

// dlogits = dsum * (p * mass - target), p = softmax(logits), mass = sum(target).
void CrossEntropyBackward::grad(Back& b) const {
  const Tensor &logits = b.in(0), &targets = b.in(1), &dsum = b.in(2), &a = b.d();
  if (b.wants(2)) b.give(2, sum(a * apply(*this, logits, targets, Tensor::ones({}, a.dtype()))));
  if (!b.wants(0) && !b.wants(1)) return;
  const Tensor p = softmax(logits);
  if (b.wants(0)) b.give(0, softmax_backward(p, a) * sum(targets, {-1}, true) * dsum);
  if (b.wants(1)) b.give(1, (sum(a * p, {-1}, true) - a) * dsum);
}

Loss cross_entropy(const Tensor& logits, const Tensor& targets, CrossEntropyOptions options) {
  const double s = options.label_smoothing;
  if (!(s >= 0 && s <= 1))
    throw Error(fmt::format("cross_entropy: the label smoothing is {}, expected 0 to 1", s));
  Tensor smooth = wide(targets);
  if (s != 0 && logits.rank() > 0)
    smooth = smooth * (1 - s) + s / static_cast<double>(logits.dim(-1));
  auto [sum, count] = apply(CrossEntropy{}, wide(logits), smooth);
  return {std::move(sum), std::move(count)};
}

}  // namespace ebb
