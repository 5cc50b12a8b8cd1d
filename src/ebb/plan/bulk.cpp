#include "ebb/plan/bulk.hpp"

#include <algorithm>
#include <utility>

namespace ebb::plan {
namespace {

constexpr Id kShort = 3;          // positions
constexpr std::size_t kMost = 2;  // extras for each node: more is what runs again all the way back
constexpr double kParts[] = {0.5, 0.75, 0.9, 0.97, 0.995};  // of the bytes that wait

double price(const Ordered& g, Id buffer) {
  return g.seconds[g.maker[buffer]] / static_cast<double>(g.bytes[buffer]);
}

bool waits(const Ordered& g, const Gap& gap) {
  return gap.to - gap.from > kShort && gap.from >= 0 && g.bytes[gap.buffer] > 0 &&
         !g.state[gap.buffer] && g.maker[gap.buffer] != kNone;
}

class Maker {
 public:
  Maker(const Ordered& graph, const Replay& all, const Bulk& how)
      : g_(graph), all_(all), how_(how), gaps_(graph.bytes.size()), run_(graph.nodes, kNone) {
    const auto size = static_cast<Id>(all.positions.size());
    for (const Gap& gap : all.gaps)
      if (waits(g_, gap) && gap.to < size) gaps_[gap.buffer].push_back(gap);
    // After the last use too: what a node that runs again reads may be gone.
    for (const Stay& s : all.stays)
      if (const Gap end{s.buffer, s.last, size}; waits(g_, end)) gaps_[s.buffer].push_back(end);
  }

  Extras operator()() {
    for (const auto& gaps : gaps_)
      for (const Gap& gap : gaps)
        if (gap.to < static_cast<Id>(all_.positions.size()) && extras_.size() <= most_)
          bring_back(gap.buffer, all_.positions[gap.to].what.stage());
    if (extras_.size() > most_) return {};
    std::sort(extras_.begin(), extras_.end());
    extras_.erase(std::unique(extras_.begin(), extras_.end()), extras_.end());
    return std::move(extras_);
  }

 private:
  // So that it is there in `stage`, and what makes it as well. Chains may be long: no recursion.
  void bring_back(Id wanted, Id stage) {
    todo_.push_back(wanted);
    while (!todo_.empty() && extras_.size() <= most_) {
      const Id buffer = todo_.back(), place = g_.maker[buffer];
      todo_.pop_back();
      if (price(g_, buffer) <= how_.price && g_.again_by[place] >= stage) {
        if (run_[place] == stage) continue;
        run_[place] = stage;
        extras_.push_back(Extra::run(stage, place));
        for (const Id b : g_.in(place))
          if (waits_at(b, all_.main_at[stage])) todo_.push_back(b);
      } else if (how_.spill && g_.spillable[buffer]) {
        extras_.push_back(Extra::read(g_, early(buffer, stage), buffer, false));
      }
    }
  }

  bool waits_at(Id buffer, Id at) const {
    return std::any_of(gaps_[buffer].begin(), gaps_[buffer].end(),
                       [&](const Gap& gap) { return gap.from + kShort < at && at <= gap.to; });
  }

  // The stage from which on there is enough to do while it is read.
  Id early(Id buffer, Id stage) const {
    const double begin = all_.start[all_.main_at[stage]] - g_.read_seconds(buffer);
    const Id made = g_.maker[buffer];
    while (stage > made + 2 && all_.start[all_.main_at[stage]] > begin) --stage;
    return stage;
  }

  const Ordered& g_;
  const Replay& all_;
  Bulk how_;
  const std::size_t most_ = kMost * static_cast<std::size_t>(g_.nodes);
  std::vector<std::vector<Gap>> gaps_;  // of each buffer, those in which it waits
  std::vector<Id> run_;                 // per place: the stage it was last brought back in
  std::vector<Id> todo_;                // buffers to bring back
  Extras extras_;
};

}  // namespace

std::vector<double> prices(const Ordered& g, const Replay& all) {
  std::vector<std::pair<double, double>> waiting;  // price, bytes
  double total = 0;
  for (const Gap& gap : all.gaps) {
    if (!waits(g, gap)) continue;
    waiting.emplace_back(price(g, gap.buffer), static_cast<double>(g.bytes[gap.buffer]));
    total += waiting.back().second;
  }
  std::sort(waiting.begin(), waiting.end());
  std::vector<double> result;
  double sum = 0;
  const double* part = std::begin(kParts);
  for (const auto& [at, bytes] : waiting) {
    sum += bytes;
    for (; part != std::end(kParts) && sum >= *part * total; ++part)
      if (result.empty() || result.back() < at) result.push_back(at);
  }
  return result;
}

Extras in_bulk(const Ordered& g, const Replay& all, const Bulk& how) {
  return Maker(g, all, how)();
}

}  // namespace ebb::plan
