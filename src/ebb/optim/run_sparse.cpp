// Updates that go by rows of a parameter, along its first axis: sparse gradients, and the lazy rule.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ebb/base/error.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/index.hpp"
#include "ebb/kernels/update_sparse.hpp"
#include "ebb/optim/run_rule.hpp"

namespace ebb::optim {
namespace {

// Rows of a table for each row of gradient below which the whole gradient is as quick.
constexpr std::int64_t kSparse = 4;
constexpr std::size_t kAtOnce = 128;          // rows in a call
constexpr std::size_t kTaskElements = 32768;  // looked at by a thread at a time

template <class F>
void with_index(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i32:
      return f(std::int32_t{});
    case DType::u8:
      return f(std::uint8_t{});
    default:
      return f(std::int64_t{});
  }
}

// f(the entry as the kernels take it).
template <class F>
void with_table(const Entry& e, F&& f) {
  with_index(e.index_spec->dtype, [&](auto zero) {
    const auto call = [&](auto element) {
      using T = decltype(element);
      using I = decltype(zero);
      const auto of = [](std::byte* p) { return reinterpret_cast<T*>(p); };
      f(kernels::SparseUpdate<T, I>{of(e.param),
                                    {of(e.state[0]), of(e.state[1])},
                                    reinterpret_cast<const I*>(e.indices),
                                    reinterpret_cast<const T*>(e.grad),
                                    static_cast<std::size_t>(e.index_spec->size()),
                                    static_cast<std::size_t>(e.spec->shape[0]),
                                    row_width(*e.spec)});
    };
    e.spec->dtype == DType::f64 ? call(double{}) : call(float{});
  });
}

template <class T>
bool all_zero(const std::byte* row, std::size_t width) {
  const T* x = reinterpret_cast<const T*>(row);
  bool zero = true;
  for (std::size_t j = 0; j < width; ++j) {
    if constexpr (sizeof(T) == 2) {
      zero &= (x[j] & 0x7fff) == 0;  // a 16-bit float of either kind, without its sign
    } else {
      zero &= x[j] == T(0);
    }
  }
  return zero;
}
bool all_zero(DType dtype, const std::byte* row, std::size_t width) {
  if (dtype == DType::f32) return all_zero<float>(row, width);
  if (dtype == DType::f64) return all_zero<double>(row, width);
  return all_zero<std::uint16_t>(row, width);
}

}  // namespace

std::size_t row_width(const Spec& param) {
  return param.shape[0] == 0 ? 0 : static_cast<std::size_t>(param.size() / param.shape[0]);
}

void check_indices(const char* op, const Entry& e) {
  with_index(e.index_spec->dtype, [&](auto zero) {
    const auto* indices = reinterpret_cast<const decltype(zero)*>(e.indices);
    const auto count = static_cast<std::size_t>(e.index_spec->size());
    const std::int64_t bad = kernels::first_out_of_range(indices, count, e.spec->shape[0]);
    if (bad >= 0)
      throw Error(fmt::format("{}: index {} at position {} is out of range for {}", op,
                              static_cast<std::int64_t>(indices[bad]), bad, to_string(*e.spec)));
  });
}

std::int64_t most_sparse_rows(const Spec& param, bool lazy) {
  const bool floats = param.dtype == DType::f32 || param.dtype == DType::f64;
  const bool has_rows = param.rank() >= (lazy ? 2 : 1);
  return floats && has_rows && param.shape[0] >> 32 == 0 ? param.shape[0] / kSparse : 0;
}

std::size_t sparse_scratch(std::span<const Entry> entries) {
  std::size_t most = 0;  // one after the other
  for (const Entry& e : entries)
    if (e.index_spec)
      most = std::max(most,
                      kernels::update_sparse_scratch(static_cast<std::size_t>(e.index_spec->size()),
                                                     row_width(*e.spec), size_of(e.spec->dtype)));
  return most;
}

std::size_t sparse_squares_scratch(const Entry& e) {
  return kernels::sparse_squares_scratch(static_cast<std::size_t>(e.index_spec->size()),
                                         row_width(*e.spec), size_of(e.spec->dtype));
}

double sparse_squares(const Entry& e, std::span<std::byte> scratch) {
  double sum = 0;
  with_table(e, [&](const auto& table) { sum = kernels::sparse_squares(table, scratch); });
  return sum;
}

template <class Rule>
void run_sparse(const Entry& e, const Rule& rule, kernels::GradientUse use,
                std::span<std::byte> scratch) {
  with_table(e, [&](const auto& table) { kernels::update_sparse(table, rule, use, scratch); });
}
template void run_sparse(const Entry&, const kernels::SgdRule&, kernels::GradientUse,
                         std::span<std::byte>);
template void run_sparse(const Entry&, const kernels::AdamRule&, kernels::GradientUse,
                         std::span<std::byte>);
template void run_sparse(const Entry&, const kernels::LazyAdamRule&, kernels::GradientUse,
                         std::span<std::byte>);
template void run_sparse(const Entry&, const kernels::AdagradRule&, kernels::GradientUse,
                         std::span<std::byte>);

void run_lazy(const Entry& e, const kernels::LazyAdamRule& rule, kernels::GradientUse use) {
  const kernels::AdamRule& adam = rule;
  if (e.spec->rank() < 2) return run_rule({&e, 1}, adam, use, {});
  const std::size_t width = row_width(*e.spec);
  if (width == 0) return;
  const Spec row{{static_cast<std::int64_t>(width)}, e.spec->dtype};
  const std::size_t element = size_of(e.spec->dtype), grad_element = size_of(e.grad_type);
  const std::size_t state_element = size_of(working_type(e.spec->dtype));
  const auto height = static_cast<std::size_t>(e.spec->shape[0]);
  const std::size_t grain = std::max<std::size_t>(1, kTaskElements / width);
  pool::parallel_for(height, grain, [&](std::size_t begin, std::size_t end) {
    std::array<Entry, kAtOnce> rows;
    std::size_t count = 0;
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t at = r * width;
      const std::byte* grad = e.grad + at * grad_element;
      const auto part = [&](std::byte* of) { return of ? of + at * state_element : nullptr; };
      if (!all_zero(e.grad_type, grad, width))
        rows[count++] = {.spec = &row,
                         .grad_type = e.grad_type,
                         .param = e.param + at * element,
                         .grad = grad,
                         .master = part(e.master),
                         .state = {part(e.state[0]), part(e.state[1])}};
      if (count == kAtOnce || r + 1 == end) {
        run_rule(std::span<const Entry>(rows.data(), count), adam, use, {});
        count = 0;
      }
    }
  });
}

}  // namespace ebb::optim
