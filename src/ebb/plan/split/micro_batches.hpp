// How a batch is cut: whole, or in micro-batches of some size, and the traces of a step that does
// so.
//
// A batch that is split has two traces: one of each micro-batch before the last, which adds to the
// sums, and one of the last, which updates.
//
// A batch that is divided among ranks has one that adds to the sums, maybe another for the rows that are left,
// and one without any examples, which updates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/plan/options.hpp"
#include "ebb/plan/split/can_split.hpp"
#include "ebb/plan/split/rank_sums.hpp"

namespace ebb::plan {

// A step, traced.
struct Traced {
  std::int64_t micro_batch = 0;  // examples of one; of the last one, at most
  std::int64_t count = 1;        // of micro-batches; of a divided batch, with the run that updates
  DType stored = DType::f32;     // what waits for the walk back, in the traces
  std::vector<trace::Trace>
      traces;  // the whole; or those of micro-batches, that which updates last
};

class MicroBatches {
 public:
  // Keeps references. Throws where .micro_batch asks for what cannot be.
  MicroBatches(const trace::TraceBatch& trace_batch, std::int64_t examples,
               const CompileOptions& options);

  std::int64_t examples() const { return examples_; }
  const data::Part& part() const { return part_; }
  bool divided() const { return !part_.whole(); }
  const RankSums& rank_sums() const { return rank_sums_; }
  std::int64_t own_rows() const { return part_.rows(examples_); }
  // Of the largest micro-batch that is planned: of none, too, as there may be some in the next batch.
  std::int64_t most_rows() const { return std::max<std::int64_t>(own_rows(), 1); }
  const trace::Trace& whole() const { return whole_; }
  const SplitAnswer& split() const { return split_; }
  bool may_split() const { return may_split_; }  // it can be, and is allowed to

  // Examples of a micro-batch that are worth a try: all, then ever fewer, down to one. Coarse: each
  // a quarter of the one before. Fine: for 2, 3, 4, 6, 8, … micro-batches.
  std::vector<std::int64_t> sizes(bool fine) const;

  // Results as they are here: of those that are made for each example, its own.
  std::vector<Spec> result_specs() const;

  // Nothing where the function does not take micro-batches of this size, which nobody has asked
  // for.
  std::optional<Traced> traced(std::int64_t micro_batch, DType stored) const;

 private:
  void ask_whether_split();
  void ask_whether_divided(std::int64_t half);
  [[noreturn]] void cannot_be_divided(const std::string& reason) const;
  bool is_batch() const;
  [[noreturn]] void cannot_be_asked(const std::string& reason) const;
  std::string refusal(std::int64_t examples, const std::function<void()>& f) const;
  void check_alike(const trace::Trace& trace, std::int64_t examples) const;
  trace::Trace last(std::int64_t examples, DType stored) const;
  bool add_traces(Traced& to, DType stored) const;  // whether something is stored so

  const trace::TraceBatch& trace_batch_;
  std::int64_t examples_;
  const CompileOptions& options_;
  data::Part part_;
  trace::Trace whole_;
  SplitAnswer split_;
  RankSums rank_sums_;
  trace::Trace asked_;  // the micro-batch that was asked, where the batch can be split
  std::int64_t asked_examples_ = 0;
  bool may_split_ = false;
};

}  // namespace ebb::plan
