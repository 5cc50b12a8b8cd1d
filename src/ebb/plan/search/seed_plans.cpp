#include "ebb/plan/search/seed_plans.hpp"

#include <algorithm>
#include <utility>

#include "ebb/plan/search/limits.hpp"

namespace ebb::plan {
namespace {

double price(const Ordered& g, Id buffer) {
  return g.seconds[g.maker[buffer]] / static_cast<double>(g.bytes[buffer]);
}

bool waits(const Ordered& g, const Gap& gap) {
  return gap.to - gap.from > kSearch.short_wait && gap.from >= 0 && g.bytes[gap.buffer] > 0 &&
         !g.state[gap.buffer] && g.maker[gap.buffer] != kNone;
}

}  // namespace

SeedPlans::SeedPlans(const Ordered& graph, const Replay& all)
    : g_(graph),
      all_(all),
      from_(graph.bytes.size() + 1),
      kept_(graph.bytes.size()),
      stage_of_(graph.bytes.size()),
      run_(graph.nodes, kNone) {
  const auto size = static_cast<Id>(all.positions.size());
  for (const Gap& gap : all.gaps)
    if (waits(g_, gap) && gap.to < size) gaps_.push_back(gap);
  // After the last use too: what a node that runs again reads may be gone.
  for (const Stay& s : all.stays)
    if (const Gap end{s.buffer, s.last, size}; waits(g_, end)) gaps_.push_back(end);
  std::stable_sort(gaps_.begin(), gaps_.end(),
                   [](const Gap& a, const Gap& b) { return a.buffer < b.buffer; });
  for (const Gap& gap : gaps_) ++from_[gap.buffer + 1];
  for (std::size_t b = 1; b < from_.size(); ++b) from_[b] += from_[b - 1];
  find_prices();
  find_turn();
  if (g_.spill.state_allowed) find_state_reads();
}

void SeedPlans::find_prices() {
  std::vector<std::pair<double, double>> waiting;  // price, bytes
  double total = 0;
  for (const Gap& gap : gaps_) {
    if (gap.to == static_cast<Id>(all_.positions.size())) continue;
    waiting.emplace_back(price(g_, gap.buffer), static_cast<double>(g_.bytes[gap.buffer]));
    total += waiting.back().second;
  }
  std::sort(waiting.begin(), waiting.end());
  double sum = 0;
  const auto* part = kSearch.priced_parts.begin();
  for (const auto& [at, bytes] : waiting) {
    sum += bytes;
    for (; part != kSearch.priced_parts.end() && sum >= *part * total; ++part)
      if (prices_.empty() || prices_.back() < at) prices_.push_back(at);
  }
}

void SeedPlans::find_turn() {
  const std::size_t size = all_.positions.size();
  std::vector<std::int64_t> over(size + 1);
  for (const Gap& gap : gaps_) {
    if (gap.to == static_cast<Id>(size)) continue;
    over[gap.from + 1] += static_cast<std::int64_t>(g_.bytes[gap.buffer]);
    over[gap.to] -= static_cast<std::int64_t>(g_.bytes[gap.buffer]);
  }
  std::int64_t now = 0, most = 0;
  for (std::size_t at = 0; at < size; ++at)
    if ((now += over[at]) > most) most = now, turn_ = static_cast<Id>(at);
  across_.assign(turn_ + 1, 0);
  saved_.assign(turn_ + 1, 0);
  forward_until_.assign(g_.bytes.size(), kNone);
  for (Id at = 0; at <= turn_; ++at)
    for (const Id b : g_.in(all_.positions[at].what.rank())) forward_until_[b] = at;
  for (std::size_t b = 0; b < g_.bytes.size(); ++b) {
    if (g_.maker[b] == kNone || g_.maker[b] > turn_) continue;
    const Id made = all_.main_at[g_.maker[b]];
    if (made <= turn_ && forward_until_[b] > made) {
      across_[made] += g_.bytes[b];
      across_[forward_until_[b]] -= g_.bytes[b];
    }
  }
  for (const Gap& gap : gaps_)
    if (gap.from < turn_ && gap.to > turn_ && gap.to < static_cast<Id>(size))
      saved_[all_.main_at[g_.maker[gap.buffer]]] += g_.bytes[gap.buffer];
  for (Id at = 1; at <= turn_; ++at) across_[at] += across_[at - 1], saved_[at] += saved_[at - 1];
  most_segments_ = std::max<int>(1, turn_ / kSearch.least_segment);
}

// Every use that comes after a while, from the last on: read early enough to be hidden, one after
// the other.
void SeedPlans::find_state_reads() {
  std::vector<Gap> uses;
  const auto spills = [&](Id b) { return g_.state[b] && g_.spillable[b]; };
  for (const Gap& gap : all_.gaps)
    if (spills(gap.buffer) && gap.from >= 0 && gap.to - gap.from > kSearch.short_wait &&
        gap.to < static_cast<Id>(all_.positions.size()))
      uses.push_back(gap);
  for (Id b = 0; b < static_cast<Id>(g_.bytes.size()); ++b)
    if (spills(b) && g_.first_use[b] != kNone)
      uses.push_back({b, -2, all_.main_at[g_.first_use[b]]});
  std::sort(uses.begin(), uses.end(), [](const Gap& a, const Gap& b) {
    return a.to != b.to ? a.to > b.to : a.buffer < b.buffer;
  });
  double free = all_.seconds;  // the channel is busy after this
  for (const Gap& use : uses) {
    const double seconds = g_.read_seconds(use.buffer), needed = all_.start[use.to];
    // Where the channel is behind, not ever earlier: what was read would pile up.
    free = std::clamp(free - seconds, needed - 2 * seconds, needed - seconds);
    Id at = use.to;
    while (at > 0 && all_.start[at] > free) --at;
    const Id begin = std::max(at, use.from + 2);  // not before it was out of the way
    const Id stage = all_.positions[begin].what.stage();
    state_reads_.push_back(Extra::read(g_, stage, use.buffer, false));
    waited_state_reads_.push_back(Extra::read(g_, stage, use.buffer, true));
  }
}

// Cuts where least goes across, each in its part of what is saved.
void SeedPlans::cut(int segments) {
  std::fill(kept_.begin(), kept_.end(), 0);
  std::fill(stage_of_.begin(), stage_of_.end(), kNone);
  if (segments < 2) return;
  std::vector<Id> cuts;
  const double each = static_cast<double>(saved_[turn_]) / segments;
  Id at = 0;
  for (int k = 1; k < segments; ++k) {
    // Half of a segment about the place where it would end.
    const auto begin = static_cast<std::uint64_t>((k - 0.25) * each);
    const auto end = static_cast<std::uint64_t>((k + 0.25) * each);
    while (at < turn_ && saved_[at] < begin) ++at;
    Id best = at;
    for (; at < turn_ && saved_[at] <= end; ++at)
      if (across_[at] < across_[best]) best = at;
    if (best < turn_ && (cuts.empty() || best > cuts.back())) cuts.push_back(best);
  }
  cuts.push_back(turn_);
  std::vector<Id> stages(cuts.size(), kNone);
  const auto segment = [&](Id made) {
    return static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), made) -
                                    cuts.begin());
  };
  for (std::size_t b = 0; b < kept_.size(); ++b) {
    if (g_.maker[b] == kNone || all_.main_at[g_.maker[b]] > turn_) continue;
    const std::size_t s = segment(all_.main_at[g_.maker[b]]);
    kept_[b] = forward_until_[b] > cuts[s];
    for (std::size_t k = from_[b]; k < from_[b + 1]; ++k) {
      const Gap& gap = gaps_[k];
      if (gap.from >= turn_ || gap.to <= turn_ || gap.to >= static_cast<Id>(all_.positions.size()))
        continue;
      const Id stage = all_.positions[gap.to].what.stage();
      if (stages[s] == kNone || stage < stages[s]) stages[s] = stage;
    }
  }
  for (std::size_t b = 0; b < kept_.size(); ++b)
    if (g_.maker[b] != kNone && all_.main_at[g_.maker[b]] <= turn_)
      stage_of_[b] = stages[segment(all_.main_at[g_.maker[b]])];
}

Extras SeedPlans::operator()(const SeedOptions& how) {
  const std::size_t most = kSearch.most_extras * static_cast<std::size_t>(g_.nodes);
  extras_.clear();
  std::fill(run_.begin(), run_.end(), kNone);
  cut(how.segments);
  if (how.state) extras_ = how.wait ? waited_state_reads_ : state_reads_;
  for (const Gap& gap : gaps_)
    if (gap.to < static_cast<Id>(all_.positions.size()) && extras_.size() <= most)
      bring_back(gap.buffer, all_.positions[gap.to].what.stage(), how);
  if (extras_.size() > most) return {};
  std::sort(extras_.begin(), extras_.end());
  extras_.erase(std::unique(extras_.begin(), extras_.end()), extras_.end());
  return extras_;
}

// So that it is there in `stage`, and what makes it as well. Chains may be long: no recursion.
void SeedPlans::bring_back(Id wanted, Id stage, const SeedOptions& how) {
  const std::size_t most = kSearch.most_extras * static_cast<std::size_t>(g_.nodes);
  todo_.assign(1, {wanted, stage});
  while (!todo_.empty() && extras_.size() <= most) {
    auto [buffer, at] = todo_.back();
    const Id place = g_.maker[buffer];
    todo_.pop_back();
    if (kept_[buffer]) continue;
    const bool cheap = price(g_, buffer) <= how.price;
    const Id together = stage_of_[buffer];
    if (!cheap && together != kNone && together <= at) at = together;
    if ((cheap || (together != kNone && together <= at)) && g_.again_by[place] >= at) {
      if (run_[place] == at) continue;
      run_[place] = at;
      extras_.push_back(Extra::run(at, place));
      for (const Id b : g_.in(place))
        if (waits_at(b, all_.main_at[at])) todo_.push_back({b, at});
    } else if (how.spill && g_.spillable[buffer]) {
      extras_.push_back(Extra::read(g_, early(buffer, at), buffer, how.wait));
    }
  }
  todo_.clear();
}

bool SeedPlans::waits_at(Id buffer, Id at) const {
  for (std::size_t k = from_[buffer]; k < from_[buffer + 1]; ++k)
    if (gaps_[k].from + kSearch.short_wait < at && at <= gaps_[k].to) return true;
  return false;
}

// The stage from which on there is enough to do while it is read.
Id SeedPlans::early(Id buffer, Id stage) const {
  const double begin = all_.start[all_.main_at[stage]] - g_.read_seconds(buffer);
  const Id made = g_.maker[buffer];
  while (stage > made + 2 && all_.start[all_.main_at[stage]] > begin) --stage;
  return stage;
}

}  // namespace ebb::plan
