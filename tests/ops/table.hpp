// The op table: one row per case, run in every mode.
//
//   OP_ROW("add broadcast", .op = "add", .inputs = {f(4, 64), f(64)},
//          .call = [](const Tensors& in) { return add(in[0], in[1]); },
//          .reference = analytic([](const auto& in) {
//            return map(in[0], in[1], [](auto a, auto b) { return a + b; });
//          }));
//
// A row is checked for
//
// clang-format off
//   value         in f64 and f32, against the reference in double
//   gradient      of every element of every differentiable input, in f64: against the complex step of
//                 an analytic reference, otherwise against four-point differences of the op itself;
//                 and in f32 against f64
//   second order  of <gradient, v>, with respect to the inputs and to the output's gradient, against
//                 four-point differences of the gradient
//   bits          twice the same, with and without a tape; with 1, 2 and 3 threads; compiled
//   parts         each op it calls, forward and back, on a batch in parts and in place
//                 (tests/ops/parts.hpp)
//   16 bits       (rows that say so) bf16 and f16 within their rounding of f32
// clang-format on
//
// or, with `.refused`, for throwing an ebb::Error that says so.
//
// A row of more than kSampledAbove elements, inputs and outputs together, is there for what only
// size brings out (blocks, threads): its derivatives are checked at a random sample of elements.
//
// Fields are given in the order of Row. Rows register themselves from any tests/ops/*_rows.cpp, as
// the gtest OpTable.<name>; loops use `add_row`, from an initialiser of a static variable.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/ops/op.hpp"
#include "tests/ops/array.hpp"
#include "tests/ops/parts.hpp"

namespace ebb::table {

using namespace ops;  // rows are for op structs and their ways back too

inline constexpr std::int64_t kSampledAbove = 1500;

using Tensors = std::vector<Tensor>;

// What a row is fed. Without `dtype` it is of the mode's floating type, and differentiable.
struct Input {
  Shape shape{};
  double lo = -2, hi = 2;
  std::vector<double> kinks{};   // kept at a distance of 0.05 from these
  bool distinct_values = false;  // evenly spread over [lo, hi), shuffled: no two are near
  bool differentiable = true;
  std::optional<DType> dtype{};
  std::vector<double> values{};  // exactly these, instead of random ones

  Input in(double low, double high) const;
  Input away_from(std::vector<double> points) const;
  Input distinct() const;
  Input fixed() const;           // no gradient is asked for
  Input as(DType always) const;  // of this type in every mode, and fixed
  Input of(std::vector<double> exactly) const;

  template <class Change>
  Input changed(Change change) const;  // a copy, after change(copy)
};

template <class... D>
Input f(D... dims) {  // floating: f() is a scalar, f(4, 64) a matrix
  return {.shape = Shape{static_cast<std::int64_t>(dims)...}};
}
Input ids(const Shape& shape, std::int64_t below, DType dtype = DType::i64);    // 0 … below - 1
Input ints(const Shape& shape, std::int64_t lo, std::int64_t hi, DType dtype);  // lo … hi - 1
Input bools(const Shape& shape);

// The op call: a function of Tensors that gives a Tensor, an array of them, or Tensors.
struct Call {
  Call() = default;
  template <class F, class = std::enable_if_t<std::is_invocable_v<F, const Tensors&>>>
  Call(F f)
      : function([f](const Tensors& in) -> Tensors {
          auto out = f(in);
          if constexpr (std::is_convertible_v<decltype(out), Tensor>) {
            return {Tensor(out)};
          } else {
            return Tensors(out.begin(), out.end());
          }
        }) {}
  std::function<Tensors(const Tensors&)> function;
};

// The same thing in plain loops over Arrays; gives one Array, or Arrays.
struct Reference {
  template <class T>
  using Function = std::function<Arrays<T>(const Arrays<T>&)>;

  Reference() = default;
  template <class F, class = std::enable_if_t<std::is_invocable_v<F, const Arrays<double>&>>>
  Reference(F f) : in_double(erase<double>(f)) {}

  template <class T, class F>
  static Function<T> erase(F f) {
    return [f](const Arrays<T>& in) -> Arrays<T> {
      auto out = f(in);
      if constexpr (std::is_same_v<decltype(out), Array<T>>) {
        return {std::move(out)};
      } else {
        return out;
      }
    };
  }

  Function<double> in_double;
  Function<std::complex<double>> in_complex;  // where the op is analytic
};

template <class F>
Reference analytic(F f) {  // a generic lambda, used with double and with std::complex<double>
  Reference r(f);
  r.in_complex = Reference::erase<std::complex<double>>(f);
  return r;
}

struct Tolerance {  // relative to the element plus a twentieth of the largest one
  double f64 = 1e-12, f32 = 2e-5;
  double gradient = 1e-6, gradient_f32 = 2e-4, second = 1e-6;
  double half = 1;           // roundings of the 16-bit result
  double half_gradient = 8;  // roundings of the largest element of the 16-bit gradient
};

struct Row {
  std::string name{};
  std::string op{};  // the registered op this row is for; it must really be called
  std::vector<Input> inputs{};
  Call call{};
  Reference reference{};
  std::string no_reference{};  // why there is none
  std::string refused{};       // part of the error's text
  bool half = false;           // run in bf16 and f16 as well
  int order = 2;               // of derivatives that are checked; below 2 only with `why`
  Tolerance tolerance{};
  std::string why{};  // why `order` or `tolerance` is not the usual
  const char* file = "";
  int line = 0;
};

bool add_row(Row row, const char* file = __builtin_FILE(), int line = __builtin_LINE());
const std::vector<Row>& rows();
std::string test_name(const Row& row);  // name with everything but letters and digits as _

// What is wrong with a row: one message per failed check, none when all is well.
std::vector<std::string> check(const Row& row, std::uint64_t seed);

// The ops that a row calls, on the way forward and back, twice: one call of each kind.
std::vector<OpCall> calls_of(const Row& row);

}  // namespace ebb::table

#define EBB_TABLE_JOIN_(a, b) a##b
#define EBB_TABLE_JOIN(a, b) EBB_TABLE_JOIN_(a, b)
#define OP_ROW(NAME, ...)                                                   \
  [[maybe_unused]] static const bool EBB_TABLE_JOIN(op_row_, __COUNTER__) = \
      ::ebb::table::add_row(::ebb::table::Row{.name = NAME, __VA_ARGS__})
