#include "ebb/exec/input_gradients.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/process.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/input_specs.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/plan/split/can_split.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace {

// Activations that stay in the cache, and calls so long that waking threads for them does not count.
constexpr std::int64_t kFirstRows = 4096;

// Of the memory beside input and output: all that is left to the process, where it is automatic.
std::uint64_t limit_of(const Memory& memory, std::uint64_t output) {
  if (!memory.automatic) return memory.bytes;
  const std::uint64_t all = process::available().bytes;
  const std::uint64_t taken = all / 20 + process::resident() + output;
  return all > taken ? all - taken : 1;
}

class Chunks {
 public:
  Chunks(const RowFunction& fn, const Spec& x, const InputGradientOptions& options)
      : fn_([fn](std::span<const Tensor> in) {
          const Tensor y = fn(in[0]);
          return std::vector{Tape::innermost() ? gradients(y, in)[0] : y};
        }) {
    if (x.rank() == 0 || !is_float(x.dtype))
      throw Error(fmt::format("input_gradients: the input is {}; expected rows of a floating type",
                              to_string(x)));
    all_ = x.shape[0];
    const auto traced = [&](std::int64_t rows) {
      const Spec spec = x.with_axis(0, rows);
      return trace::trace(fn_, std::span(&spec, 1), trace::MicroBatch::last);
    };
    const auto split = [&] {
      const memory::Unguarded plans;  // symbols, which are gone again
      return plan::can_split(traced(2), 2, traced(3), 3);
    };
    const plan::SplitAnswer rows = split();
    if (!rows.possible || rows.result_per_example != std::vector<bool>{true})
      throw Error(fmt::format("input_gradients: {}; rows have to be independent",
                              rows.reason.empty() ? "the result has no rows" : rows.reason));
    rows_ = std::max<std::int64_t>(all_, 1);
    if (options.rows > 0) {
      rows_ = std::min(options.rows, rows_);
    } else {
      const std::int64_t chunks = (rows_ + kFirstRows - 1) / kFirstRows;
      rows_ = (rows_ + chunks - 1) / chunks;  // as equal as can be
    }
    const std::uint64_t limit = limit_of(options.memory, x.bytes());
    for (;;) {
      CompileOptions c{.recompute = false, .split = false, .spill = false, .plans = 2};
      step_.emplace(nullptr, std::vector{x.with_axis(0, rows_)}, c, fn_);
      const std::uint64_t chunk = 2 * x.with_axis(0, rows_).bytes();
      const std::uint64_t needed = step_->plan().arena + chunk;
      if (limit == 0 || needed <= limit) return;
      if (rows_ == 1)
        throw BudgetTooSmall(
            fmt::format("input_gradients: one row takes {} beside input and output, "
                        "the budget is {}",
                        to_string(ByteSize{needed}), to_string(ByteSize{limit})),
            needed);
      rows_ = std::max<std::int64_t>(1, rows_ / 2);
    }
  }
  // f(begin, end, fresh) for each chunk, all of one size, so that one plan serves: the last begins
  // among rows that have been, and those from `fresh` on are new.
  template <class F>
  void each(F f) const {
    for (std::int64_t row = 0; row < all_; row += rows_) {
      const std::int64_t begin = std::min(row, all_ - rows_);
      f(begin, begin + rows_, row);
    }
  }
  const Tensor& operator()(const Tensor& x) { return step_->run(std::span(&x, 1))[0]; }
  void operator()(const Tensor& x, std::byte* to) {
    step_->run_into(std::span(&x, 1), std::span(&to, 1));
  }

 private:
  trace::Function fn_;
  std::optional<exec::Compiled> step_;
  std::int64_t rows_, all_;
};

}  // namespace

Tensor input_gradients(const RowFunction& fn, const Tensor& x,
                       const InputGradientOptions& options) {
  x.check_known();
  Chunks chunk(fn, x.spec(), options);
  Tensor out = Tensor::uninitialized(x.spec(), "input_gradients");
  chunk.each([&](std::int64_t begin, std::int64_t end, std::int64_t) {
    const Tensor part = x.rows(begin, end);
    const std::uint64_t row_bytes = part.spec().bytes() / static_cast<std::uint64_t>(end - begin);
    chunk(part, out.bytes() + static_cast<std::uint64_t>(begin) * row_bytes);
  });
  return out;
}

void input_gradients(const RowFunction& fn, const std::string& from, const std::string& to,
                     const InputGradientOptions& options) {
  NpyReader in(from);
  Chunks chunk(fn, in.spec(), options);
  NpyWriter out(to, in.spec());
  chunk.each([&](std::int64_t begin, std::int64_t end, std::int64_t fresh) {
    const Tensor& part = chunk(in.rows(begin, end));
    out.append(fresh == begin ? part : part.rows(fresh - begin, end - begin));
  });
  out.commit();
}

}  // namespace ebb
