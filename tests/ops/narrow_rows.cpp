// u8 and bool (tensor/spec.hpp): what moves, compares and chooses elements takes them; what computes
// with numbers says to cast them.
#include <functional>

#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

using T = const Tensor&;

// x, (2, 3) of 0 and 1, and a second one like it.
void add_narrow(const std::string& op, const std::function<Tensor(T, T)>& call,
                const std::string& refused) {
  for (const DType dtype : {DType::u8, DType::boolean}) {
    const Input x = ids({2, 3}, 2, dtype);
    Row row{.name = op + " of narrow " + ebb::name(dtype),
            .op = op,
            .inputs = {x, x},
            .call = [call](const Tensors& in) { return call(in[0], in[1]); }};
    if (refused.empty()) {  // as the same of i32, cast back
      row.reference = [call](const Arrays<double>& in) {
        const auto whole = [](const Array<double>& a) {
          return cast(Tensor::from(a.data, a.shape), DType::i32);
        };
        const Tensor y = cast(call(whole(in[0]), whole(in[1])), DType::f64);
        Array<double> out(y.shape());
        out.data = y.to_vector<double>();
        return out;
      };
    } else {
      row.refused = op + ": " + to_string(Spec{{2, 3}, dtype}) + refused;
    }
    add_row(std::move(row));
  }
}

[[maybe_unused]] const bool taken = [] {
  const auto takes = [](const std::string& op, const std::function<Tensor(T, T)>& call) {
    add_narrow(op, call, "");
  };
  takes("reshape", [](T x, T) { return reshape(x, {3, 2}); });
  takes("permute", [](T x, T) { return transpose(x); });
  takes("pad", [](T x, T) { return pad(x, {{1, 0}, {0, 2}}, 1); });
  takes("tile", [](T x, T) { return tile(x, {1, 2}); });
  takes("flip", [](T x, T) { return flip(x, {1}); });
  takes("broadcast_to", [](T x, T) { return broadcast_to(x, {2, 2, 3}); });
  takes("concat", [](T x, T y) { return concat({x, y}, 1); });
  takes("slice", [](T x, T) { return slice(x, 1, 0, 2); });
  takes("gather", [](T x, T) { return gather(x, Tensor::of<std::int64_t>({1, 0, 1})); });
  takes("where", [](T x, T y) { return where(equal(x, y), x, y); });
  takes("equal", [](T x, T y) { return equal(x, y); });
  takes("less", [](T x, T y) { return less(x, y); });
  takes("cast", [](T x, T) { return cast(x, x.dtype() == DType::i32 ? DType::f64 : DType::f32); });
  return true;
}();

[[maybe_unused]] const bool refused = [] {
  const auto refuses = [](const std::string& op, const std::function<Tensor(T, T)>& call) {
    add_narrow(op, call, " is not a floating, i32 or i64 type; cast it first");
  };
  refuses("add", [](T x, T y) { return x + y; });
  refuses("sub", [](T x, T y) { return x - y; });
  refuses("mul", [](T x, T y) { return x * y; });
  refuses("div", [](T x, T y) { return x / y; });
  refuses("minimum", [](T x, T y) { return minimum(x, y); });
  refuses("maximum", [](T x, T y) { return maximum(x, y); });
  refuses("neg", [](T x, T) { return neg(x); });
  refuses("abs", [](T x, T) { return abs(x); });
  refuses("sign", [](T x, T) { return sign(x); });
  refuses("square", [](T x, T) { return square(x); });
  refuses("relu", [](T x, T) { return relu(x); });
  refuses("clip", [](T x, T) { return clip(x, 0, 1); });
  refuses("sum", [](T x, T) { return sum(x); });
  refuses("max", [](T x, T) { return max(x); });
  refuses("min", [](T x, T) { return min(x); });
  refuses("prod", [](T x, T) { return prod(x); });
  refuses("argmax", [](T x, T) { return argmax(x); });
  refuses("cumsum", [](T x, T) { return cumsum(x, 0); });
  refuses("sum_to", [](T x, T) { return sum_to(x, {3}); });
  refuses("scatter_add", [](T x, T) {
    return scatter_add_along(Tensor::of<std::int64_t>({1, 0}), x, 0, 4);
  });
  refuses("put_along_add", [](T x, T) {
    return put_along_add(Tensor::zeros({2, 3}, DType::i64), x, 0, 4);
  });
  refuses("unslice", [](T x, T) { return unslice(x, {0, 0, 2, 1}, 5); });
  return true;
}();

}  // namespace
}  // namespace ebb::table
