// Each promise of `ebb verify`: what is run for it, and what that shows.
#include <fmt/format.h>

#include <algorithm>

#include "apps/ebb/verify.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/process.hpp"
#include "ebb/dist/world.hpp"

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
  divided({id, what}, fmt::format("micro-batches of {}", part),
          task({"memory.budget=none", fmt::format("memory.micro_batch={}", part),
                "memory.allow=same_bits"}),
          free);
}

void Verify::divided(const Promise& promise, const std::string& run, VerifyTask t,
                     const VerifyTask& free) {
  VerifyAnswer a = attempt(t);
  if (a.ran) return compare(promise.id, promise.what, noted(run, a));
  // Splits that round otherwise are a label of their own, and are said to be so in every plan.
  std::replace(t.set.begin(), t.set.end(), std::string("memory.allow=same_bits"),
               std::string("memory.allow=same_gradient"));
  t.compare_with = free.values_to;
  const std::string why = a.refusal;
  a = attempt(t);
  if (!a.ran) {
    const bool refused = t.processes == 0 || why.find("cannot be divided") != std::string::npos;
    promises.push_back(
        {promise.id, promise.what, refused ? Verdict::does_not_apply : Verdict::fails, why});
    return;
  }
  noted(run, a);
  if (a.digest == whole.digest) return compare(promise.id, promise.what, a);
  promises.push_back(up_to_rounding(promise, a, t, free));
}

// Of one step: after many, rounding has grown with the training, and weights say little.
Promise Verify::up_to_rounding(Promise p, const VerifyAnswer& after, VerifyTask parts,
                               VerifyTask whole_batch) {
  p.verdict = Verdict::up_to_rounding;
  whole_batch.gradient = parts.gradient = true;
  whole_batch.values_to += ".gradient";
  parts.compare_with = whole_batch.values_to;
  parts.spoil = spoil;
  VerifyAnswer a = attempt(whole_batch);
  if (a.ran) a = attempt(parts);
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

void Verify::on_processes(int count, const VerifyTask& free, const VerifyAnswer& plan) {
  if (count == 1) return;  // what all runs are compared with
  const std::uint64_t room = process::available().bytes / static_cast<std::uint64_t>(count);
  VerifyTask t = task({plan.unlimited + dist::World::footprint_of(count) < room / 10 * 9
                           ? "memory.budget=none"
                           : "memory.budget=auto",
                       "memory.allow=same_bits"});
  t.processes = count;
  t.spoil = spoil;
  divided({fmt::format("processes-{}", count), fmt::format("{} processes = one", count)},
          fmt::format("{} processes", count), t, free);
}

}  // namespace ebb::app
