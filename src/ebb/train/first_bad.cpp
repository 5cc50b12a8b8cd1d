#include "ebb/train/first_bad.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/tensor/with_type.hpp"

namespace ebb::train {
namespace {

struct Bad {
  std::int64_t element;
  double value;
};

// Whether an exponent is all ones. In blocks of one size, which a compiler makes vectors of.
bool any_bad(const float* all, std::int64_t count) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  constexpr int kBlock = 1024;
  std::uint32_t found = 0;
  std::array<std::uint32_t, kBlock> bits;
  for (; count >= kBlock && found == 0; count -= kBlock, all += kBlock) {
    std::memcpy(bits.data(), all, sizeof bits);
    for (int i = 0; i < kBlock; ++i)
      found |=
          static_cast<std::uint32_t>((bits[static_cast<std::size_t>(i)] & kExponent) == kExponent);
  }
  for (std::int64_t i = 0; i < count; ++i)
    found |= static_cast<std::uint32_t>(!std::isfinite(all[i]));
  return found != 0;
}

std::optional<Bad> bad_in(DType dtype, const void* data, std::int64_t count) {
  if (!is_float(dtype)) return std::nullopt;
  if (dtype == DType::f32 && !any_bad(static_cast<const float*>(data), count)) return std::nullopt;
  return with_type(dtype, [&](auto as) -> std::optional<Bad> {
    const auto* all = static_cast<const decltype(as)*>(data);
    for (std::int64_t i = 0; i < count; ++i)
      if (const double value = number_of(all[i]); !std::isfinite(value)) return Bad{i, value};
    return std::nullopt;
  });
}
std::optional<Bad> bad_in(const Tensor& t) {
  return t ? bad_in(t.dtype(), t.raw(), t.size()) : std::nullopt;
}

// In pieces, wherever the variable's bytes lie.
std::optional<Bad> bad_in(const Variable& v) {
  if (!is_float(v.spec().dtype)) return std::nullopt;
  constexpr auto kAtOnce = static_cast<std::int64_t>(InitialValue::kChunk);
  alignas(16) std::array<std::byte, sizeof(double) * kAtOnce> piece;
  const auto width = static_cast<std::int64_t>(size_of(v.spec().dtype));
  for (std::int64_t at = 0; at < v.spec().size(); at += kAtOnce) {
    const std::int64_t some = std::min(kAtOnce, v.spec().size() - at);
    v.read(std::span(piece).first(static_cast<std::size_t>(some * width)),
           static_cast<std::uint64_t>(at * width));
    if (auto bad = bad_in(v.spec().dtype, piece.data(), some))
      return Bad{at + bad->element, bad->value};
  }
  return std::nullopt;
}

// "-inf at [3, 7] of f32(64, 10)"
std::string said(const Bad& bad, const Spec& spec) {
  std::vector<std::int64_t> index;
  std::int64_t rest = bad.element;
  for (int axis = spec.rank(); axis-- > 0; rest /= spec.shape[axis])
    index.insert(index.begin(), rest % spec.shape[axis]);
  return fmt::format("{} at [{}] of {}", bad.value, fmt::join(index, ", "), to_string(spec));
}

// Sees all calls, those of the walk back too, and keeps the first that made something bad of what was good;
// else the first that gave something bad, such as one that was told to put in an infinity.
class Watch final : public ops::Recorder {
 public:
  Watch() {
    outer = ops::recorders();
    ops::recorders() = this;
  }
  ~Watch() { ops::remove_recorder(*this); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void record(const ops::OpType& type, const void*, std::span<const Tensor* const> in,
              std::span<const Tensor> out) override {
    look(type.name, in, out);
  }
  void record(std::shared_ptr<const ops::CustomGrad> rule, std::span<const Tensor* const> in,
              std::span<const Tensor> out) override {
    look(rule->name(), in, out);
  }

  const char* way = "on the way forward";
  std::string made, passed_on;

 private:
  void look(const char* op, std::span<const Tensor* const> in, std::span<const Tensor> out) {
    if (!made.empty()) return;
    for (const Tensor& y : out) {
      const std::optional<Bad> bad = bad_in(y);
      if (!bad) continue;
      bool from_good = true;
      for (const Tensor* x : in) from_good = from_good && !bad_in(*x);
      if (!from_good && !passed_on.empty()) return;
      const std::string scope = Scope::path(Scope::current());
      (from_good ? made : passed_on) =
          fmt::format("{}{}, {}, {} {}{}", op, scope.empty() ? "" : " in " + scope, way,
                      from_good ? "made" : "gave", said(*bad, y.spec()),
                      from_good ? " from numbers that were finite" : "");
      return;
    }
  }
};

std::string in_calls(const Batch& batch, const BadSearch& search,
                     const std::function<Loss(const Batch&)>& loss) {
  std::vector<Tensor> gradients;
  Watch watch;
  {
    Tape tape;
    const Loss l = loss(batch);
    watch.way = "on the way back";
    gradients =
        tape.gradient(l.sum, search.params,
                      {.output_gradient = Tensor::full({}, search.loss_scale, l.sum.dtype())});
    tape.discard();  // running statistics stay as they are
  }
  if (!watch.made.empty()) return watch.made;
  if (!watch.passed_on.empty()) return watch.passed_on;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (const auto bad = bad_in(gradients[i]))
      return fmt::format("the gradient of {} is {}", search.params[i].name(),
                         said(*bad, gradients[i].spec()));
  return {};
}

Batch some_rows(const Batch& batch, std::int64_t begin, std::int64_t end) {
  std::vector<Tensor> values;
  for (const Tensor& t : batch.values()) values.push_back(t.rows(begin, end));
  return Batch(batch.shared_names(), std::move(values));
}

// The whole batch, or parts of it, the smaller the less memory there is.
std::string in_parts(const Batch& batch, const BadSearch& search,
                     const std::function<Loss(const Batch&)>& loss) {
  const memory::Borrowing between_steps;
  const std::int64_t rows = batch.rows();
  for (std::int64_t part = rows; part > 0; part /= 2) try {
      for (std::int64_t begin = 0; begin < rows; begin += part) {
        const std::int64_t end = std::min(rows, begin + part);
        random::restore(search.draws);
        const random::Part of(begin, end - begin);
        if (const std::string found = in_calls(some_rows(batch, begin, end), search, loss);
            !found.empty())
          return found;
      }
      return {};
    } catch (const OutOfMemory&) {  // with less of it at a time
    }
  return "which op made it first is not known: the budget has no room to look for it";
}

}  // namespace

std::string bad_variable(const std::vector<Variable>& variables) {
  for (const Variable& v : variables)
    if (const auto bad = bad_in(v))
      return fmt::format("{} holds {}", v.name(), said(*bad, v.spec()));
  return {};
}

std::optional<BadInput> bad_input(const Batch& batch) {
  for (std::size_t i = 0; i < batch.values().size(); ++i) {
    const Tensor& t = batch.values()[i];
    if (const auto bad = bad_in(t))
      return BadInput{batch.names()[i], bad->element / (t.size() / t.dim(0)), bad->value};
  }
  return std::nullopt;
}

std::string first_bad(const Batch& batch, const BadSearch& search,
                      const std::function<Loss(const Batch&)>& loss) {
  for (std::size_t i = 0; i < batch.values().size(); ++i)
    if (const auto bad = bad_in(batch.values()[i]))
      return fmt::format("column \"{}\" of the batch holds {}", batch.names()[i],
                         said(*bad, batch.values()[i].spec()));
  if (const std::string bad = bad_variable(search.variables); !bad.empty()) return bad;
  const random::State now = random::state();
  struct Restore {
    const random::State& state;
    ~Restore() { random::restore(state); }
  } restore{now};
  return in_parts(batch, search, loss);
}

}  // namespace ebb::train
