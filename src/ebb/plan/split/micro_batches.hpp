// How a step is cut and traced: the batch whole, or in parts of some size; and each pass of it
// searched, with the policy of a candidate.
//
// A batch in parts has two passes: one for each part before the last, which adds to the sums, and
// one for the last, which updates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/plan/candidate.hpp"
#include "ebb/plan/pack/program.hpp"
#include "ebb/plan/split/can_split.hpp"

namespace ebb::plan {

// The passes of a step, traced.
struct Traced {
  std::int64_t rows = 0, parts = 1;
  DType stored = DType::f32;  // what waits for the walk back, in the traces
  std::vector<trace::Trace> passes;
};

// A pass with the policy of a candidate, in the form that is searched.
Searched ready(trace::Trace trace, Policy policy, bool fuse, const Machine& machine);

class Passes {
 public:
  Passes(const TraceRows& trace_rows, std::int64_t examples, const CompileOptions& options,
         const Machine& machine);

  std::int64_t examples() const { return examples_; }
  const trace::Trace& whole() const { return whole_; }
  const SplitAnswer& split() const { return split_; }

  // Rows of a part that are worth a look: the whole, then ever smaller ones, down to a single row.
  // Coarse: each a quarter of the one before. Fine: for 2, 3, 4, 6, 8, … parts.
  std::vector<std::int64_t> sizes(bool fine) const;

  // Nothing where the function does not take parts of this size, which nobody has asked for.
  std::optional<Traced> traced(std::int64_t rows, DType stored) const;

  // Pure, and safe on several threads at once; so are its passes, where that is asked for.
  std::vector<Searched> searched(const Traced& traced, Policy policy, double effort,
                                 bool at_once) const;

  // Whether some gradient of the whole batch can be made row by row.
  bool has_gradient_blocks() const { return gradient_blocks_; }
  // Whether some state can go through memory in pieces.
  bool streams() const;

 private:
  void ask_whether_split();
  bool is_batch() const;
  [[noreturn]] void cannot_be_asked(const std::string& reason) const;
  std::string refusal(std::int64_t rows, const std::function<void()>& f) const;
  void check_alike(const trace::Trace& part, std::int64_t rows) const;
  trace::Trace last_part(std::int64_t rows) const;
  std::vector<Variable> can_be_away(const trace::Trace& last, bool streamed) const;
  Searched searched(trace::Trace trace, Policy policy, double effort,
                    const std::vector<Variable>* away) const;

  const TraceRows& trace_rows_;
  std::int64_t examples_;
  const CompileOptions& options_;
  const Machine& machine_;
  trace::Trace whole_;
  SplitAnswer split_;
  trace::Trace part_;  // that was asked, where it can be split
  std::int64_t part_rows_ = 0;
  bool may_split_ = false;  // and is allowed to
  bool gradient_blocks_ = false;
};

}  // namespace ebb::plan
