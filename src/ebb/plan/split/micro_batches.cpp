#include "ebb/plan/split/micro_batches.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/plan/limits.hpp"
#include "ebb/trace/passes.hpp"
#include "ebb/trace/pipeline.hpp"
#include "ebb/trace/store_half.hpp"

namespace ebb::plan {
namespace {

using trace::MicroBatch;

// Whether each finds what the other leaves. The whole batch leaves nothing.
bool carry_alike(const trace::Trace& a, const trace::Trace& b) {
  return std::equal(
      a.carry.begin(), a.carry.end(), b.carry.begin(), b.carry.end(),
      [](trace::Id x, trace::Id y) { return (x == trace::kNone) == (y == trace::kNone); });
}

}  // namespace

MicroBatches::MicroBatches(const trace::TraceBatch& trace_batch, std::int64_t examples,
                           const CompileOptions& options)
    : trace_batch_(trace_batch), examples_(examples), options_(options) {
  whole_ = trace::simplified(trace_batch_(examples_, MicroBatch::whole));
  whole_.carry.clear();
  ask_whether_split();
  whole_ = trace::specialized(std::move(whole_), {});
}

void MicroBatches::ask_whether_split() {
  const bool asked = options_.micro_batch > 0;
  if (asked && !is_batch()) cannot_be_asked("its inputs have no first axis in common");
  if (examples_ < 2 || !options_.split || (asked && options_.micro_batch >= examples_)) return;
  // Not one example: what is made for each of one is no larger than what it is made of.
  const std::int64_t half = options_.micro_batch > 1 ? options_.micro_batch
                            : examples_ > 2          ? (examples_ + 1) / 2
                                                     : 3;
  const std::string refused = refusal(half, [&] {
    trace::Trace some = trace::simplified(trace_batch_(half, MicroBatch::last));
    const trace::Trace all = trace::simplified(trace_batch_(examples_, MicroBatch::last));
    split_ = can_split(some, half, all, examples_);
    if (!split_.possible && options_.independent_micro_batches) {
      const trace::Trace more = trace::simplified(trace_batch_(half + 1, MicroBatch::last));
      split_ = can_split(some, half, more, half + 1, true);
    }
    if (split_.possible) {
      asked_ = std::move(some);
      asked_examples_ = half;
    }
  });
  if (!refused.empty()) split_.reason = refused;
  if (asked && !split_.possible) cannot_be_asked(split_.reason);
  may_split_ = split_.possible && (options_.allow != Allow::same_bits || split_.same_bits);
  if (asked && !may_split_)
    cannot_be_asked(fmt::format("with .allow = same_bits: {}", split_.reason));
}

std::vector<std::int64_t> MicroBatches::sizes(bool fine) const {
  std::vector<std::int64_t> result = {examples_};
  if (!may_split_) return result;
  if (options_.micro_batch > 0) return {options_.micro_batch};
  fine = fine && whole_.calls.size() <= kLimits.fine_sizes_calls;
  for (std::int64_t power = fine ? 2 : 4; power <= examples_; power *= fine ? 2 : 4) {
    for (const std::int64_t count : {power, power + power / 2}) {
      const std::int64_t size = (examples_ + count - 1) / count;
      if (size < result.back() && (count == power || fine)) result.push_back(size);
    }
  }
  if (result.back() != 1) result.push_back(1);
  return result;
}

bool MicroBatches::is_batch() const {
  for (const Spec& s : whole_.inputs)
    if (s.rank() == 0 || s.shape[0] != whole_.inputs[0].shape[0]) return false;
  return !whole_.inputs.empty();
}

void MicroBatches::cannot_be_asked(const std::string& reason) const {
  throw Error(
      fmt::format("compile: .micro_batch is {}, but the batch cannot be taken in micro-batches: {}",
                  options_.micro_batch, reason));
}

// `f` traces the function for so many examples, which nobody has asked for: what it says where it
// does not take them, or nothing.
std::string MicroBatches::refusal(std::int64_t examples, const std::function<void()>& f) const {
  try {
    f();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    const std::string why = fmt::format("the function does not take {} of the {} examples: {}",
                                        examples, examples_, e.what());
    if (options_.micro_batch == 0) return why;
    throw Error(fmt::format("compile: .micro_batch is {}, but {}", options_.micro_batch, why));
  }
  return {};
}

// That a micro-batch does what the one does that was asked whether the batch can be split.
void MicroBatches::check_alike(const trace::Trace& trace, std::int64_t examples) const {
  const std::string why = why_different(trace, examples, asked_, asked_examples_, split_);
  if (!why.empty()) throw Error(why);
}

// The micro-batch that ends a step; of all examples, it is the whole.
trace::Trace MicroBatches::last(std::int64_t examples, DType stored) const {
  if (examples == examples_) {
    // whole_ is folded, which folding again leaves as it is
    return stored == DType::f32 ? whole_ : trace::specialized(whole_, {.stored = stored});
  }
  trace::Trace t = trace::simplified(trace_batch_(examples, MicroBatch::last));
  check_alike(t, examples);
  if (examples == 1 && examples_ > 2)  // of which less can be said
    check_alike(trace::simplified(trace_batch_(2, MicroBatch::last)), 2);
  if (!with_counts(t, split_))
    throw Error("the number of constants depends on how many examples there are");
  return trace::specialized(std::move(t), {.stored = stored});
}

std::optional<Traced> MicroBatches::traced(std::int64_t micro_batch, DType stored) const {
  Traced result{micro_batch, (examples_ + micro_batch - 1) / micro_batch, DType::f32, {}};
  const auto trace_all = [&] {
    const std::int64_t left = examples_ - (result.count - 1) * micro_batch;
    trace::Trace full = last(micro_batch, stored);
    bool stores = trace::stores_half(full);
    if (result.count > 1)
      result.traces.push_back(
          trace::before_last(full, split_.result_per_example, split_.assigned_in_each));
    result.traces.push_back(left == micro_batch ? std::move(full) : last(left, stored));
    stores |= trace::stores_half(result.traces.back());
    if (stores) result.stored = stored;
    if (!carry_alike(result.traces.front(), result.traces.back()))
      throw Error("which sums go on depends on how many examples there are");
  };
  if (micro_batch == examples_) {
    trace_all();
  } else if (!refusal(micro_batch, trace_all).empty()) {
    return std::nullopt;
  }
  return result;
}

}  // namespace ebb::plan
