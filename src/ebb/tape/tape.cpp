#include "ebb/tape/tape.hpp"

#include <fmt/core.h>

#include <exception>

#include "ebb/base/error.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/tape/record.hpp"

namespace ebb {

using tape_detail::Record;

namespace {

thread_local Tape* innermost_tape = nullptr;

template <class T>
std::vector<const Tensor*> pointers(std::span<const T> xs) {
  std::vector<const Tensor*> p;
  p.reserve(xs.size());
  for (const T& x : xs) p.push_back(&static_cast<const Tensor&>(x));
  return p;
}

void set_one(Tensor& t, std::size_t index) {
  if (t.dtype() == DType::f64) {
    reinterpret_cast<double*>(t.bytes())[index] = 1;
  } else {
    reinterpret_cast<float*>(t.bytes())[index] = 1;
  }
}

void check_jacobian(const char* what, const Tensor& y) {
  if (y.dtype() != DType::f32 && y.dtype() != DType::f64)
    throw Error(
        fmt::format("{}: the result is {}; expected f32 or f64", what, to_string(y.spec())));
}

Shape joined(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  std::vector<std::int64_t> dims(a.begin(), a.end());
  dims.insert(dims.end(), b.begin(), b.end());
  return Shape(dims);
}

}  // namespace

Tape::Tape(TapeOptions options)
    : record_(Record::begin(options.persistent, options.watch_variables)),
      exceptions_(std::uncaught_exceptions()),
      draws_(random::state()),
      outer_(innermost_tape) {
  innermost_tape = this;
}

Tape::~Tape() {
  for (Tape** t = &innermost_tape; *t; t = &(*t)->outer_)
    if (*t == this) {
      *t = outer_;
      break;
    }
  if (!open_) return;
  if (std::uncaught_exceptions() != exceptions_ || record_->has_failed()) {
    discard();
  } else if (outer_) {
    for (auto& [variable, value] : at_end_) outer_->wait_for(variable, std::move(value));
  } else {
    commit();
  }
}

void Tape::assign_at_end(const Variable& variable, Tensor value) {
  if (value.spec() != variable.spec())
    throw Error(fmt::format("assign_at_end: variable {} is {}, the value is {}", variable.name(),
                            to_string(variable.spec()), to_string(value.spec())));
  if (!value.symbol() && !value.unique()) value = value.copy();
  wait_for(variable, std::move(value));
}

void Tape::wait_for(const Variable& variable, Tensor value) {
  for (auto& [known, waiting] : at_end_)
    if (known == variable) {
      waiting = std::move(value);
      return;
    }
  at_end_.emplace_back(variable, std::move(value));
}

const Tensor& Tape::latest(const Variable& variable) const {
  for (const Tape* t = this; t; t = t->outer_)
    for (const auto& [known, waiting] : t->at_end_)
      if (known == variable) return waiting;
  return variable.value();
}

void Tape::commit() {
  open_ = false;
  for (auto& [variable, value] : at_end_) variable.adopt(std::move(value));
  at_end_.clear();
}

void Tape::discard() {
  if (open_) random::restore(draws_);
  open_ = false;
  at_end_.clear();
}

Tape* Tape::innermost() { return innermost_tape; }
void Tape::watch(const Tensor& x) { record_->watch(x); }
void Tape::release() { record_->release(); }
bool Tape::recorded(const Tensor& y) const { return y && record_->tracks(y); }
bool Tape::depends(const Tensor& y, const Tensor& x) const { return record_->depends(y, x); }
bool Tape::used_up() const { return record_->used_up(); }

void Tape::gradient_into(std::span<const Tensor* const> ys,
                         std::span<const Tensor* const> output_gradients,
                         std::span<const Tensor* const> xs, std::span<Tensor> into,
                         std::span<SparseGradient> sparse) {
  record_->check_usable("gradient");
  for (const auto tensors : {ys, xs})
    for (const Tensor* t : tensors)
      if (!*t) throw Error("gradient: an empty handle was given for the result or a source");
  walked_ = true;
  const bool keep = record_->persistent();
  struct UsedUp {
    Record* record;
    ~UsedUp() {
      if (record) record->release();
    }
  } used_up{keep ? nullptr : record_.get()};
  try {
    record_->walk(ys, output_gradients, xs, into, keep, sparse);
  } catch (...) {
    discard();
    throw;
  }
}

std::vector<Tensor> Tape::walk_to(const Tensor& y, std::span<const Tensor* const> xs,
                                  const GradientOptions& options) {
  const Tensor* ys[] = {&y};
  const Tensor* dys[] = {&options.output_gradient};
  std::vector<Tensor> out(xs.size());
  gradient_into(ys, dys, xs, out);
  if (options.unconnected == Unconnected::zeros)
    for (std::size_t i = 0; i < xs.size(); ++i)
      if (!out[i]) out[i] = Tensor::zeros(xs[i]->shape(), xs[i]->dtype());
  return out;
}

Tensor Tape::gradient(const Tensor& y, const Tensor& x, const GradientOptions& options) {
  const Tensor *ys[] = {&y}, *dys[] = {&options.output_gradient}, *xs[] = {&x};
  Tensor out;
  gradient_into(ys, dys, xs, {&out, 1});
  if (!out && options.unconnected == Unconnected::zeros) out = Tensor::zeros(x.shape(), x.dtype());
  return out;
}

std::vector<Tensor> Tape::gradient(const Tensor& y, std::span<const Tensor> xs,
                                   const GradientOptions& options) {
  return walk_to(y, pointers(xs), options);
}

std::vector<Tensor> Tape::gradient(const Tensor& y, std::span<const Variable> xs,
                                   const GradientOptions& options) {
  return walk_to(y, pointers(xs), options);
}

std::vector<Tensor> Tape::gradient(const Loss& loss, std::span<const Variable> xs,
                                   const GradientOptions& options) {
  return walk_to(loss.sum, pointers(xs), options);
}

std::vector<Tensor> Tape::gradient(const Loss& loss, std::initializer_list<Tensor> xs,
                                   const GradientOptions& options) {
  return gradient(loss.sum, xs, options);
}

void Tape::gradient_into(std::span<const Tensor> ys, std::span<const Tensor> output_gradients,
                         std::span<const Tensor> xs, std::span<Tensor> into) {
  if (ys.size() != output_gradients.size() || xs.size() != into.size())
    throw Error(
        fmt::format("gradient_into: {} results and {} output gradients, {} sources and {} sums",
                    ys.size(), output_gradients.size(), xs.size(), into.size()));
  gradient_into(std::span<const Tensor* const>(pointers(ys)), pointers(output_gradients),
                pointers(xs), into);
}

// One walk for each element of y; only the last may use the tape up.
Tensor Tape::jacobian(const Tensor& y, const Tensor& x) {
  record_->check_usable("jacobian");
  walked_ = true;
  check_jacobian("jacobian", y);
  const Shape shape = joined(y.shape().dims(), x.shape().dims());
  const auto count = static_cast<std::size_t>(y.size());
  std::vector<Tensor> rows(count);
  const Tensor *ys[] = {&y}, *xs[] = {&x};
  for (std::size_t i = 0; i < count; ++i) {
    Tensor dy = Tensor::zeros(y.shape(), y.dtype());
    set_one(dy, i);
    const Tensor* dys[] = {&dy};
    record_->walk(ys, dys, xs, {&rows[i], 1}, true);
    if (!rows[i]) rows[i] = Tensor::zeros(x.shape(), x.dtype());
  }
  if (!record_->persistent()) record_->release();
  if (rows.empty()) return Tensor::zeros(shape, x.dtype());
  return reshape(stack(rows, 0), shape);
}

Tensor Tape::batch_jacobian(const Tensor& y, const Tensor& x) {
  record_->check_usable("batch_jacobian");
  walked_ = true;
  check_jacobian("batch_jacobian", y);
  if (y.rank() == 0 || x.rank() == 0 || y.shape()[0] != x.shape()[0])
    throw Error(fmt::format("batch_jacobian: {} and {} do not have the same number of rows",
                            to_string(y.spec()), to_string(x.spec())));
  const Shape shape = joined(y.shape().dims(), x.shape().dims().subspan(1));
  const auto rows = static_cast<std::size_t>(y.shape()[0]);
  const std::size_t width = rows ? static_cast<std::size_t>(y.size()) / rows : 0;
  std::vector<Tensor> columns(width);
  const Tensor *ys[] = {&y}, *xs[] = {&x};
  for (std::size_t j = 0; j < width; ++j) {
    Tensor dy = Tensor::zeros(y.shape(), y.dtype());
    for (std::size_t r = 0; r < rows; ++r) set_one(dy, r * width + j);
    const Tensor* dys[] = {&dy};
    record_->walk(ys, dys, xs, {&columns[j], 1}, true);
    if (!columns[j]) columns[j] = Tensor::zeros(x.shape(), x.dtype());
  }
  if (!record_->persistent()) record_->release();
  if (columns.empty()) return Tensor::zeros(shape, x.dtype());
  return reshape(stack(columns, 1), shape);
}

}  // namespace ebb
