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
    : trace_batch_(trace_batch), examples_(examples), options_(options), part_(part_of(options)) {
  whole_ = trace::simplified(trace_batch_(examples_, MicroBatch::whole));
  whole_.carry.clear();
  ask_whether_split();
  whole_ = trace::specialized(std::move(whole_), {});
}

void MicroBatches::ask_whether_split() {
  const bool asked = options_.micro_batch > 0;
  if (asked && !is_batch()) cannot_be_asked("its inputs have no first axis in common");
  if (!divided() &&
      (examples_ < 2 || !options_.split || (asked && options_.micro_batch >= examples_)))
    return;
  if (divided() && !is_batch()) cannot_be_divided("its inputs have no first axis in common");
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
  if (divided()) ask_whether_divided(half);
  if (asked && !split_.possible) cannot_be_asked(split_.reason);
  may_split_ = split_.possible && (options_.allow != Allow::same_bits || split_.same_bits);
  if (asked && !may_split_)
    cannot_be_asked(fmt::format("with .allow = same_bits: {}", split_.reason));
}

// Sums that have the bits of one process, where there are such; else those of micro-batches.
void MicroBatches::ask_whether_divided(std::int64_t half) {
  if (!split_.possible) cannot_be_divided(split_.reason);
  if (!split_.mixed.empty()) cannot_be_divided(split_.mixed);
  const auto traced = [&](std::int64_t examples) {
    return trace::simplified(trace_batch_(examples, MicroBatch::last));
  };
  rank_sums_ = find_rank_sums(traced(half), half, traced(half + 1), half + 1);
  if (rank_sums_.possible()) {
    split_.same_bits = true;
    if (rank_sums_.in_turn() && options_.micro_batch > 0 && options_.micro_batch < most_rows())
      cannot_be_asked("a weight is used twice, and ranks add up what each of its uses gives");
  } else if (!split_.same_bits && options_.allow == Allow::same_bits) {
    cannot_be_divided(
        fmt::format("with .allow = same_bits: {}; {}", split_.reason, rank_sums_.reason));
  }
}

std::vector<std::int64_t> MicroBatches::sizes(bool fine) const {
  const std::int64_t all = most_rows();
  std::vector<std::int64_t> result = {all};
  if (!may_split_ || !options_.split || rank_sums_.in_turn()) return result;
  if (options_.micro_batch > 0) return {std::min(options_.micro_batch, all)};
  fine = fine && whole_.calls.size() <= kLimits.fine_sizes_calls;
  for (std::int64_t power = fine ? 2 : 4; power <= all; power *= fine ? 2 : 4) {
    for (const std::int64_t count : {power, power + power / 2}) {
      const std::int64_t size = (all + count - 1) / count;
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

void MicroBatches::cannot_be_divided(const std::string& reason) const {
  throw Error(
      fmt::format("compile: the batch cannot be divided among {} ranks: {}", part_.count, reason));
}

std::vector<Spec> MicroBatches::result_specs() const {
  std::vector<Spec> specs;
  for (const trace::Id id : whole_.results) specs.push_back(whole_.values[id].spec);
  if (divided())
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (split_.result_per_example[i])
        specs[i] = specs[i].with_axis(0, specs[i].shape[0] / examples_ * own_rows());
  return specs;
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
  if (examples == examples_ && !divided()) {
    // whole_ is folded, which folding again leaves as it is
    return stored == DType::f32 ? whole_ : trace::specialized(whole_, {.stored = stored});
  }
  if (rank_sums_.possible())
    return trace::specialized(
        with_rank_sums(trace::simplified(trace_batch_(examples, MicroBatch::last)), rank_sums_,
                       trace::simplified(trace_batch_(examples_, MicroBatch::last))),
        {.stored = stored});
  trace::Trace t = trace::simplified(trace_batch_(examples, MicroBatch::last));
  check_alike(t, examples);
  if (examples == 1 && examples_ > 2)  // of which less can be said
    check_alike(trace::simplified(trace_batch_(2, MicroBatch::last)), 2);
  if (!with_counts(t, split_))
    throw Error("the number of constants depends on how many examples there are");
  return trace::specialized(std::move(t), {.stored = stored});
}

bool MicroBatches::add_traces(Traced& to, DType stored) const {
  const auto before = [&](const trace::Trace& t) {
    to.traces.push_back(trace::before_last(t, split_.result_per_example, split_.assigned_in_each));
  };
  trace::Trace full = last(to.micro_batch, stored);
  bool stores = trace::stores_half(full);
  if (to.count > 1) before(full);
  const std::int64_t left = most_rows() - (to.count - 1 - divided()) * to.micro_batch;
  if (left != to.micro_batch) {
    full = last(left, stored);
    stores |= trace::stores_half(full);
    if (divided()) before(full);
  }
  to.traces.push_back(divided() ? trace::after_sums(full, split_.result_per_example)
                                : std::move(full));
  return stores;
}

std::optional<Traced> MicroBatches::traced(std::int64_t micro_batch, DType stored) const {
  const std::int64_t all = most_rows();
  Traced result{micro_batch, (all + micro_batch - 1) / micro_batch + divided(), DType::f32, {}};
  const auto trace_all = [&] {
    if (add_traces(result, stored)) result.stored = stored;
    if (!carry_alike(result.traces.front(), result.traces.back()))
      throw Error("which sums go on depends on how many examples there are");
  };
  if (micro_batch == all) {
    trace_all();
  } else if (!refusal(micro_batch, trace_all).empty()) {
    return std::nullopt;
  }
  return result;
}

}  // namespace ebb::plan
