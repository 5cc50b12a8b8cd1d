#include "ebb/report/clock_offset.hpp"

#include <limits>
#include <span>

#include "ebb/base/messages/transport.hpp"
#include "ebb/base/timeline.hpp"

namespace ebb::report {
namespace {

constexpr int kRounds = 20;
constexpr int kTag = kLargestTag;  // sums have those from 0 on

struct Wire {
  std::int64_t time = 0;
};

void move(Ranks::Letter& letter) {
  letter.start();
  letter.wait();
}

}  // namespace

// Rank 0 asks each in turn for its time. The answer of the quickest round was given half way in between.
ClockOffset clock_offset(Ranks& ranks) {
  using timeline::nanoseconds_now;
  Wire out, in;
  const std::span to(reinterpret_cast<const std::byte*>(&out), sizeof out);
  const std::span from(reinterpret_cast<std::byte*>(&in), sizeof in);
  if (ranks.rank() > 0) {
    const auto ask = ranks.letter_from(0, kTag, from), answer = ranks.letter_to(0, kTag, to);
    for (int i = 0; i < kRounds; ++i) {
      move(*ask);
      out.time = nanoseconds_now();
      move(*answer);
    }
    move(*ask);
    return {nanoseconds_now(), in.time};
  }
  for (int r = 1; r < ranks.size(); ++r) {
    const auto ask = ranks.letter_to(r, kTag, to), answer = ranks.letter_from(r, kTag, from);
    std::int64_t quickest = std::numeric_limits<std::int64_t>::max(), offset = 0;
    for (int i = 0; i < kRounds; ++i) {
      const std::int64_t begin = nanoseconds_now();
      move(*ask);
      move(*answer);
      const std::int64_t taken = nanoseconds_now() - begin;
      if (taken >= quickest) continue;
      quickest = taken;
      offset = begin + taken / 2 - in.time;
    }
    out.time = offset;
    move(*ask);
  }
  return {nanoseconds_now(), 0};
}

std::int64_t AlignedClock::operator()(std::int64_t of_here) const {
  const std::int64_t between = last_.at - first_.at;
  const double share =
      between > 0 ? static_cast<double>(of_here - first_.at) / static_cast<double>(between) : 0;
  return of_here + first_.offset +
         static_cast<std::int64_t>(share * static_cast<double>(last_.offset - first_.offset));
}

}  // namespace ebb::report
