#include "ebb/ops/op.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <new>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/tracer.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::ops {
namespace {

OpType*& first_op() {
  static OpType* first = nullptr;
  return first;
}

constexpr std::size_t kFew = 8;  // inputs that need no array from the heap

// An array on the stack for the usual handful of inputs; elements are assigned before they are
// read.
template <class T>
class Few {
 public:
  explicit Few(std::size_t n) : size_(n) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (n > kFew) many_ = std::make_unique<T[]>(n);
  }
  T& operator[](std::size_t i) { return data()[i]; }
  operator std::span<const T>() { return {data(), size_}; }

 private:
  T* data() { return many_ ? many_.get() : reinterpret_cast<T*>(few_); }
  std::size_t size_;
  alignas(T) std::byte few_[kFew * sizeof(T)];
  std::unique_ptr<T[]> many_;
};

void run(const OpType& type, const void* op, Specs specs, Ins views, const Spec* made,
         std::span<const Tensor* const> in, std::span<Tensor> out, int donated) {
  Out places[kMaxOutputs];
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i == 0 && donated >= 0 && !recording() && in[donated]->unique() &&
        in[donated]->spec() == made[0]) {
      out[0] = *in[donated];
      out[0].renew();
    } else {
      out[i] = Tensor::uninitialized(made[i], type.name);
    }
    places[i] = {&out[i].spec(), out[i].bytes()};
  }
  const std::size_t scratch_bytes = type.scratch(op, specs);
  memory::Buffer scratch(scratch_bytes, type.name, Category::workspace);
  type.run(op, views, {places, out.size()}, {scratch.data(), scratch_bytes});
}

// An op that does not take 16-bit floats is given them as f32; where all of its floating inputs are
// of one 16-bit type, what it makes of them in f32 is stored in that type again.
bool widened(const OpType& type, const void* op, std::span<const Tensor* const> in,
             std::span<Tensor> out) {
  if (type.half) return false;
  bool any = false, one = true;
  DType half = DType::f32;
  for (const Tensor* x : in) {
    const DType d = x->dtype();
    if (!is_float(d)) continue;
    one &= is_half(d) && (!any || d == half);
    if (is_half(d)) any = true, half = d;
  }
  if (!any) return false;
  std::vector<Tensor> wide(in.size());
  std::vector<const Tensor*> pointers(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    wide[i] = is_half(in[i]->dtype()) ? cast(*in[i], DType::f32) : *in[i];
    pointers[i] = &wide[i];
  }
  call(type, op, pointers, out);
  for (Tensor& y : out)
    if (one && y.dtype() == DType::f32) y = cast(y, half);
  return true;
}

}  // namespace

namespace op_detail {

void wrong_input_count(const char* op, std::size_t given, int expected) {
  throw Error(fmt::format("{}: {} inputs were given, expected {}", op, given, expected));
}

void register_op(OpType& type) {
  type.next = first_op();
  first_op() = &type;
}

}  // namespace op_detail

std::vector<const OpType*> registered_ops() {
  std::vector<const OpType*> all;
  for (const OpType* op = first_op(); op; op = op->next) all.push_back(op);
  std::sort(all.begin(), all.end(),
            [](const OpType* a, const OpType* b) { return std::string_view(a->name) < b->name; });
  return all;
}

Recorder*& recorders() {
  thread_local Recorder* innermost = nullptr;
  return innermost;
}

namespace {
thread_local RecorderSwap* swaps = nullptr;
}

RecorderSwap::RecorderSwap(Recorder* list) : aside_(recorders()), outer_(swaps) {
  swaps = this;
  recorders() = list;
}

RecorderSwap::~RecorderSwap() {
  recorders() = aside_;
  swaps = outer_;
}

void remove_recorder(Recorder& recorder) {
  const auto remove = [&](Recorder*& list) {
    for (Recorder** r = &list; *r; r = &(*r)->outer)
      if (*r == &recorder) {
        *r = recorder.outer;
        return;
      }
  };
  remove(recorders());
  for (RecorderSwap* s = swaps; s; s = s->outer_) remove(s->aside_);
}

namespace {

void tell_failure() {
  for (Recorder* r = recorders(); r; r = r->outer) r->failed();
}
[[maybe_unused]] const bool told = (variable_load_failed() = &tell_failure, true);

void trace(const OpType& type, const void* op, const Spec* made, std::span<const Tensor* const> in,
           std::span<Tensor> out, int donated, bool view) {
  if (!tracer())
    throw Error(
        fmt::format("{}: a value of a function that was compiled is used outside of it; "
                    "return it as a result instead",
                    type.name));
  if (!view)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = Tensor::symbolic(made[i]);
  tracer()->note(type, op, in, out, donated, view);
}

void compute(const OpType& type, const void* op, std::span<const Tensor* const> in,
             std::span<Tensor> out, int donated) {
  Few<Spec> specs(in.size());
  Few<In> views(in.size());
  bool symbols = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    symbols |= in[i]->symbol();
    new (&specs[i]) Spec(in[i]->spec());
    new (&views[i]) In{&in[i]->spec(), in[i]->raw()};
  }
  Spec made[kMaxOutputs];
  type.shape(op, specs, made);
  if (type.view) out[0] = type.view(op, *in[0]);
  const bool view = type.view && out[0];
  if (!symbols && !view && tracer())
    symbols = tracer()->defers(specs, {made, static_cast<std::size_t>(type.outputs)});
  if (symbols) return trace(type, op, made, in, out, donated, view);
  if (!view) run(type, op, specs, views, made, in, out, donated);
}

}  // namespace

void call(const OpType& type, const void* op, std::span<const Tensor* const> in,
          std::span<Tensor> out, int donated) {
  if (widened(type, op, in, out)) return;
  if (!recording()) return compute(type, op, in, out, donated);
  try {
    compute(type, op, in, out, donated);
  } catch (...) {
    tell_failure();
    throw;
  }
  for (Recorder* r = recorders(); r;) {
    Recorder* const outer = r->outer;
    r->record(type, op, in, {out.data(), out.size()});
    r = outer;
  }
}

}  // namespace ebb::ops
