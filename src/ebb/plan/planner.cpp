// Trace + budget → Plan. Every way to fit is a candidate: the batch whole or in parts of some size,
// variables in memory or in the spill file, and for each the frontier of the search.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "ebb/plan/candidate.hpp"
#include "ebb/plan/program.hpp"
#include "ebb/plan/rows.hpp"
#include "ebb/trace/by_rows.hpp"
#include "ebb/trace/fuse.hpp"
#include "ebb/trace/passes.hpp"
#include "ebb/trace/sparse.hpp"
#include "ebb/trace/store_half.hpp"

namespace ebb::plan {
namespace {

constexpr std::size_t kManyCalls = 1500;          // from here on fewer sizes of parts are tried
constexpr double kEffortForOrder = 0.01;          // where nothing but the order can change
constexpr double kEffortForParts = 0.2;           // there are many sizes of them
constexpr double kEffortBeside = 0.25;            // of ways that round, beside those that do not
constexpr std::size_t kSamples = 8;               // of a candidate's frontier, to print
constexpr double kTransferSeconds = 20e-6;
constexpr double kSpillCpu = 0.15e-9;  // seconds a byte, for checksums and the system's part
constexpr double kWorthALine = 0.005, kLines = 16;  // of the printed frontier
constexpr double kEnoughFaster = 0.9;  // than the whole batch with everything kept, to be believed
constexpr double kWorthRounding = 0.98;  // of the time of a way that keeps the numbers
constexpr std::uint64_t kWorthAHint = 100;  // a part of the smallest budget that is worth a line

class Planner {
 public:
  Planner(const TraceRows& trace_rows, std::int64_t examples, const CompileOptions& options,
          const Surroundings& around, const Machine& machine)
      : trace_rows_(trace_rows),
        examples_(examples),
        options_(options),
        around_(around),
        machine_(machine) {}

  Plan plan() {
    const std::uint64_t budget = options_.memory.bytes;
    find_candidates(budget ? budget : kOutside);
    Plan result;
    result.examples = examples_;
    result.budget = budget;
    result.minimum = minimum_;
    result.frontier = frontier();
    if (budget && budget < result.minimum) refuse(result);
    choose(result);
    return result;
  }

  std::vector<Way> curve() {
    find_candidates(0);
    const Candidate& smallest = candidates_[smallest_];
    std::vector<Way> ways = {way_of(smallest, minimum_, smallest.samples.front())};
    for (const Line& line : lines()) {
      const Candidate& c = *line.of;
      const std::vector<Searched> passes = searched(c.rows, c.levers);
      const std::uint64_t arena = arena_of(packed(passes, line.sample.load, c.carry));
      ways.push_back(way_of(c, c.fixed + arena, line.sample));
    }
    std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
      return std::tie(a.budget, a.seconds) < std::tie(b.budget, b.seconds);
    });
    std::vector<Way> falling;
    for (Way& w : ways)
      if (falling.empty() || w.seconds < falling.back().seconds) falling.push_back(std::move(w));
    return falling;
  }

 private:
  void find_candidates(std::uint64_t budget) {
    whole_ = trace::simplified(trace_rows_(examples_, trace::Part::whole));
    whole_.carry.clear();
    find_sizes();
    whole_ = trace::folded(whole_);
    by_rows_ = options_.by_rows && sizes_.front() == examples_ &&
               !with_gradients_by_rows(with_sparse_updates(whole_)).rowwise.empty();
    const Approximate& asked = options_.approximate;
    if (asked.activations != DType::f32 && !is_half(asked.activations))
      throw Error(fmt::format("compile: activations cannot be stored in {}; expected bf16 or f16",
                              name(asked.activations)));
    const bool rounds = asked.activations != DType::f32 && stores(examples_, asked.activations);
    if (!rounds || !asked.always) add_all(DType::f32, budget);
    if (rounds) add_all(asked.activations, budget);
  }

  // Ways that round come after those that do not. Fewer of them will do: a refusal has to be there
  // in a second.
  bool beside(DType stored) const {
    return stored != DType::f32 && !options_.approximate.always;
  }
  void add_all(DType stored, std::uint64_t budget) {
    const std::size_t stride = beside(stored) ? 2 : 1;
    std::vector<std::int64_t> taken;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if ((i % stride != 0 && i + 1 != sizes_.size()) ||
          add(sizes_[i], {Spilling::none, false, stored}))
        taken.push_back(sizes_[i]);
    sizes_ = std::move(taken);
    if (by_rows_) add(examples_, {Spilling::none, true, stored});
    if (!options_.spill) return;
    add(sizes_.front(), {Spilling::activations, false, stored});
    if (sizes_.size() > 1) add(sizes_.back(), {Spilling::activations, false, stored});
    if (!whole_.variables.empty()) add_spilled_state(stored, budget);
  }

  // The whole batch and the smallest parts tell the least memory; other sizes are of interest only
  // where nothing fits the budget that leaves variables in memory.
  void add_spilled_state(DType stored, std::uint64_t budget) {
    bool fits = false;
    for (const Candidate& c : candidates_) fits |= budget >= c.fixed + c.carry + c.least();
    const bool streams = !lower(whole_, machine_, true, true).streams.empty();
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      if ((fits || beside(stored)) && i > 0 && i + 1 < sizes_.size()) continue;
      if (!streams || !beside(stored)) add(sizes_[i], {Spilling::state, false, stored});
      if (streams) add(sizes_[i], {Spilling::streamed, false, stored});
    }
    if (by_rows_) add(examples_, {streams ? Spilling::streamed : Spilling::state, true, stored});
  }

  // `away`: what lies in the file whatever the plan, as every pass of a batch in parts has to find
  // a variable where the others leave it.
  Searched searched(trace::Trace trace, Levers levers, double effort,
                    const std::vector<Variable>* away = nullptr) const {
    const Spilling spilling = levers.spilling;
    trace = trace::with_sparse_updates(trace);
    if (levers.by_rows) trace = trace::with_gradients_by_rows(trace);
    Searched s{options_.fuse ? trace::fused(trace) : std::move(trace), {}, {}};
    s.lowered =
        lower(s.trace, machine_, spilling >= Spilling::state, spilling == Spilling::streamed);
    for (std::size_t b = 0; away && b < s.lowered.graph.buffers.size(); ++b) {
      Buffer& buffer = s.lowered.graph.buffers[b];
      if (buffer.origin != Origin::state) continue;
      const Variable& v = s.trace.variables[s.trace.values[s.lowered.value_of[b]].index];
      buffer.away = std::find(away->begin(), away->end(), v) != away->end();
      buffer.spillable = buffer.away;
    }
    SearchOptions o;
    o.recompute = options_.recompute;
    o.effort = options_.recompute || spilling != Spilling::none ? effort : kEffortForOrder;
    o.spill.allowed = spilling != Spilling::none;
    o.spill.state_allowed = spilling >= Spilling::state;
    o.spill.write_seconds_per_byte = 1 / machine_.spill_write;
    o.spill.read_seconds_per_byte = 1 / machine_.spill_read;
    o.spill.seconds_per_transfer = kTransferSeconds;
    o.spill.busy = kSpillCpu * std::min(machine_.spill_write, machine_.spill_read);
    s.frontier = search(s.lowered.graph, o);
    return s;
  }

  // Which sizes of parts are worth a look: the whole, then ever smaller ones down to a single row.
  void find_sizes() {
    sizes_ = {examples_};
    const bool asked = options_.rows > 0;
    if (asked && !is_batch()) cannot_be_asked("its inputs have no first axis in common");
    if (examples_ < 2 || !options_.split || (asked && options_.rows >= examples_)) return;
    // Not one row: what is made for each row of one is no larger than what it is made of.
    const std::int64_t half = options_.rows > 1 ? options_.rows
                              : examples_ > 2   ? (examples_ + 1) / 2
                                                : 3;
    const std::string refused = refusal(half, [&] {
      const trace::Trace part = trace::simplified(trace_rows_(half, trace::Part::last));
      split_ = can_split(part, half, whole_, examples_);
      if (split_.possible || !options_.split_mixed) return;
      const trace::Trace more = trace::simplified(trace_rows_(half + 1, trace::Part::last));
      split_ = can_split(part, half, more, half + 1, true);
    });
    if (!refused.empty()) split_.reason = refused;
    if (asked && !split_.possible) cannot_be_asked(split_.reason);
    if (!split_.possible) return;
    const bool forbidden = options_.allow == Allow::same_bits && !split_.same_bits;
    if (asked && forbidden)
      cannot_be_asked(fmt::format("with .allow = same_bits: {}", split_.reason));
    if (forbidden) return;
    if (asked) {
      sizes_ = {options_.rows};
      return;
    }
    // 2, 3, 4, 6, 8, 12, … parts; or, where each takes long to search, 2, 4, 8, ….
    const bool few = whole_.calls.size() > kManyCalls;
    for (std::int64_t parts = 2; parts <= examples_; parts *= 2) {
      for (const std::int64_t p : {parts, parts + parts / 2}) {
        const std::int64_t rows = (examples_ + p - 1) / p;
        if (rows < sizes_.back() && (p == parts || !few)) sizes_.push_back(rows);
      }
    }
    if (sizes_.back() != 1) sizes_.push_back(1);
  }

  bool is_batch() const {
    for (const Spec& s : whole_.inputs)
      if (s.rank() == 0 || s.shape[0] != whole_.inputs[0].shape[0]) return false;
    return !whole_.inputs.empty();
  }
  [[noreturn]] void cannot_be_asked(const std::string& reason) const {
    throw Error(fmt::format("compile: .rows is {}, but the batch cannot be taken in parts: {}",
                            options_.rows, reason));
  }

  // `f` traces the function for so many rows, which nobody has asked for: what it says where it does
  // not take them, or nothing.
  template <class F>
  std::string refusal(std::int64_t rows, F&& f) const {
    try {
      f();
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& e) {
      if (options_.rows > 0)
        throw Error(fmt::format("compile: .rows is {}, but the function does not take {} of the {} "
                                "rows: {}",
                                options_.rows, rows, examples_, e.what()));
      return fmt::format("the function does not take {} of the {} rows: {}", rows, examples_,
                         e.what());
    }
    return {};
  }

  // What a last part can leave in the file: large, and not to be given back as a result.
  std::vector<Variable> can_be_away(const trace::Trace& last, bool streamed) const {
    const Lowered lowered = lower(last, machine_, true, streamed);
    std::vector<bool> used(lowered.graph.buffers.size());
    for (const Node& node : lowered.graph.nodes)
      for (const auto* list : {&node.in, &node.updates})
        for (const Id b : *list) used[b] = true;
    std::vector<bool> in_parts(last.variables.size());  // what every part goes on from
    for (std::size_t a = 0; a < last.assigns.size(); ++a)
      if (a < split_.assigned_in_parts.size() && split_.assigned_in_parts[a])
        in_parts[last.assigns[a].variable] = true;
    std::vector<Variable> away;
    for (std::size_t b = 0; b < used.size(); ++b) {
      const Buffer& buffer = lowered.graph.buffers[b];
      if (!used[b] || buffer.origin != Origin::state || !buffer.spillable || buffer.kept) continue;
      const trace::Id variable = last.values[lowered.value_of[b]].index;
      if (!in_parts[variable]) away.push_back(last.variables[variable]);
    }
    return away;
  }

  // Every pass of a candidate, searched.
  std::vector<Searched> searched(std::int64_t rows, Levers levers) const {
    std::vector<Searched> passes;
    const std::int64_t parts = (examples_ + rows - 1) / rows;
    if (parts == 1) {
      passes.push_back(searched(last_part(rows, levers.stored), levers,
                                beside(levers.stored) ? kEffortBeside : 1));
      return passes;
    }
    const std::int64_t last = examples_ - (parts - 1) * rows;
    const trace::Trace full = last_part(rows, levers.stored);
    const std::vector<Variable> away = levers.spilling >= Spilling::state
                                           ? can_be_away(full, levers.spilling == Spilling::streamed)
                                           : std::vector<Variable>();
    passes.push_back(
        searched(trace::part_only(full, split_.result_carries, split_.assigned_in_parts), levers,
                 kEffortForParts, &away));
    passes.push_back(
        searched(last == rows ? full : last_part(last, levers.stored), levers, kEffortForParts,
                 &away));
    return passes;
  }

  // The part that ends a step; of all rows, it is the whole.
  trace::Trace last_part(std::int64_t rows) const {
    if (rows == examples_) return whole_;
    return trace::folded(trace::simplified(trace_rows_(rows, trace::Part::last)));
  }
  trace::Trace last_part(std::int64_t rows, DType stored) const {
    trace::Trace part = last_part(rows);
    return stored == DType::f32 ? part : trace::stored_half(part, stored).trace;
  }
  bool stores(std::int64_t rows, DType stored) const {
    return trace::stored_half(last_part(rows), stored).values > 0;
  }

  // False where the function does not take parts of this size.
  bool add(std::int64_t rows, Levers levers) {
    if (rows == examples_) {
      add_taken(rows, levers);
      return true;
    }
    return refusal(rows, [&] { add_taken(rows, levers); }).empty();
  }

  void add_taken(std::int64_t rows, Levers levers) {
    if (levers.stored != DType::f32 && !stores(rows, levers.stored)) {  // what it is without
      if (!options_.approximate.always) return;
      levers.stored = DType::f32;
    }
    Candidate c;
    c.rows = rows;
    c.parts = (examples_ + rows - 1) / rows;
    c.levers = levers;
    const std::vector<Searched> passes = searched(rows, levers);
    if (c.parts > 1) {
      c.label = !split_.mixed.empty() ? Allow::approximate
                : split_.same_bits    ? Allow::same_bits
                                      : Allow::same_gradient;
      c.carry = paged(passes.back().lowered.carry_bytes);
    }
    if (levers.stored != DType::f32) c.label = Allow::approximate;
    c.given = around_.batches + others() + constants_of(passes) + results();
    c.fixed = around_.reserve + c.given;
    if (levers.spilling != Spilling::none) c.fixed += around_.spill_memory;
    if (levers.spilling < Spilling::state) c.fixed += passes.back().lowered.state_bytes;
    for (const Searched& s : passes) c.passes.push_back(s.frontier->points());
    c.by_rows = passes.back().trace.rowwise.size();
    sample(c, passes);
    // Only what can be the smallest is packed to know.
    if (c.fixed + c.carry + c.least() < minimum_) {
      const std::uint64_t bytes = c.fixed + arena_of(packed(passes, c.least(), c.carry));
      if (bytes < minimum_) smallest_ = candidates_.size();
      minimum_ = std::min(minimum_, bytes);
    }
    candidates_.push_back(std::move(c));
  }

  // What the program holds that is neither the step's nor its data: its own tensors, other models.
  // Rounded, so that a scalar more or less does not move the smallest budget.
  std::uint64_t others() const {
    std::uint64_t own = 0;
    for (const Variable& v : whole_.variables)
      if (v.in_memory()) own += v.spec().bytes();
    for (const Tensor& t : whole_.constants) own += t.spec().bytes();
    constexpr std::uint64_t kStep = 64 << 10;
    return around_.others > own ? (around_.others - own) / kStep * kStep : 0;
  }

  // Some points of the frontier, evenly from the smallest to the fastest, with what they do.
  static void sample(Candidate& c, const std::vector<Searched>& passes) {
    std::vector<std::uint64_t> loads;
    for (const auto& points : c.passes)
      for (const Frontier::Point& p : points)
        if (p.load >= c.least()) loads.push_back(p.load);
    std::sort(loads.begin(), loads.end());
    loads.erase(std::unique(loads.begin(), loads.end()), loads.end());
    const std::size_t count = std::min<std::size_t>(loads.size(), kSamples);
    for (std::size_t i = 0; i < count; ++i) {
      Sample s;
      s.load = loads[count > 1 ? i * (loads.size() - 1) / (count - 1) : 0];
      for (std::size_t k = 0; k < passes.size(); ++k) {
        const Schedule schedule = passes[k].frontier->at(s.load);
        const auto times = static_cast<std::uint64_t>(c.times(k));
        s.recomputed += schedule.recomputed * times;
        s.written += (schedule.written + passes[k].lowered.streamed_bytes) * times;
        s.read += (schedule.read + passes[k].lowered.streamed_bytes) * times;
      }
      c.samples.push_back(s);
    }
  }

  std::uint64_t results() const {
    std::uint64_t bytes = 0;
    for (const trace::Id id : whole_.results) bytes += aligned(whole_.values[id].spec.bytes());
    return bytes;
  }

  Way way_of(const Candidate& c, std::uint64_t budget, const Sample& s) const {
    Way w;
    w.budget = budget;
    w.seconds = c.seconds(s.load);
    w.rows = c.rows;
    w.split = c.parts > 1;
    w.mixed = w.split && !split_.mixed.empty();
    w.label = c.label;
    w.activations = c.levers.stored;
    w.state_spilled = c.levers.spilling >= Spilling::state;
    w.by_rows = c.by_rows;
    w.recomputed = s.recomputed;
    w.written = s.written;
    w.read = s.read;
    return w;
  }

  struct Line {
    const Candidate* of;
    Sample sample;
    std::uint64_t budget;  // as far as the load tells; packing takes a little more
    double seconds;
  };

  // Where less memory costs more time: the best of all candidates, thinned out to what is worth a
  // line.
  std::vector<Line> lines() const {
    std::vector<Line> all, best, thinned;
    for (const Candidate& c : candidates_)
      for (const Sample& s : c.samples)
        all.push_back({&c, s, std::max(minimum_, c.fixed + c.carry + s.load), c.seconds(s.load)});
    std::sort(all.begin(), all.end(), [](const Line& a, const Line& b) {
      return std::tie(a.budget, a.seconds) < std::tie(b.budget, b.seconds);
    });
    for (const Line& l : all)
      if (best.empty() || l.seconds < best.back().seconds * (1 - kWorthALine)) best.push_back(l);
    const std::size_t step = std::max<std::size_t>(1, best.size() / kLines);
    for (std::size_t i = 0; i < best.size(); ++i)
      if (i % step == 0 || i + 1 == best.size()) thinned.push_back(best[i]);
    return thinned;
  }

  std::vector<Way> frontier() const {
    std::vector<Way> ways;
    for (const Line& l : lines()) ways.push_back(way_of(*l.of, l.budget, l.sample));
    return ways;
  }

  // What the smallest budget would be if activations might be rounded, where that helps.
  std::string hint() {
    if (options_.approximate.activations != DType::f32) return {};
    const std::uint64_t exact = minimum_;
    const std::size_t count = candidates_.size();
    const std::int64_t rows = candidates_[smallest_].rows;
    Levers levers = candidates_[smallest_].levers;
    levers.stored = DType::bf16;
    add(rows, levers);
    const std::uint64_t rounded = std::exchange(minimum_, exact);
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(count), candidates_.end());
    if (rounded + exact / kWorthAHint > exact) return {};
    return fmt::format(
        "\n  {:>10}  with activations in bf16 (approximate), if you allow it: "
        ".approximate = {{.activations = DType::bf16}}",
        to_string(ByteSize{rounded}));
  }

  [[noreturn]] void refuse(const Plan& p) {
    std::string menu;
    for (const Way& w : p.frontier)
      menu += fmt::format("\n  {:>10}  {:>8.1f} ms a step  {:<13}  {}",
                          enough(std::max(w.budget, p.minimum)), w.seconds * 1e3, name(w.label),
                          w.text());
    menu += hint();
    throw BudgetTooSmall(
        fmt::format(
            "the budget of {} ({} bytes) is too small: the smallest that does is {} ({} bytes); "
            "ways to fit, each with its time and label:{}",
            to_string(ByteSize{p.budget}), p.budget, enough(p.minimum), p.minimum,
            menu),
        p.minimum);
  }

  // Parts of a batch are not believed to be a little faster than the whole with everything kept:
  // then the simpler way is taken, and more memory costs no time. Nor are numbers given up for a
  // little.
  double judged(const Candidate& c, std::uint64_t load) const {
    const double seconds = c.seconds(load), simplest = candidates_.front().seconds(kOutside);
    const double believed =
        seconds < simplest * kEnoughFaster ? seconds : std::max(seconds, simplest);
    const bool mixed = c.parts > 1 && !split_.mixed.empty();
    return mixed || beside(c.levers.stored) ? believed / kWorthRounding : believed;
  }

  // The fastest candidate; where packing takes more than its load, the next smaller schedule.
  void choose(Plan& result) {
    const std::uint64_t budget = result.budget ? result.budget : kOutside;
    std::vector<std::uint64_t> limit;
    for (const Candidate& c : candidates_)
      limit.push_back(budget == kOutside           ? kOutside
                      : budget < c.fixed + c.carry ? 0
                                                   : budget - c.fixed - c.carry);
    std::vector<Searched> passes;
    const Candidate* searched_of = nullptr;
    for (;;) {
      const Candidate* best = nullptr;
      std::size_t at = 0;
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const Candidate& c = candidates_[i];
        if (limit[i] < c.least()) continue;
        if (!best || judged(c, limit[i]) < judged(*best, limit[at])) {
          best = &c;
          at = i;
        }
      }
      if (!best) refuse(result);
      if (searched_of != best) {
        searched_of = best;
        passes = searched(best->rows, best->levers);
      }
      std::vector<Program> programs = packed(passes, limit[at], best->carry);
      const std::uint64_t arena = arena_of(programs);
      if (budget != kOutside && best->fixed + arena > budget) {
        std::uint64_t most = 0;
        for (const auto& points : best->passes)
          most = std::max(most, Candidate::point(points, limit[at]).load);
        limit[at] = most - 1;
        continue;
      }
      finish(result, *best, limit[at], std::move(programs), arena);
      return;
    }
  }

  void finish(Plan& p, const Candidate& c, std::uint64_t load, std::vector<Program> programs,
              std::uint64_t arena) {
    p.programs = std::move(programs);
    p.resident = p.programs.back().resident;
    p.arena = arena - p.resident;
    if (c.parts > 1) {
      p.result_carries = split_.result_carries;
      for (std::size_t i = 0; i < p.result_carries.size(); ++i)
        if (p.result_carries[i]) p.programs[0].result_index.push_back(static_cast<Id>(i));
    }
    for (const trace::Id id : whole_.results) p.result_specs.push_back(whole_.values[id].spec);
    p.carry_bytes = c.carry;
    Sample now{load, 0, 0, 0};
    for (std::size_t i = 0; i < p.programs.size(); ++i) {
      const Schedule& s = p.programs[i].schedule;
      const auto times = static_cast<std::uint64_t>(c.times(i));
      now.recomputed += s.recomputed * times;
      now.written += (s.written + p.programs[i].lowered.streamed_bytes) * times;
      now.read += (s.read + p.programs[i].lowered.streamed_bytes) * times;
    }
    p.way = way_of(c, c.fixed + arena, now);
    if (p.way.mixed)
      p.approximate = fmt::format("each part is a batch of its own: {}", split_.mixed);
    if (c.levers.stored != DType::f32) {
      const trace::StoredHalf half = trace::stored_half(last_part(c.rows), c.levers.stored);
      if (!p.approximate.empty()) p.approximate += "; ";
      p.approximate += fmt::format("activations stored in {}: {} of them, {} instead of {}",
                                   name(c.levers.stored), half.values,
                                   to_string(ByteSize{half.before / 2}),
                                   to_string(ByteSize{half.before}));
    }
    for (std::int64_t row = 0, i = 0; i < c.parts; ++i, row += c.rows)
      p.runs.push_back(
          {c.parts > 1 && i == c.parts - 1 ? 1 : 0, row, std::min(c.rows, examples_ - row)});
    std::uint64_t offset = 0;
    if (c.parts > 1) {
      const trace::Trace& last = p.programs.back().trace;
      for (const trace::Id id : last.carry) {
        p.carry_offsets.push_back(id == trace::kNone ? kOutside : offset);
        if (id != trace::kNone) offset += aligned(last.values[id].spec.bytes());
      }
    }
    forecast(p, c);
  }

  void forecast(Plan& p, const Candidate& c) const {
    Forecast& f = p.forecast;
    f.arena = p.arena;
    f.runtime = around_.runtime;
    f.reserve = around_.reserve;
    f.process = c.fixed - around_.reserve + around_.runtime + p.resident + p.arena;
    f.seconds = p.way.seconds;
    f.unlimited_seconds = f.seconds;
    for (const Candidate& other : candidates_)
      f.unlimited_seconds = std::min(f.unlimited_seconds, other.seconds(kOutside));
    const auto largest = std::max_element(
        p.programs.begin(), p.programs.end(),
        [](const Program& x, const Program& y) { return x.schedule.load < y.schedule.load; });
    describe_peak(*largest, f);
    if (c.levers.spilling < Spilling::state)
      for (const Variable& v : whole_.variables)
        f.at_peak[static_cast<int>(v.category())] += aligned(v.spec().bytes());
    f.at_peak[static_cast<int>(Category::gradients)] += p.carry_bytes;
    f.at_peak[static_cast<int>(Category::data)] += c.given;
  }

  const TraceRows& trace_rows_;
  std::int64_t examples_;
  const CompileOptions& options_;
  const Surroundings& around_;
  const Machine& machine_;
  trace::Trace whole_;
  SplitAnswer split_;
  std::vector<std::int64_t> sizes_;
  bool by_rows_ = false;  // some gradient can be made row by row
  std::vector<Candidate> candidates_;
  std::uint64_t minimum_ = kOutside;
  std::size_t smallest_ = 0;  // the candidate that reaches it
};

}  // namespace

Plan make_plan(const TraceRows& trace_rows, std::int64_t examples, const CompileOptions& options,
               const Surroundings& around, const Machine& machine) {
  return Planner(trace_rows, examples, options, around, machine).plan();
}

std::vector<Way> frontier(const TraceRows& trace_rows, std::int64_t examples,
                          const CompileOptions& options, const Surroundings& around,
                          const Machine& machine) {
  return Planner(trace_rows, examples, options, around, machine).curve();
}

}  // namespace ebb::plan
