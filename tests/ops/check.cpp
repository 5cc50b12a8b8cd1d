// What a row of the op table is put through.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <random>
#include <string_view>

#include "ebb/base/pool.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/tensor/with_type.hpp"
#include "tests/ops/parts.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

using Complex = std::complex<double>;
using Random = std::mt19937_64;

constexpr double kStep = 1e-3;  // of four-point differences: reaches 2e-3, kinks are at 5e-2
constexpr double kComplexStep = 1e-30;        // no cancellation, so as small as one likes
constexpr std::int64_t kSampledWork = 60000;  // elements of a large row times those of its sample

// ---- inputs ----

double uniform(Random& random, double lo, double hi) {
  return lo + (hi - lo) * (static_cast<double>(random() >> 11) * 0x1p-53);
}

Array<double> draw(const Input& input, Random& random) {
  Array<double> x(input.shape);
  if (!input.values.empty()) {
    x.data = input.values;
  } else if (input.distinct_values) {
    const double gap =
        (input.hi - input.lo) / static_cast<double>(std::max<std::int64_t>(x.size(), 1));
    for (std::int64_t i = 0; i < x.size(); ++i)
      x[i] = input.lo + gap * (static_cast<double>(i) + uniform(random, 0.3, 0.7));
    std::shuffle(x.data.begin(), x.data.end(), random);
  } else {
    for (double& v : x.data) {
      const auto near = [&](double kink) { return std::abs(v - kink) < 0.05; };
      do v = uniform(random, input.lo, input.hi);
      while (std::any_of(input.kinks.begin(), input.kinks.end(), near));
    }
  }
  if (input.dtype && !is_float(*input.dtype))
    for (double& v : x.data) v = std::floor(v);
  return x;
}

Tensor to_tensor(const Array<double>& x, DType dtype) {
  Tensor t = Tensor::uninitialized({x.shape, dtype}, "row");
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = reinterpret_cast<T*>(t.bytes());
    for (const double v : x.data) *to++ = element_of<T>(v);
  });
  return t;
}

Array<double> to_array(const Tensor& t) {
  Array<double> x(t.shape());
  with_type(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = reinterpret_cast<const T*>(t.raw());
    for (double& v : x.data) v = number_of(*from++);
  });
  return x;
}

Tensors to_tensors(const Row& row, const Arrays<double>& x, DType mode) {
  Tensors in;
  for (std::size_t i = 0; i < x.size(); ++i)
    in.push_back(to_tensor(x[i], row.inputs[i].dtype.value_or(mode)));
  return in;
}

Arrays<double> to_arrays(const Tensors& tensors) {
  Arrays<double> out;
  for (const Tensor& t : tensors) out.push_back(to_array(t));
  return out;
}

// ---- one run, forward and back ----

struct Pass {
  Tensors outputs;
  Tensors gradients;  // of the differentiable inputs; empty handles where nothing flows
};

Tensors differentiable(const Row& row, const Tensors& in) {
  Tensors xs;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (row.inputs[i].differentiable) xs.push_back(in[i]);
  return xs;
}

// The cotangents of floating outputs only: d[j] belongs to the jth of them.
Tensors floating(const Tensors& outputs) {
  Tensors ys;
  for (const Tensor& y : outputs)
    if (is_float(y.dtype())) ys.push_back(y);
  return ys;
}

Tensors cotangents(const Arrays<double>& d, const Tensors& ys) {
  Tensors out;
  for (std::size_t j = 0; j < ys.size(); ++j) out.push_back(to_tensor(d[j], ys[j].dtype()));
  return out;
}

Pass forward_and_back(const Row& row, const Tensors& in, const Arrays<double>& d) {
  Pass pass;
  const Tensors xs = differentiable(row, in);
  Tape tape;
  for (const Tensor& x : xs) tape.watch(x);
  pass.outputs = row.call.function(in);
  const Tensors ys = floating(pass.outputs);
  pass.gradients.resize(xs.size());
  if (!xs.empty() && !ys.empty()) tape.gradient_into(ys, cotangents(d, ys), xs, pass.gradients);
  return pass;
}

// The gradient of <gradient, v>, with respect to the inputs, then to the cotangents.
Tensors second_order(const Row& row, const Tensors& in, const Arrays<double>& d,
                     const Arrays<double>& v) {
  Tensors sources = differentiable(row, in);
  const Tensors xs = sources;
  Tape outer;
  for (const Tensor& x : xs) outer.watch(x);
  Tensors gradients(xs.size()), gs, vs;
  {
    Tape inner;
    for (const Tensor& x : xs) inner.watch(x);
    const Tensors ys = floating(row.call.function(in));
    const Tensors ds = cotangents(d, ys);
    for (const Tensor& t : ds) {
      outer.watch(t);
      sources.push_back(t);
    }
    inner.gradient_into(ys, ds, xs, gradients);
  }
  for (std::size_t i = 0; i < xs.size(); ++i)
    if (gradients[i]) {
      gs.push_back(gradients[i]);
      vs.push_back(to_tensor(v[i], gradients[i].dtype()));
    }
  Tensors result(sources.size());
  if (!gs.empty()) outer.gradient_into(gs, vs, sources, result);
  return result;
}

// ---- comparing ----

bool same_bits(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i] != !b[i]) return false;
    if (a[i] && (a[i].spec() != b[i].spec() ||
                 (a[i].size() && std::memcmp(a[i].raw(), b[i].raw(), a[i].spec().bytes()))))
      return false;
  }
  return a.size() == b.size();
}

double largest(const Array<double>& x) {
  double most = 0;
  for (const double v : x.data)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

bool close(double found, double expected, double tolerance, double scale) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == expected;
  return std::abs(found - expected) <= tolerance * (std::abs(expected) + 0.05 * scale) + 1e-300;
}

// Notes the calls it sees, one of each kind.
class Spy final : public Recorder {
 public:
  Spy() {
    outer = recorders();
    recorders() = this;
  }
  ~Spy() { recorders() = outer; }
  void record(const OpType& type, const void* op, std::span<const Tensor* const> in,
              std::span<const Tensor>) override {
    OpCall call{AnyOp(type, op), {}};
    for (const Tensor* x : in) call.in.push_back(*x);
    const auto alike = [&](const OpCall& seen) {
      return seen.op == call.op &&
             std::equal(seen.in.begin(), seen.in.end(), call.in.begin(), call.in.end(),
                        [](const Tensor& a, const Tensor& b) { return a.spec() == b.spec(); });
    };
    if (std::none_of(calls.begin(), calls.end(), alike)) calls.push_back(std::move(call));
  }
  void record(std::shared_ptr<const CustomGrad>, std::span<const Tensor* const>,
              std::span<const Tensor>) override {}
  std::vector<OpCall> calls;
};

class Checker {
 public:
  Checker(const Row& row, std::uint64_t seed) : row_(row) {
    std::seed_seq mixed{seed, static_cast<std::uint64_t>(std::hash<std::string>{}(row.name))};
    random_.seed(mixed);
  }

  std::vector<std::string> run() {
    if (row_.no_reference.empty() == !row_.reference.in_double && row_.refused.empty())
      fail("a row has a reference, or says why not in no_reference");
    if ((row_.order < 2) && row_.why.empty()) fail("a row of lower order says why");
    for (std::size_t i = 0; i < row_.inputs.size(); ++i) {
      x_.push_back(draw(row_.inputs[i], random_));
      if (x_[i].size() != row_.inputs[i].shape.size()) fail("values do not fill their shape");
    }
    if (!failures_.empty()) return failures_;
    try {
      row_.refused.empty() ? modes() : refusal();
    } catch (const std::exception& e) {
      fail(fmt::format("{} threw: {}", doing_, e.what()));
    }
    return failures_;
  }

 private:
  void fail(std::string text) {
    if (failures_.size() < 12) failures_.push_back(std::move(text));
  }

  void refusal() {
    doing_ = "refusal";
    try {
      row_.call.function(to_tensors(row_, x_, DType::f32));
    } catch (const Error& e) {
      const std::string_view text = e.what();
      if (text.find(row_.refused) == text.npos)
        fail(fmt::format("refused with \"{}\", expected \"{}\"", text, row_.refused));
      if (text.find('\n') != text.npos) fail("the error has more than one line");
      return;
    }
    fail(fmt::format("was not refused; expected \"{}\"", row_.refused));
  }

  void modes() {
    doing_ = "value in f64";
    const Tensors in = to_tensors(row_, x_, DType::f64);
    const Tensors out = row_.call.function(in);
    for (std::size_t j = 0; j < out.size(); ++j)
      if (is_float(out[j].dtype())) {
        floating_.push_back(j);
        d_.push_back(draw({.shape = out[j].shape(), .lo = -1, .hi = 1}, random_));
      }
    for (const Tensor& x : differentiable(row_, in))
      v_.push_back(draw({.shape = x.shape(), .lo = -1, .hi = 1}, random_));
    value(out, x_, row_.tolerance.f64);

    doing_ = "value in f32";
    const Arrays<double> rounded = to_arrays(to_tensors(row_, x_, DType::f32));
    const Tensors in32 = to_tensors(row_, rounded, DType::f32);
    const Tensors out32 = row_.call.function(in32);
    if (row_.reference.in_double) {
      value(out32, rounded, row_.tolerance.f32);
    } else {
      const Tensors wide = row_.call.function(to_tensors(row_, rounded, DType::f64));
      for (std::size_t j = 0; j < out32.size() && j < wide.size(); ++j)
        compare(fmt::format("output {}", j), to_array(out32[j]), to_array(wide[j]),
                row_.tolerance.f32);
    }

    if (row_.order >= 1 && !v_.empty() && !d_.empty()) {
      doing_ = "gradient in f64";
      gradient(in);
      doing_ = "gradient in f32";
      gradient_f32(rounded, in32);
      if (row_.order >= 2) {
        doing_ = "second order in f64";
        second(in);
      }
    }
    bits(in, "f64");
    bits(in32, "f32");
    parts(in, "f64");
    parts(in32, "f32");
    if (row_.half) {
      half(DType::bf16, 0x1p-8);
      half(DType::f16, 0x1p-11);
    }
  }

  // found against expected, element by element; one message for the worst.
  void compare(const std::string& what, const Array<double>& found, const Array<double>& expected,
               double tolerance, double absolute = 0) {
    if (found.shape != expected.shape)
      return fail(fmt::format("{}, {}: shape {}, expected {}", doing_, what, to_string(found.shape),
                              to_string(expected.shape)));
    const double scale = largest(expected);
    std::int64_t wrong = 0, worst = -1;
    double most = -1;
    for (std::int64_t i = 0; i < found.size(); ++i) {
      if (close(found[i], expected[i], tolerance, scale) ||
          std::abs(found[i] - expected[i]) <= absolute)
        continue;
      ++wrong;
      const double error = std::abs(found[i] - expected[i]);
      if (worst < 0 || error > most) {
        most = error;
        worst = i;
      }
    }
    if (wrong)
      fail(fmt::format("{}, {}: {} of {} elements differ; worst at {}: {:.17g}, expected {:.17g}",
                       doing_, what, wrong, found.size(), worst, found[worst], expected[worst]));
  }

  void value(const Tensors& out, const Arrays<double>& x, double tolerance) {
    if (!row_.reference.in_double) return;
    const Arrays<double> expected = row_.reference.in_double(x);
    if (expected.size() != out.size())
      return fail(
          fmt::format("{}: {} outputs, the reference has {}", doing_, out.size(), expected.size()));
    for (std::size_t j = 0; j < out.size(); ++j)
      compare(fmt::format("output {}", j), to_array(out[j]), expected[j],
              is_float(out[j].dtype()) ? tolerance : 0, 0);
  }

  // Which elements of a source to differentiate by: all, or a sample of a large row's.
  std::vector<std::int64_t> elements(const Array<double>& x) {
    std::int64_t total = 0;
    for (const auto* arrays : {&x_, &d_})
      for (const auto& a : *arrays) total += a.size();
    std::vector<std::int64_t> all(static_cast<std::size_t>(x.size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    if (total <= kSampledAbove) return all;
    std::shuffle(all.begin(), all.end(), random_);
    const auto sample =
        static_cast<std::size_t>(std::clamp<std::int64_t>(kSampledWork / total, 3, 12));
    all.resize(std::min(all.size(), sample));
    return all;
  }

  // d <f, weights> / d source[k] by four points, f a function of nothing that reads `source`.
  template <class F>
  static double four_points(double& source, const Arrays<double>& weights, F&& f) {
    const double at = source;
    Arrays<double> y[4];
    const double steps[] = {-2, -1, 1, 2}, factors[] = {1. / 12, -8. / 12, 8. / 12, -1. / 12};
    for (int p = 0; p < 4; ++p) {
      source = at + steps[p] * kStep;
      y[p] = f();
    }
    source = at;
    double sum = 0;
    for (std::size_t j = 0; j < weights.size(); ++j)
      for (std::int64_t i = 0; i < weights[j].size(); ++i) {
        double slope = 0;
        for (int p = 0; p < 4; ++p) slope += factors[p] * y[p][j][i];
        sum += weights[j][i] * slope;
      }
    return sum / kStep;
  }

  double complex_step(std::size_t input, std::int64_t k) {
    Arrays<Complex> x;
    for (const auto& a : x_) {
      x.emplace_back(a.shape);
      std::copy(a.data.begin(), a.data.end(), x.back().data.begin());
    }
    x[input][k] += Complex(0, kComplexStep);
    const Arrays<Complex> y = row_.reference.in_complex(x);
    double sum = 0;
    for (std::size_t j = 0; j < d_.size(); ++j) {
      const Array<Complex>& output = y.at(floating_[j]);
      for (std::int64_t i = 0; i < d_[j].size(); ++i)
        sum += d_[j][i] * output.data.at(static_cast<std::size_t>(i)).imag() / kComplexStep;
    }
    return sum;
  }

  // found[k] for the chosen k against expected(k).
  template <class F>
  void compare_some(const std::string& what, const Tensor& found, const Array<double>& source,
                    double tolerance, F&& expected) {
    if (found && found.shape() != source.shape)
      return fail(fmt::format("{}, {}: shape {}, expected {}", doing_, what,
                              to_string(found.shape()), to_string(source.shape)));
    const auto chosen = elements(source);
    const Array<double> all = found ? to_array(found) : Array<double>(source.shape);
    const Shape shape{static_cast<std::int64_t>(chosen.size())};
    Array<double> a(shape), b(shape);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      a.data[i] = all[chosen[i]];
      b.data[i] = expected(chosen[i]);
    }
    compare(what, a, b, tolerance, 1e-4 * tolerance);
  }

  void gradient(const Tensors& in) {
    const Pass pass = forward_and_back(row_, in, d_);
    std::size_t g = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!row_.inputs[i].differentiable) continue;
      const Tensor& found = pass.gradients[g++];
      if (found && found.dtype() != in[i].dtype())
        fail(fmt::format("{} of input {} is {}, the input {}", doing_, i, to_string(found.spec()),
                         to_string(in[i].spec())));
      compare_some(
          fmt::format("input {}", i), found, x_[i], row_.tolerance.gradient, [&](std::int64_t k) {
            if (row_.reference.in_complex) return complex_step(i, k);
            return four_points(x_[i][k], d_, [&] {
              return to_arrays(floating(row_.call.function(to_tensors(row_, x_, DType::f64))));
            });
          });
    }
  }

  void gradient_f32(const Arrays<double>& rounded, const Tensors& in32) {
    Arrays<double> d;
    for (const auto& a : d_) d.push_back(to_array(to_tensor(a, DType::f32)));
    const Pass wide = forward_and_back(row_, to_tensors(row_, rounded, DType::f64), d);
    const Pass narrow = forward_and_back(row_, in32, d);
    compare_gradients(narrow, wide, row_.tolerance.gradient_f32, 0);
  }

  void compare_gradients(const Pass& found, const Pass& expected, double tolerance,
                         double of_largest) {
    for (std::size_t i = 0; i < found.gradients.size(); ++i) {
      if (!found.gradients[i] != !expected.gradients[i])
        fail(fmt::format("{}: gradient {} flows in one type and not in another", doing_, i));
      if (!found.gradients[i] || !expected.gradients[i]) continue;
      const Array<double> wide = to_array(expected.gradients[i]);
      compare(fmt::format("differentiable input {}", i), to_array(found.gradients[i]), wide,
              tolerance, of_largest * largest(wide) + 1e-6 * tolerance);
    }
  }

  void second(const Tensors& in) {
    const Tensors found = second_order(row_, in, d_, v_);
    const auto first_order = [&] {
      Arrays<double> out;
      const Pass pass = forward_and_back(row_, to_tensors(row_, x_, DType::f64), d_);
      for (std::size_t i = 0; i < v_.size(); ++i)
        out.push_back(pass.gradients[i] ? to_array(pass.gradients[i]) : Array<double>(v_[i].shape));
      return out;
    };
    std::size_t s = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!row_.inputs[i].differentiable) continue;
      compare_some(fmt::format("input {}", i), found[s++], x_[i], row_.tolerance.second,
                   [&](std::int64_t k) { return four_points(x_[i][k], v_, first_order); });
    }
    for (std::size_t j = 0; j < d_.size(); ++j)
      compare_some(fmt::format("output gradient {}", j), found[s++], d_[j], row_.tolerance.second,
                   [&](std::int64_t k) { return four_points(d_[j][k], v_, first_order); });
  }

  void bits(const Tensors& in, const char* type) {
    doing_ = fmt::format("bits in {}", type);
    struct Threads {
      int before = pool::threads();
      ~Threads() { pool::set_threads(before); }
    } restored;
    pool::set_threads(1);
    const bool back = row_.order >= 1;
    const auto pass = [&] {
      return back ? forward_and_back(row_, in, d_) : Pass{row_.call.function(in), {}};
    };
    const Pass first = pass();
    if (!same_bits(first.outputs, row_.call.function(in)))
      fail(fmt::format("{}: outputs with and without a tape differ", doing_));
    for (const int threads : {1, 2, 3}) {
      if (threads > 1) pool::set_threads(threads);
      const Pass again = pass();
      const auto when =
          threads == 1 ? std::string("run twice") : fmt::format("with {} threads", threads);
      if (!same_bits(first.outputs, again.outputs))
        fail(fmt::format("{}: outputs differ {}", doing_, when));
      if (!same_bits(first.gradients, again.gradients))
        fail(fmt::format("{}: gradients differ {}", doing_, when));
    }
    compiled(in, first);
  }

  // The same forward and back, as a planned step: in the arena, in place where that is allowed.
  void compiled(const Tensors& in, const Pass& eager) {
    std::vector<Spec> specs;
    for (const Tensor& x : in) specs.push_back(x.spec());
    exec::Compiled step(nullptr, specs, {.recompute = false, .split = false, .spill = false},
                        [&](std::span<const Tensor> given) {
                          const Tensors symbols(given.begin(), given.end());
                          if (row_.order < 1) return row_.call.function(symbols);
                          Pass pass = forward_and_back(row_, symbols, d_);
                          for (Tensor& g : pass.gradients)
                            if (g) pass.outputs.push_back(std::move(g));
                          return pass.outputs;
                        });
    Tensors expected = eager.outputs;
    for (const Tensor& g : eager.gradients)
      if (g) expected.push_back(g);
    for (int i = 0; i < 2; ++i)
      if (!same_bits(step.run(in), expected)) fail(fmt::format("{}: compiled differs", doing_));
  }

  // Every call on the way forward and back, against what its op says of itself.
  void parts(const Tensors& in, std::string_view type) {
    doing_ = fmt::format("parts in {}", type);
    Spy spy;
    if (row_.order >= 1) {
      forward_and_back(row_, in, d_);
    } else {
      row_.call.function(in);
    }
    for (const OpCall& call : spy.calls)
      for (const std::string& failure : check_parts(call).failures)
        fail(fmt::format("{}: {}", doing_, failure));
  }

  // 16 bits against f32, both from the same 16-bit inputs.
  void half(DType type, double rounding) {
    doing_ = fmt::format("values in {}", name(type));
    const double least = type == DType::f16 ? 0x1p-25 : 0;  // half the smallest step
    const Tensors in = to_tensors(row_, x_, type);
    const Tensors in32 = to_tensors(row_, to_arrays(in), DType::f32);
    Arrays<double> d;
    for (const auto& a : d_) d.push_back(to_array(to_tensor(a, type)));
    const bool back = row_.order >= 1 && !v_.empty() && !d_.empty();
    const Pass narrow = back ? forward_and_back(row_, in, d) : Pass{row_.call.function(in), {}};
    const Pass wide = back ? forward_and_back(row_, in32, d) : Pass{row_.call.function(in32), {}};
    for (std::size_t j = 0; j < narrow.outputs.size(); ++j) {
      const Array<double> expected = to_array(wide.outputs[j]), found = to_array(narrow.outputs[j]);
      const double allowed =
          is_half(narrow.outputs[j].dtype()) ? row_.tolerance.half * rounding : 2e-6;
      compare(fmt::format("output {}", j), found, expected,
              is_float(narrow.outputs[j].dtype()) ? allowed : 0, least);
    }
    parts(in, name(type));
    doing_ = fmt::format("gradient in {}", name(type));
    compare_gradients(narrow, wide, 0, row_.tolerance.half_gradient * rounding);
  }

  const Row& row_;
  Random random_;
  Arrays<double> x_;                   // inputs
  Arrays<double> d_;                   // gradients of the floating outputs
  std::vector<std::size_t> floating_;  // which outputs those are
  Arrays<double> v_;  // directions of the second order, one per differentiable input
  std::string doing_ = "inputs";
  std::vector<std::string> failures_;
};

}  // namespace

std::vector<std::string> check(const Row& row, std::uint64_t seed) {
  return Checker(row, seed).run();
}

std::vector<OpCall> calls_of(const Row& row) {
  if (!row.refused.empty()) return {};
  Random random(1);
  Arrays<double> x, d, v;
  for (const Input& input : row.inputs) x.push_back(draw(input, random));
  const Tensors in = to_tensors(row, x, DType::f32);
  Spy spy;
  for (const Tensor& y : floating(row.call.function(in))) d.emplace_back(y.shape(), 1);
  for (const Tensor& t : differentiable(row, in)) v.emplace_back(t.shape(), 1);
  if (row.order >= 1) forward_and_back(row, in, d);
  if (row.order >= 2) second_order(row, in, d, v);
  return std::move(spy.calls);
}

}  // namespace ebb::table
