#include "ebb/exec/rank_chain.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <thread>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/messages/transport.hpp"
#include "ebb/base/timeline.hpp"
#include "ebb/trace/passes.hpp"

namespace ebb::exec {
namespace {

using plan::RankSums;

constexpr std::uint64_t kSmall = 32 << 10;      // bytes of a sum that goes with others of its call
constexpr int kTotals = (kLargestTag + 1) / 2;  // tags from here on

struct Stretch {  // of the arena
  std::uint64_t offset, bytes = 0;
  std::size_t sums = 0, call = RankSums::kNoCall;
  Scope::Id scope = 0;
  bool total = false;  // is wanted on all ranks
  trace::Id start = trace::kNone,
            next = trace::kNone;  // the sum that it goes on from; that goes on from it

  bool takes(const Stretch& more) const {
    return call != RankSums::kNoCall && call == more.call && total == more.total &&
           more.offset == offset + bytes && more.bytes < kSmall && bytes / sums < kSmall;
  }
};

// Each sum by itself; of no bytes, where it does not go on, or nobody adds to it.
std::vector<Stretch> stretches_of(const plan::Plan& plan) {
  const trace::Trace& trace = plan.programs.back().trace;
  const std::vector<int> used = trace::uses(trace);
  std::vector<Stretch> sums(plan.carry_offsets.size());
  const bool known = plan.rank_sums.possible();
  const std::vector<std::size_t> calls = plan.rank_sums.calls_of_places(sums.size());
  for (std::size_t k = 0; k < sums.size(); ++k) {
    if (plan.carry_offsets[k] == plan::kOutside || (known && calls[k] == RankSums::kNoCall))
      continue;
    sums[k].call = calls[k];
    const trace::Id id = trace.carry[k];
    sums[k].offset = plan.carry_offsets[k];
    sums[k].bytes = memory::aligned(trace.values[id].spec.bytes());
    sums[k].sums = 1;
    if (const trace::Id call = trace.values[id].call; call != trace::kNone)
      sums[k].scope = trace.calls[call].scope;
    sums[k].total = used[id] > 1;  // by more than being one that goes on
    if (k >= trace.starts.size() || trace.starts[k] == trace::kNone) continue;
    sums[k].start = trace.starts[k];
    sums[static_cast<std::size_t>(trace.starts[k])].next = static_cast<trace::Id>(k);
  }
  return sums;
}

}  // namespace

struct RankChain::Letters {
  std::vector<std::unique_ptr<Ranks::Letter>> pieces;

  template <class Make>
  static std::unique_ptr<Letters> of(std::span<std::byte> bytes, const Make& make) {
    auto letters = std::make_unique<Letters>();
    for (std::size_t at = 0; at < bytes.size(); at += kLargestMessage)
      letters->pieces.push_back(
          make(bytes.subspan(at, std::min(kLargestMessage, bytes.size() - at))));
    return letters;
  }
  void start() {
    for (const auto& p : pieces) p->start();
  }
  void wait() {
    for (const auto& p : pieces) p->wait();
  }
};

RankChain::RankChain(Ranks& ranks, const plan::Plan& plan, std::byte* arena)
    : ranks_(ranks), group_of_(plan.carry_offsets.size()) {
  const std::vector<Stretch> sums = stretches_of(plan);
  // Only what one call makes is there at one time, whatever the order of calls, and on all ranks alike: a rank that
  // waits for a sum would else wait for others, which the one before may make much later. Where one starts from
  // another's total, ranks would wait for each other.
  std::vector<Stretch> stretches;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    if (sums[k].sums == 0) continue;
    if (!stretches.empty() && !plan.rank_sums.in_turn() && stretches.back().takes(sums[k])) {
      stretches.back().bytes += sums[k].bytes;
      ++stretches.back().sums;
    } else {
      stretches.push_back(sums[k]);
    }
    group_of_[k] = stretches.size() - 1;
  }
  if (stretches.size() >= static_cast<std::size_t>(kTotals))
    throw Error(fmt::format("compile: {} sums over the examples are more than ranks can send",
                            stretches.size()));
  const int rank = ranks.rank(), size = ranks.size(), end = size - 1;
  const int before = (rank + end) % size, after = (rank + 1) % size;
  groups_.resize(stretches.size());
  sent_.reserve(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Stretch& of = stretches[g];
    const std::span<std::byte> bytes{arena + of.offset, of.bytes};
    const auto in = [&](int tag) {
      return Letters::of(bytes, [&](auto piece) { return ranks.letter_from(before, tag, piece); });
    };
    const auto out = [&](int tag) {
      return Letters::of(bytes, [&](auto piece) { return ranks.letter_to(after, tag, piece); });
    };
    const int tag = static_cast<int>(g);
    groups_[g].sums = of.sums;
    groups_[g].scope = of.scope;
    if (rank > 0 || of.start != trace::kNone) groups_[g].so_far_in = in(tag);
    if (rank < end) groups_[g].so_far_out = out(tag);
    if (rank == end && of.next != trace::kNone)
      groups_[g].so_far_out = out(static_cast<int>(group_of_[static_cast<std::size_t>(of.next)]));
    if (of.total && rank < end) groups_[g].total_in = in(kTotals + tag);
    if (of.total && after != end) groups_[g].total_out = out(kTotals + tag);
  }
}

RankChain::~RankChain() = default;

void RankChain::begin() {
  last_ = false;
  sent_.clear();
  for (Group& g : groups_) {
    g.given = 0;
    g.taken = !g.so_far_in;
    if (g.so_far_in) start(g, *g.so_far_in);
  }
}

void RankChain::start(const Group& group, Letters& letters) {
  timeline::about = group.scope;
  letters.start();
  timeline::about = 0;
}

void RankChain::take(Group& group) {
  if (group.taken) return;
  group.so_far_in->wait();
  group.taken = true;
}

void RankChain::take(std::size_t sum) { take(groups_[group_of_[sum]]); }

void RankChain::give(std::size_t sum) {
  if (!last_) return;
  const std::size_t g = group_of_[sum];
  if (++groups_[g].given == groups_[g].sums) send(g);
}

// What the last rank has is the total.
void RankChain::send(std::size_t g) {
  Group& group = groups_[g];
  take(group);
  if (group.so_far_out) start(group, *group.so_far_out);
  if (!group.total_in && group.total_out) start(group, *group.total_out);
  group.given = group.sums;
  sent_.push_back(g);
  // Where all cores compute, the thread that moves messages has none until the system takes one away.
  std::this_thread::yield();
}

void RankChain::finish() {
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (groups_[g].given < groups_[g].sums) send(g);
  const auto each = [&](auto&& f) {
    for (const std::size_t g : sent_) f(groups_[g]);
  };
  // A total comes to where the sum so far is, which has to be gone.
  each([](Group& g) {
    if (g.so_far_out) g.so_far_out->wait();
    if (g.total_in) start(g, *g.total_in);
  });
  each([](Group& g) {
    if (!g.total_in) return;
    g.total_in->wait();
    if (g.total_out) start(g, *g.total_out);
  });
  each([](Group& g) {
    if (g.total_out) g.total_out->wait();
  });
}

}  // namespace ebb::exec
