#include "ebb/exec/rank_chain.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/messages/transport.hpp"

namespace ebb::exec {
namespace {

constexpr std::uint64_t kSmall = 32 << 10;   // bytes of a sum that goes with its neighbours …
constexpr std::uint64_t kTogether = 4 * kSmall;  // … up to so many
constexpr int kTotals = (kLargestTag + 1) / 2;   // tags from here on

struct Stretch {  // of the arena
  std::uint64_t offset, bytes;
  std::size_t sums;
};

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
  const trace::Trace& trace = plan.programs.back().trace;
  std::vector<Stretch> stretches;
  for (std::size_t k = 0; k < group_of_.size(); ++k) {
    if (plan.carry_offsets[k] == plan::kOutside) continue;
    const std::uint64_t bytes = memory::aligned(trace.values[trace.carry[k]].spec.bytes());
    const bool joins = !stretches.empty() && bytes < kSmall &&
                       stretches.back().bytes / stretches.back().sums < kSmall &&
                       stretches.back().bytes + bytes <= kTogether;
    if (!joins) stretches.push_back({plan.carry_offsets[k], 0, 0});
    stretches.back().bytes += bytes;
    ++stretches.back().sums;
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
    const std::span<std::byte> bytes{arena + stretches[g].offset, stretches[g].bytes};
    const auto in = [&](int tag) {
      return Letters::of(bytes, [&](auto piece) { return ranks.letter_from(before, tag, piece); });
    };
    const auto out = [&](int tag) {
      return Letters::of(bytes, [&](auto piece) { return ranks.letter_to(after, tag, piece); });
    };
    const int tag = static_cast<int>(g);
    groups_[g].sums = stretches[g].sums;
    if (rank > 0) groups_[g].so_far_in = in(tag);
    if (rank < end) groups_[g].so_far_out = out(tag);
    if (rank < end) groups_[g].total_in = in(kTotals + tag);
    if (after != end) groups_[g].total_out = out(kTotals + tag);
  }
}

RankChain::~RankChain() = default;

void RankChain::begin() {
  last_ = false;
  sent_.clear();
  for (Group& g : groups_) {
    g.given = 0;
    g.taken = !g.so_far_in;
    if (g.so_far_in) g.so_far_in->start();
  }
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
  Letters* const out = group.so_far_out ? group.so_far_out.get() : group.total_out.get();
  if (out) out->start();
  group.given = group.sums;
  sent_.push_back(g);
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
    if (g.total_in) g.total_in->start();
  });
  each([](Group& g) {
    if (!g.total_in) return;
    g.total_in->wait();
    if (g.total_out) g.total_out->start();
  });
  each([](Group& g) {
    if (g.total_out) g.total_out->wait();
  });
}

}  // namespace ebb::exec
