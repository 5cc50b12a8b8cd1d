// Each promise of `ebb verify`: what is run for it, and what that shows.
#include <fmt/format.h>

#include <algorithm>

#include "apps/ebb/verify.hpp"
#include "ebb/base/bytes.hpp"

namespace ebb::app {
namespace {

constexpr double kSlower = 3;  // a budget is taken that costs no more than so many times

// The smallest budget that does not cost too much time.
std::uint64_t tight(const VerifyAnswer& plan) {
  std::uint64_t best = plan.unlimited;
  double fastest = plan.step_seconds;
  for (const auto& [budget, seconds] : plan.frontier) fastest = std::min(fastest, seconds);
  for (const auto& [budget, seconds] : plan.frontier)
    if (seconds <= kSlower * fastest) best = std::min(best, budget);
  return std::max(best, plan.minimum);
}

}  // namespace

void Verify::compare(const std::string& id, const std::string& what, const VerifyAnswer& a) {
  Promise p{id, what, Verdict::holds, ""};
  if (!a.ran)
    p = {id, what, Verdict::fails, a.refusal};
  else if (a.digest != whole.digest)
    p = {id, what, Verdict::fails,
         fmt::format("the weights differ: {} and {}", a.digest.substr(0, 12),
                     whole.digest.substr(0, 12))};
  promises.push_back(std::move(p));
}

void Verify::in_budget(const VerifyAnswer& plan) {
  const std::uint64_t bytes = asked() ? asked() : tight(plan);
  const VerifyAnswer& a =
      tried(fmt::format("budget {}", to_string(ByteSize{bytes})),
            task({fmt::format("memory.budget={}B", bytes), "memory.allow=same_bits"}));
  compare("budget", "budget = no budget", a);
  if (!a.ran) return;
  Promise fits{"fits", "it fits", Verdict::holds,
               fmt::format("peak {} in a budget of {}", to_string(ByteSize{a.peak}),
                           to_string(ByteSize{bytes}))};
  if (a.peak > bytes) fits.verdict = Verdict::fails;
  promises.insert(promises.begin(), std::move(fits));
}

void Verify::in_parts(const VerifyTask& free, const VerifyAnswer& plan) {
  const std::int64_t part = std::max<std::int64_t>(1, (plan.batch + 2) / 3);  // a ragged third
  const std::string id = "split", what = "split = whole";
  if (plan.batch < 2) {
    promises.push_back({id, what, Verdict::does_not_apply, "a batch is one example"});
    return;
  }
  VerifyTask t = task(
      {"memory.budget=none", fmt::format("memory.micro_batch={}", part), "memory.allow=same_bits"});
  const std::string run = fmt::format("micro-batches of {}", part);
  VerifyAnswer a = run_apart(t);
  if (a.ran) return compare(id, what, noted(run, a));
  // Splits that round otherwise are a label of their own, and are said to be so in every plan.
  std::replace(t.set.begin(), t.set.end(), std::string("memory.allow=same_bits"),
               std::string("memory.allow=same_gradient"));
  t.compare_with = free.values_to;
  const std::string why = a.refusal;
  a = run_apart(t);
  if (!a.ran) {
    promises.push_back({id, what, Verdict::does_not_apply, why});
    return;
  }
  noted(run, a);
  if (a.digest == whole.digest) return compare(id, what, a);
  promises.push_back(up_to_rounding(a, t, free));
}

// Of one step: after many, rounding has grown with the training, and weights say little.
Promise Verify::up_to_rounding(const VerifyAnswer& after, VerifyTask parts,
                               VerifyTask whole_batch) {
  Promise p{"split", "split = whole", Verdict::up_to_rounding, ""};
  whole_batch.gradient = parts.gradient = true;
  whole_batch.values_to += ".gradient";
  parts.compare_with = whole_batch.values_to;
  parts.spoil = spoil;
  VerifyAnswer a = run_apart(whole_batch);
  if (a.ran) a = run_apart(parts);
  if (!a.ran) return {p.id, p.what, Verdict::fails, a.refusal};
  p.difference = a.difference;
  p.bound = a.bound;
  if (!(a.difference <= a.bound)) {
    p.verdict = Verdict::fails;
    p.why = fmt::format(
        "the gradient of one step differs by {:.1e}, where rounding is {:.0e} at "
        "most",
        a.difference, a.bound);
    return p;
  }
  p.why = fmt::format(
      "gradients of one step differ by {:.1e}, the bound is {:.0e}; weights after {} steps by "
      "{:.1e}; memory.allow = \"same_bits\" forbids such plans",
      a.difference, a.bound, after.steps, after.difference);
  return p;
}

void Verify::on_one_thread() {
  const std::int64_t other = whole.threads > 1 ? 1 : 3;
  const VerifyAnswer& a =
      tried(other == 1 ? "1 thread" : "3 threads",
            task({"memory.budget=none", fmt::format("train.threads={}", other)}));
  compare("threads",
          other == 1 ? fmt::format("1 thread = {} threads", whole.threads) : "3 threads = 1 thread",
          a);
}

void Verify::taken_up(const std::string& directory) {
  VerifyTask t = task({"memory.budget=none"});
  t.directory = directory;
  t.stop_after = std::max<std::int64_t>(1, steps / 2);
  const VerifyAnswer first = tried(fmt::format("stopped after step {}", t.stop_after), t);
  t.stop_after = 0;
  const VerifyAnswer second = first.ran ? tried("and resumed", t) : first;
  compare("resume", "resumed = uninterrupted", second);
}

}  // namespace ebb::app
