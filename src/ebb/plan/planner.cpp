// Trace + budget → Plan. Every way to fit is a candidate: the batch whole or in parts of some size,
// variables in memory or in the spill file, and for each the frontier of the search.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "ebb/base/pool.hpp"
#include "ebb/plan/candidate.hpp"
#include "ebb/plan/split/micro_batches.hpp"
#include "ebb/plan/pack/program.hpp"
#include "ebb/trace/store_half.hpp"

namespace ebb::plan {
namespace {

// A first look at every candidate; and a close one at those that matter: the smallest, for the
// smallest budget there is, and the fastest for the budget at hand. Of parts there are two passes.
constexpr double kLook = 0.05, kClose = 1, kCloseParts = 0.3;
constexpr double kBeside = 0.25;    // of these, for ways that round beside those that do not
constexpr std::size_t kAtOnce = 2;  // candidates that are looked at closely
// Bytes that a search takes while it runs. It is done before the arena is there, in the memory that
// the arena will take; where that is not enough for two searches at once, one goes after the other.
constexpr std::uint64_t kMemoryOfACall = 8 << 10;
constexpr double kHope = 0.7;  // of its time, that a close look may find
constexpr std::size_t kManyCalls = 4000;
constexpr double kOfMany = 0.5;      // of these, where there are more calls
constexpr int kBetween = 3;          // sizes of parts tried between two, for the fastest
constexpr std::size_t kSamples = 8;  // of a candidate's frontier, to print
constexpr double kWorthALine = 0.005, kLines = 16;  // of the printed frontier
constexpr double kEnoughFaster = 0.9;  // than the whole batch with everything kept, to be believed
constexpr double kWorthRounding = 0.98;     // of the time of a way that keeps the numbers
constexpr std::uint64_t kWorthAHint = 100;  // a part of the smallest budget that is worth a line

class Planner {
 public:
  Planner(const TraceRows& trace_rows, std::int64_t examples, const CompileOptions& options,
          const Footprint& footprint, const Machine& machine)
      : options_(checked(options)),
        footprint_(footprint),
        passes_(trace_rows, examples, options, machine) {}

  Plan plan() {
    const std::uint64_t budget = options_.memory.bytes;
    find_candidates(budget ? budget : kOutside);
    find_minimum();
    if (budget >= minimum_) add_away(budget);
    Plan result;
    result.examples = passes_.examples();
    result.budget = budget;
    for (const trace::Id id : passes_.whole().results)
      result.result_specs.push_back(passes_.whole().values[id].spec);
    result.minimum = minimum_;
    result.minimum_spills = minimum_spills_;
    result.minimum_uses_file = candidates_[smallest_].policy.spilling != Spilling::none;
    if (!budget || budget >= minimum_) choose(result);
    result.frontier = frontier();
    if (budget && budget < minimum_) refuse(result);
    return result;
  }

  // The smallest budget that plan() takes.
  std::uint64_t minimum() {
    find_candidates(kOutside);
    find_minimum();
    return minimum_;
  }

  // From that budget on.
  std::vector<FrontierPoint> curve(std::uint64_t least) {
    close_ = true;
    find_candidates(kOutside);
    add_away(0);
    find_minimum();
    minimum_ = std::max(minimum_, least);
    const Candidate& smallest = candidates_[smallest_];
    std::vector<FrontierPoint> ways = {point_of(smallest, minimum_, smallest.sample(smallest.least()))};
    for (const Line& line : lines()) {
      const Candidate& c = candidates_[line.of];
      const std::uint64_t arena = arena_of(packed(schedules(line.of), line.sample.load, c.carry));
      ways.push_back(point_of(c, std::max(minimum_, c.fixed + arena), line.sample));
    }
    std::sort(ways.begin(), ways.end(), [](const FrontierPoint& a, const FrontierPoint& b) {
      return std::tie(a.budget, a.seconds) < std::tie(b.budget, b.seconds);
    });
    std::vector<FrontierPoint> falling;
    for (FrontierPoint& w : ways)
      if (falling.empty() || w.seconds < falling.back().seconds) falling.push_back(std::move(w));
    return falling;
  }

 private:
  static const CompileOptions& checked(const CompileOptions& options) {
    const DType stored = options.approximate.activations;
    if (stored != DType::f32 && !is_half(stored))
      throw Error(fmt::format("compile: activations cannot be stored in {}; expected bf16 or f16",
                              name(stored)));
    return options;
  }

  void find_candidates(std::uint64_t budget) {
    std::uint64_t there = footprint_.reserve + footprint_.batches + others();
    for (const Variable& v : passes_.whole().variables) there += v.spec().bytes();
    const std::size_t calls = passes_.whole().calls.size();
    at_once_ = budget == 0 || budget > there + kAtOnce * calls * kMemoryOfACall;
    sizes_ = passes_.sizes(close_);
    // Where there is one way only, it is the one that matters.
    if (sizes_.size() == 1 && !options_.spill && !passes_.has_gradient_blocks()) close_ = true;
    const Approximate& asked = options_.approximate;
    const bool rounds = asked.activations != DType::f32 &&
                        passes_.traced(sizes_.front(), asked.activations)->stored != DType::f32;
    if (!rounds || !asked.always) add_all(DType::f32);
    if (rounds) add_all(asked.activations);
  }

  // Ways that round come after those that do not. Fewer of them will do: a refusal has to be there
  // in a second.
  bool beside(DType stored) const { return stored != DType::f32 && !options_.approximate.always; }

  // How variables may lie in the file.
  std::vector<Policy> away(DType stored) const {
    std::vector<Policy> ways;
    if (!options_.spill || passes_.whole().variables.empty()) return ways;
    const bool streams = passes_.streams();
    if (!streams || !beside(stored)) ways.push_back({Spilling::state, false, stored});
    if (streams) ways.push_back({Spilling::streamed, false, stored});
    return ways;
  }

  // The whole batch and the smallest parts tell the least memory: these with every policy.
  void add_all(DType stored) {
    const std::vector<Policy> kept = {{Spilling::none, false, stored}}, file = away(stored);
    std::vector<Policy> all = kept;
    if (options_.spill) all.push_back({Spilling::activations, false, stored});
    all.insert(all.end(), file.begin(), file.end());
    std::vector<Policy> first = all;
    if (passes_.has_gradient_blocks()) {
      first.push_back({Spilling::none, true, stored});
      if (!file.empty()) first.push_back({file.back().spilling, true, stored});
    }
    add(sizes_.front(), first);
    while (sizes_.size() > 1 && !add(sizes_.back(), all)) sizes_.pop_back();
    for (std::size_t i = 1; i + 1 < sizes_.size(); ++i)
      if (!beside(stored) || i % 2 == 0) add(sizes_[i], kept);
  }

  // Other sizes with variables in the file are of interest only where nothing else fits the budget.
  // They come after the smallest budget is known, which does not depend on the one that is asked
  // for.
  void add_away(std::uint64_t budget) {
    const Approximate& asked = options_.approximate;
    const std::vector<Policy> file = away(asked.always ? asked.activations : DType::f32);
    bool fits = file.empty();
    for (const Candidate& c : candidates_)
      fits |= c.policy.spilling < Spilling::state && budget >= c.fixed + c.carry + c.least();
    for (std::size_t i = 1; i + 1 < sizes_.size() && !fits; ++i) add(sizes_[i], file);
  }

  // False where the function does not take parts of this size.
  bool add(std::int64_t rows, const std::vector<Policy>& ways) {
    const DType stored = ways.front().stored;
    const std::optional<Traced> traced = passes_.traced(rows, stored);
    if (!traced) return false;
    if (traced->stored != stored && !options_.approximate.always) return true;  // as without
    const std::size_t first = candidates_.size();
    candidates_.resize(first + ways.size());
    std::vector<Searched> only;  // one way that is searched closely is wanted soon
    const bool keep = close_ && ways.size() == 1;
    each(ways.size(), [&](std::size_t i) {
      Policy policy = ways[i];
      policy.stored = traced->stored;
      candidates_[first + i] = candidate(*traced, policy, close_, keep ? &only : nullptr);
    });
    at_hand_.clear();
    if (keep) at_hand_.push_back({first, std::move(only)});
    return true;
  }

  Candidate candidate(const Traced& traced, Policy policy, bool deep,
                      std::vector<Searched>* schedules = nullptr) const {
    Candidate c;
    c.rows = traced.rows;
    c.parts = traced.parts;
    c.policy = policy;
    c.deep = deep;
    c.effort = (!deep         ? kLook
                : c.parts > 1 ? kCloseParts
                              : kClose) *
               (beside(policy.stored) ? kBeside : 1);
    std::vector<Searched> passes = passes_.searched(traced, policy, c.effort, at_once_);
    if (c.parts > 1) {
      const SplitAnswer& split = passes_.split();
      c.label = !split.mixed.empty() ? Allow::approximate
                : split.same_bits    ? Allow::same_bits
                                     : Allow::same_gradient;
      c.carry = paged(passes.back().lowered.carry_bytes);
    }
    if (policy.stored != DType::f32) c.label = Allow::approximate;
    c.given = footprint_.batches + others() + constants_of(passes) + results();
    c.fixed = footprint_.reserve + c.given;
    if (policy.spilling != Spilling::none) c.fixed += footprint_.spill_memory;
    if (policy.spilling < Spilling::state) c.fixed += passes.back().lowered.state_bytes;
    for (const Searched& s : passes) {
      c.passes.push_back(s.frontier->points());
      c.streamed.push_back(s.lowered.streamed_bytes);
    }
    c.gradient_blocks = passes.back().trace.gradient_blocks.size();
    if (schedules) *schedules = std::move(passes);
    return c;
  }

  // The schedules of a candidate: those at hand, or searched again.
  const std::vector<Searched>& schedules(std::size_t which) {
    for (const AtHand& h : at_hand_)
      if (h.of == which) return h.passes;
    const Candidate& c = candidates_[which];
    at_hand_.clear();
    at_hand_.push_back({which, passes_.searched(*passes_.traced(c.rows, c.policy.stored), c.policy,
                                                c.effort, at_once_)});
    return at_hand_.back().passes;
  }

  // Searches more closely; what it finds is taken where it is better at this load.
  void deepen(const std::vector<std::size_t>& which, const std::vector<std::uint64_t>& load) {
    at_hand_.clear();
    std::vector<std::optional<Traced>> traced(which.size());
    std::vector<std::vector<Searched>> found(which.size());
    const auto trace = [&](std::size_t k) {
      traced[k] = passes_.traced(candidates_[which[k]].rows, candidates_[which[k]].policy.stored);
    };
    if (at_once_)  // the function is called by one thread
      for (std::size_t k = 0; k < which.size(); ++k) trace(k);
    each(which.size(), [&](std::size_t k) {
      if (!at_once_) {
        for (std::size_t done = 0; done < k; ++done) found[done].clear();
        trace(k);
      }
      Candidate& c = candidates_[which[k]];
      Candidate close = candidate(*traced[k], c.policy, true, &found[k]);
      traced[k].reset();
      c.deep = true;
      const bool better = load[k] < c.least() ? close.least() <= c.least()
                                              : close.least() <= load[k] &&
                                                    close.seconds(load[k]) <= c.seconds(load[k]);
      if (better) c = std::move(close);
      if (!better) found[k].clear();
    });
    for (std::size_t k = 0; k < which.size(); ++k)
      if (!found[k].empty()) at_hand_.push_back({which[k], std::move(found[k])});
  }

  // At once, where there is memory for that.
  template <class F>
  void each(std::size_t count, F&& f) const {
    const auto some = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) f(i);
    };
    if (at_once_ && count > 1) {
      pool::parallel_for(count, 1, some);
    } else {
      some(0, count);
    }
  }

  // Candidates that may be the smallest are searched closely; only what can be is packed to know.
  void find_minimum() {
    const auto bytes = [&](std::size_t i) {
      return candidates_[i].fixed + candidates_[i].carry + candidates_[i].least();
    };
    const auto order = [&](const auto& key) {
      std::vector<std::size_t> result(candidates_.size());
      std::iota(result.begin(), result.end(), std::size_t{0});
      std::stable_sort(result.begin(), result.end(),
                       [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
      return result;
    };
    if (!close_) {
      // A close search has found half of the load, but not less.
      const std::vector<std::size_t> hopeful =
          order([&](std::size_t i) { return bytes(i) - candidates_[i].least() / 2; });
      std::vector<std::size_t> some = {order(bytes).front()};
      for (const std::size_t i : hopeful)
        if (some.size() < kAtOnce && i != some[0] &&
            bytes(i) - candidates_[i].least() / 2 < bytes(some[0]))
          some.push_back(i);
      deepen(some, std::vector<std::uint64_t>(some.size()));
    }
    for (const std::size_t i : order(bytes)) {
      if (bytes(i) >= minimum_) break;
      const Candidate& c = candidates_[i];
      const std::vector<Program> programs = packed(schedules(i), c.least(), c.carry);
      const std::uint64_t all = c.fixed + arena_of(programs);
      if (all < minimum_) {
        minimum_ = all, smallest_ = i;
        minimum_spills_ = spilled_variables(programs);
      }
    }
    candidates_[smallest_].deep = true;  // what is promised by these schedules is kept
  }

  // What the program holds that is neither the step's nor its data: its own tensors, other models.
  std::uint64_t others() const {
    std::uint64_t own = 0;
    for (const Tensor& t : passes_.whole().constants) own += t.spec().bytes();
    return footprint_.others > own ? footprint_.others - own : 0;
  }

  std::uint64_t results() const {
    std::uint64_t bytes = 0;
    for (const trace::Id id : passes_.whole().results)
      bytes += aligned(passes_.whole().values[id].spec.bytes());
    return bytes;
  }

  FrontierPoint point_of(const Candidate& c, std::uint64_t budget, const Sample& s) const {
    FrontierPoint w;
    w.budget = budget;
    w.seconds = c.seconds(s.load);
    w.micro_batch = c.rows;
    w.split = c.parts > 1;
    w.mixed = w.split && !passes_.split().mixed.empty();
    w.label = c.label;
    w.activations = c.policy.stored;
    w.state_spilled = c.policy.spilling >= Spilling::state;
    w.gradient_blocks = c.gradient_blocks;
    w.recomputed = s.recomputed;
    w.written = s.written;
    w.read = s.read;
    return w;
  }

  struct Line {
    std::size_t of;  // which candidate
    Sample sample;
    std::uint64_t budget;  // as far as the load tells; packing takes a little more
    double seconds;
  };

  // Where less memory costs more time: the best of all candidates, thinned out to what is worth a
  // line.
  std::vector<Line> lines() const {
    std::vector<Line> all, best, thinned;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& c = candidates_[i];
      for (const std::uint64_t load : c.loads(kSamples))
        all.push_back(
            {i, c.sample(load), std::max(minimum_, c.fixed + c.carry + load), c.seconds(load)});
    }
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

  std::vector<FrontierPoint> frontier() const {
    std::vector<FrontierPoint> ways;
    for (const Line& l : lines()) ways.push_back(point_of(candidates_[l.of], l.budget, l.sample));
    return ways;
  }

  // What the smallest budget would be if activations might be rounded, where that helps.
  std::string hint() {
    if (options_.approximate.activations != DType::f32) return {};
    const std::uint64_t exact = minimum_;
    const Candidate& c = candidates_[smallest_];
    const std::optional<Traced> traced = passes_.traced(c.rows, DType::bf16);
    if (traced->stored == DType::f32) return {};
    Policy policy = c.policy;
    policy.stored = DType::bf16;
    std::vector<Searched> passes;
    const Candidate half = candidate(*traced, policy, true, &passes);
    const std::uint64_t rounded = half.fixed + arena_of(packed(passes, half.least(), half.carry));
    if (rounded + exact / kWorthAHint > exact) return {};
    return fmt::format(
        "\n  {:>10}  with activations in bf16 (approximate), if you allow it: "
        ".approximate = {{.activations = DType::bf16}}",
        to_string(ByteSize{rounded}));
  }

  [[noreturn]] void refuse(const Plan& p) {
    std::string menu;
    for (const FrontierPoint& w : p.frontier)
      menu += fmt::format("\n  {:>10}  {:>8.1f} ms a step  {:<13}  {}",
                          enough(std::max(w.budget, p.minimum)), w.seconds * 1e3, name(w.label),
                          w.text());
    menu += hint();
    throw Refused(
        fmt::format(
            "the budget of {} ({} bytes) is too small: the smallest that does is {} ({} bytes); "
            "ways to fit, each with its time and label:{}",
            to_string(ByteSize{p.budget}), p.budget, enough(p.minimum), p.minimum, menu),
        p);
  }

  // Parts of a batch are not believed to be a little faster than the whole with everything kept:
  // then the simpler way is taken, and more memory costs no time. Nor are numbers given up for a
  // little.
  double judged(const Candidate& c, std::uint64_t load) const {
    const double seconds = c.seconds(load), simplest = candidates_.front().seconds(kOutside);
    const double believed =
        seconds < simplest * kEnoughFaster ? seconds : std::max(seconds, simplest);
    const bool mixed = c.parts > 1 && !passes_.split().mixed.empty();
    return mixed || beside(c.policy.stored) ? believed / kWorthRounding : believed;
  }

  std::uint64_t room(const Candidate& c, std::uint64_t budget) const {
    return budget == kOutside           ? kOutside
           : budget < c.fixed + c.carry ? 0
                                        : budget - c.fixed - c.carry;
  }

  // A size of parts half-way between this one and the next larger that was tried, or else the next
  // smaller; false where there is none.
  bool add_between(std::int64_t rows, Policy policy) {
    const std::int64_t all = passes_.examples();
    std::int64_t larger = all + 1, smaller = 0;
    for (const Candidate& c : candidates_) {
      if (c.rows > rows) larger = std::min(larger, c.rows);
      if (c.rows < rows) smaller = std::max(smaller, c.rows);
    }
    const auto add_even = [&](std::int64_t low, std::int64_t high) {  // parts as even as can be
      if (low < 1 || high > all) return false;
      const double middle = std::sqrt(static_cast<double>(low) * static_cast<double>(high));
      const auto parts = static_cast<std::int64_t>(std::round(static_cast<double>(all) / middle));
      const std::int64_t even = (all + parts - 1) / parts;
      return even > low && even < high && add(even, {policy});
    };
    policy.gradient_blocks = false;
    return add_even(rows, larger) || add_even(smaller, rows);
  }

  // The fastest candidate; where packing takes more than its load, the next smaller schedule.
  void choose(Plan& result) {
    const std::uint64_t budget = result.budget ? result.budget : kOutside;
    std::vector<std::uint64_t> limit;
    const bool many = passes_.whole().calls.size() > kManyCalls;
    int between = options_.micro_batch > 0 || budget == kOutside ? kBetween : many ? kBetween - 1 : 0;
    for (;;) {
      for (std::size_t i = limit.size(); i < candidates_.size(); ++i)
        limit.push_back(room(candidates_[i], budget));
      std::vector<std::size_t> order;  // of those that fit, the fastest first
      for (std::size_t i = 0; i < candidates_.size(); ++i)
        if (limit[i] >= candidates_[i].least()) order.push_back(i);
      if (order.empty()) {
        result.frontier = frontier();
        refuse(result);
      }
      const auto seconds = [&](std::size_t i) { return judged(candidates_[i], limit[i]); };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return seconds(a) < seconds(b); });
      const std::size_t at = order.front();
      if (between < kBetween && sizes_.size() > 1) {
        ++between;
        if (add_between(candidates_[at].rows, candidates_[at].policy)) continue;
      }
      if (budget != kOutside && !candidates_[at].deep) {
        std::vector<std::size_t> some;
        std::vector<std::uint64_t> loads;
        for (const std::size_t i : order) {
          if (some.size() == kAtOnce || seconds(i) * kHope > seconds(at)) break;
          if (candidates_[i].deep) continue;
          some.push_back(i);
          loads.push_back(limit[i]);
        }
        deepen(some, loads);
        continue;
      }
      const Candidate& best = candidates_[at];
      std::vector<Program> programs = packed(schedules(at), limit[at], best.carry);
      const std::uint64_t arena = arena_of(programs);
      if (budget != kOutside && best.fixed + arena > budget) {
        std::uint64_t most = 0;
        for (const auto& points : best.passes)
          most = std::max(most, Candidate::point(points, limit[at]).load);
        limit[at] = limit[at] > most ? most : most - 1;  // first without more scratch for tiles
        continue;
      }
      finish(result, best, limit[at], std::move(programs), arena);
      return;
    }
  }

  void finish(Plan& p, const Candidate& c, std::uint64_t load, std::vector<Program> programs,
              std::uint64_t arena) {
    p.programs = std::move(programs);
    for (std::size_t i = 1; i < p.programs.size(); ++i)
      p.programs[i].first_slot =
          p.programs[i - 1].first_slot + p.programs[i - 1].lowered.graph.buffers.size();
    p.resident = p.programs.back().resident;
    p.arena = arena - p.resident;
    if (c.parts > 1) {
      const SplitAnswer& split = passes_.split();
      for (const SplitAnswer::Count& count : split.counts) p.counts.push_back(count.constant);
      p.part_constants = split.constants;
      p.result_carries = split.result_carries;
      for (std::size_t i = 0; i < p.result_carries.size(); ++i)
        if (p.result_carries[i]) p.programs[0].result_index.push_back(static_cast<Id>(i));
    }
    p.carry_bytes = c.carry;
    p.chosen = point_of(c, c.fixed + arena, c.sample(load));
    p.chosen.seconds -= c.seconds(load);  // tiles may have more scratch than the points told
    for (std::size_t i = 0; i < p.programs.size(); ++i)
      p.chosen.seconds += p.programs[i].schedule.seconds * c.times(i);
    if (p.chosen.mixed)
      p.approximate = fmt::format("each part is a batch of its own: {}", passes_.split().mixed);
    if (c.policy.stored != DType::f32) {
      const trace::StoredHalf half =
          trace::stored_half(passes_.traced(c.rows, DType::f32)->passes.back(), c.policy.stored);
      if (!p.approximate.empty()) p.approximate += "; ";
      p.approximate += fmt::format(
          "activations stored in {}: {} of them, {} instead of {}", name(c.policy.stored),
          half.values, to_string(ByteSize{half.before / 2}), to_string(ByteSize{half.before}));
    }
    for (std::int64_t row = 0, i = 0; i < c.parts; ++i, row += c.rows)
      p.runs.push_back({c.parts > 1 && i == c.parts - 1 ? 1 : 0, row,
                        std::min(c.rows, passes_.examples() - row)});
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
    f.runtime = footprint_.runtime;
    f.reserve = footprint_.reserve;
    f.process = c.fixed - footprint_.reserve + footprint_.runtime + p.resident + p.arena;
    f.seconds = p.chosen.seconds;
    f.unlimited_seconds = f.seconds;
    for (const Candidate& other : candidates_)
      f.unlimited_seconds = std::min(f.unlimited_seconds, other.seconds(kOutside));
    const auto largest = std::max_element(
        p.programs.begin(), p.programs.end(),
        [](const Program& x, const Program& y) { return x.schedule.load < y.schedule.load; });
    describe_peak(*largest, f);
    if (c.policy.spilling < Spilling::state) {
      const trace::Trace& last = p.programs.back().trace;  // it uses all that the others do
      for (const trace::Value& v : last.values)
        if (v.kind == trace::Kind::variable && v.base == trace::kNone)
          f.at_peak[static_cast<int>(last.variables[v.index].category())] +=
              aligned(v.spec.bytes());
    }
    f.at_peak[static_cast<int>(Category::gradients)] += p.carry_bytes;
    if (c.policy.spilling != Spilling::none)
      f.at_peak[static_cast<int>(Category::workspace)] += footprint_.spill_memory;
    f.others = others();
    f.at_peak[static_cast<int>(Category::data)] += c.given - f.others;
    std::uint64_t told = f.runtime + f.others;
    for (const std::uint64_t bytes : f.at_peak) told += bytes;
    f.gaps = f.process > told ? f.process - told : 0;
  }

  const CompileOptions& options_;
  const Footprint& footprint_;
  Passes passes_;
  bool at_once_ = true;  // several searches
  bool close_ = false;   // every candidate is searched closely, not only those that matter
  std::vector<std::int64_t> sizes_;
  std::vector<Candidate> candidates_;
  struct AtHand {
    std::size_t of;  // which candidate
    std::vector<Searched> passes;
  };
  std::vector<AtHand> at_hand_;
  std::uint64_t minimum_ = kOutside;
  std::size_t smallest_ = 0;  // the candidate that reaches it
  std::vector<Variable> minimum_spills_;
};

}  // namespace

Plan make_plan(const TraceRows& trace_rows, std::int64_t examples, const CompileOptions& options,
               const Footprint& footprint, const Machine& machine) {
  return Planner(trace_rows, examples, options, footprint, machine).plan();
}

std::vector<FrontierPoint> frontier(const TraceRows& trace_rows, std::int64_t examples,
                          const CompileOptions& options, const Footprint& footprint,
                          const Machine& machine) {
  const std::uint64_t least = Planner(trace_rows, examples, options, footprint, machine).minimum();
  return Planner(trace_rows, examples, options, footprint, machine).curve(least);
}

void add_to_reserve(Plan& plan, std::uint64_t bytes) {
  plan.minimum += bytes;
  plan.chosen.budget += bytes;
  plan.forecast.reserve += bytes;
  for (FrontierPoint& w : plan.frontier) w.budget += bytes;
}

}  // namespace ebb::plan
