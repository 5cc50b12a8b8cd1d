#include "ebb/ops/matmul.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/layout.hpp"
#include "ebb/ops/products.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb {

using namespace ops;

namespace {

using kernels::Gemm;
using kernels::GemmBatch;

// Rows and columns of x's matrices, as they enter the product.
struct Sides {
  std::int64_t rows, columns;
};

Sides sides(const Spec& x, bool transposed) {
  const std::int64_t rows = x.shape[x.rank() - 2], columns = x.shape[x.rank() - 1];
  return transposed ? Sides{columns, rows} : Sides{rows, columns};
}

// Size of a leading axis counted from the last two (0 is the next), 1 where there is none.
std::int64_t leading(const Shape& shape, int from_back) {
  const int axis = shape.rank() - 3 - from_back;
  return axis < 0 ? 1 : shape[axis];
}

// The products of a call: a batch, again and again along further axes. Steps in elements.
struct Products {
  GemmBatch batch;
  int axes = 0;
  layout::Sizes sizes{}, a_steps{}, b_steps{};  // outermost first
};

Products products_of(const Matmul& op, const Spec& a, const Spec& b, const Spec& y) {
  Products p;
  const Sides left = sides(a, op.transpose_a), right = sides(b, op.transpose_b);
  Gemm& g = p.batch.first;
  g.m = static_cast<std::size_t>(left.rows);
  g.k = static_cast<std::size_t>(left.columns);
  g.n = static_cast<std::size_t>(right.columns);
  g.a = {nullptr, products::storage(a.dtype), static_cast<std::size_t>(a.shape[a.rank() - 1]),
         op.transpose_a};
  g.b = {nullptr, products::storage(b.dtype), static_cast<std::size_t>(b.shape[b.rank() - 1]),
         op.transpose_b};
  g.ldc = g.n;
  g.c_type = products::storage(y.dtype);
  g.accumulate = op.accumulate;
  p.batch.c_stride = g.m * g.n;

  // Leading axes from the back; one that goes on where the axis behind it ends is one with it.
  layout::Sizes sizes{}, a_steps{}, b_steps{};
  int axes = 0;
  std::int64_t a_step = left.rows * left.columns, b_step = right.rows * right.columns;
  for (int i = 0; i < y.rank() - 2; ++i) {
    const std::int64_t size = leading(y.shape, i);
    const std::int64_t of_a = leading(a.shape, i), of_b = leading(b.shape, i);
    const std::int64_t sa = of_a == 1 ? 0 : a_step, sb = of_b == 1 ? 0 : b_step;
    a_step *= of_a;
    b_step *= of_b;
    if (size == 1) continue;
    const auto last = static_cast<std::size_t>(axes) - 1;
    if (axes > 0 && sa == a_steps[last] * sizes[last] && sb == b_steps[last] * sizes[last]) {
      sizes[last] *= size;
      continue;
    }
    const auto next = static_cast<std::size_t>(axes++);
    sizes[next] = size;
    a_steps[next] = sa;
    b_steps[next] = sb;
  }
  if (axes > 0) {
    p.batch.count = static_cast<std::size_t>(sizes[0]);
    p.batch.a_stride = static_cast<std::size_t>(a_steps[0]);
    p.batch.b_stride = static_cast<std::size_t>(b_steps[0]);
    p.axes = axes - 1;
  }
  for (int i = 0; i < p.axes; ++i) {
    const auto from = static_cast<std::size_t>(axes - 1 - i), to = static_cast<std::size_t>(i);
    p.sizes[to] = sizes[from];
    p.a_steps[to] = a_steps[from];
    p.b_steps[to] = b_steps[from];
  }
  return p;
}

void run_batch(const GemmBatch& batch, const Spec& y, Scratch scratch) {
  if (!is_half(y.dtype)) return kernels::gemm(batch, scratch);
  const auto ahead = [](const void* data, std::size_t elements) {  // all three are of 16 bits
    return static_cast<const std::byte*>(data) + elements * 2;
  };
  for (std::size_t i = 0; i < batch.count; ++i) {
    Gemm g = batch.first;
    g.a.data = ahead(g.a.data, i * batch.a_stride);
    g.b.data = ahead(g.b.data, i * batch.b_stride);
    g.c = const_cast<std::byte*>(ahead(g.c, i * batch.c_stride));
    products::run(g, scratch);
  }
}

}  // namespace

Spec Matmul::shape(Specs in) const {
  const Spec &a = in[0], &b = in[1];
  const DType dtype = products::result_type(name, a, b);
  for (const Spec* x : {&a, &b}) {
    if (x->rank() < 2) {
      throw Error(fmt::format("{}: {} has fewer than two axes; reshape it to a matrix", name,
                              to_string(*x)));
    }
  }
  const Sides left = sides(a, transpose_a), right = sides(b, transpose_b);
  if (left.columns != right.rows) {
    throw Error(fmt::format("{}: {}{} and {}{} do not fit: {} columns meet {} rows", name,
                            to_string(a), transpose_a ? " transposed" : "", to_string(b),
                            transpose_b ? " transposed" : "", left.columns, right.rows));
  }
  const int rank = std::max(a.rank(), b.rank());
  layout::Sizes dims{};
  for (int i = 0; i < rank - 2; ++i) {
    const std::int64_t of_a = leading(a.shape, i), of_b = leading(b.shape, i);
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      throw Error(fmt::format("{}: {} and {} do not broadcast: axis {} is {} and {}", name,
                              to_string(a), to_string(b), -3 - i, of_a, of_b));
    }
    dims[static_cast<std::size_t>(rank - 3 - i)] = of_a == 1 ? of_b : of_a;
  }
  dims[static_cast<std::size_t>(rank - 2)] = left.rows;
  dims[static_cast<std::size_t>(rank - 1)] = right.columns;
  const Spec y{layout::to_shape(dims, rank), dtype};
  if (accumulate && in[2] != y) {
    throw Error(fmt::format("{}: the accumulator is {}, the product {}", name, to_string(in[2]),
                            to_string(y)));
  }
  return y;
}

Cost Matmul::cost(Specs in) const {
  const Spec y = shape(in);
  const double k = static_cast<double>(sides(in[0], transpose_a).columns);
  const double again = accumulate ? 2 : 1;
  return {
      2 * k * static_cast<double>(y.size()),
      static_cast<double>(in[0].bytes() + in[1].bytes()) + again * static_cast<double>(y.bytes()),
      Work::product};
}

std::size_t Matmul::scratch(Specs in) const {
  const Spec y = shape(in);
  const Products p = products_of(*this, in[0], in[1], y);
  return is_half(y.dtype) ? products::scratch(p.batch.first) : kernels::gemm_scratch(p.batch);
}

void Matmul::run(Ins in, Out y, Scratch scratch) const {
  if (y.size() == 0) return;
  if (accumulate && in[2].data != y.data) std::memcpy(y.data, in[2].data, y.spec->bytes());
  Products p = products_of(*this, *in[0].spec, *in[1].spec, *y.spec);
  const std::size_t a_size = size_of(in[0].dtype()), b_size = size_of(in[1].dtype());
  const std::size_t c_bytes = p.batch.count * p.batch.c_stride * size_of(y.dtype());
  GemmBatch& batch = p.batch;
  batch.first.c = y.data;
  layout::Sizes index{};
  for (;;) {
    std::int64_t a_at = 0, b_at = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(p.axes); ++i) {
      a_at += index[i] * p.a_steps[i];
      b_at += index[i] * p.b_steps[i];
    }
    batch.first.a.data = in[0].as<std::byte>() + static_cast<std::size_t>(a_at) * a_size;
    batch.first.b.data = in[1].as<std::byte>() + static_cast<std::size_t>(b_at) * b_size;
    run_batch(batch, *y.spec, scratch);
    batch.first.c = static_cast<std::byte*>(batch.first.c) + c_bytes;
    int axis = p.axes - 1;
    for (; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      if (++index[i] < p.sizes[i]) break;
      index[i] = 0;
    }
    if (axis < 0) return;
  }
}

std::optional<std::uint32_t> Matmul::row_block_inputs(Specs in) const {
  if (in[0].rank() != 2 || in[1].rank() != 2 || is_half(shape(in).dtype)) return {};
  return (transpose_a ? 0u : 0b001u) | overwrites(0);
}

namespace {

// `rows` of the product of two matrices, the first of which is whole where it is transposed.
Gemm row_block(const Matmul& op, const Spec& a, const Spec& b, std::int64_t rows, DType y) {
  Gemm g = products_of(op, a, b, {{rows, sides(b, op.transpose_b).columns}, y}).batch.first;
  g.m = static_cast<std::size_t>(rows);
  return g;
}

}  // namespace

std::size_t Matmul::row_block_scratch(Specs in, std::int64_t rows) const {
  return kernels::gemm_scratch(row_block(*this, in[0], in[1], rows, shape(in).dtype));
}

void Matmul::run_row_block(Ins in, Out rows, std::int64_t first, Scratch scratch) const {
  if (rows.size() == 0) return;
  if (accumulate && in[2].data != rows.data) std::memcpy(rows.data, in[2].data, rows.spec->bytes());
  Gemm g = row_block(*this, *in[0].spec, *in[1].spec, rows.shape()[0], rows.dtype());
  const std::size_t column = static_cast<std::size_t>(first) * size_of(in[0].dtype());
  g.a.data = in[0].as<std::byte>() + (transpose_a ? column : 0);
  g.b.data = in[1].data;
  g.c = rows.data;
  kernels::gemm(g, scratch);
}

// Along leading axes as in broadcasting; of two matrices, the rows of a are the product's, and a sum
// over the rows of both is one over examples.
BatchRule Matmul::batch_rule(const BatchInputs& batch, int) const {
  const std::uint32_t sum = overwrites(0);
  const BatchRule of_sums = rule::linear(batch, 0b001 | sum) | rule::linear(batch, 0b010 | sum);
  if (batch.in[0].rank() > 2 || batch.in[1].rank() > 2) return rule::broadcast(batch) | of_sums;
  return rule::per_example(batch, 0b001 | sum, !transpose_a) |
         rule::summed(batch, 0b011, sum, transpose_a && !transpose_b) | of_sums;
}

// Where b is one matrix for all rows of a, its gradient is a sum over rows: of examples.
void Matmul::grad(Back& back) const {
  const Tensor& d = back.d();
  if (back.wants(0)) {
    const Tensor& b = back.in(1);
    const Tensor g =
        transpose_a ? matmul(b, d, {transpose_b, true}) : matmul(d, b, {false, !transpose_b});
    back.give(0, cast(sum_to(g, back.in_spec(0).shape), back.in_spec(0).dtype));
  }
  if (back.wants(1)) {
    const Tensor& a = back.in(0);
    const Spec& b = back.in_spec(1);
    if (b.rank() == 2 && !transpose_a) {
      std::int64_t count = 1;
      for (int i = 0; i + 1 < a.rank(); ++i) count *= a.shape()[i];
      const Tensor rows = a.rank() == 2 ? a : reshape(a, Shape{count, a.dim(-1)});
      const Tensor d_rows = d.rank() == 2 ? d : reshape(d, Shape{count, d.dim(-1)});
      const bool mixed = b.dtype != d.dtype();  // its gradient is f32, and rounded
      Tensor so_far = mixed ? Tensor() : back.take(1);
      Tensor g = transpose_b ? matmul_into(std::move(so_far), d_rows, rows, {true, false})
                             : matmul_into(std::move(so_far), rows, d_rows, {true, false});
      back.give(1, mixed ? cast(g, b.dtype) : std::move(g));
    } else {
      const Tensor g =
          transpose_b ? matmul(d, a, {true, transpose_a}) : matmul(a, d, {!transpose_a, false});
      back.give(1, cast(sum_to(g, b.shape), b.dtype));
    }
  }
  if (accumulate && back.wants(2)) back.give(2, d);
}

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  return matmul_into({}, a, b, options);
}

Tensor matmul_into(Tensor into, const Tensor& a, const Tensor& b, MatmulOptions options) {
  const Matmul op{options.transpose_a, options.transpose_b, static_cast<bool>(into)};
  const Tensor* in[] = {&a, &b, &into};
  if (into) return apply_all(op, in, 2);
  return apply_all(op, std::span(in, 2));
}

}  // namespace ebb
