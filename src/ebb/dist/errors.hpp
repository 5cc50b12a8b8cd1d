// How a job of several processes fails.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "ebb/base/error.hpp"

namespace ebb::dist {

// A rank has died, stopped, or cannot be reached any more.
class RankLost : public Error {
 public:
  RankLost(int rank, std::string host, std::int64_t step, const std::string& line)
      : Error(line, AsItIs{}), rank_(rank), host_(std::move(host)), step_(step) {}
  int rank() const { return rank_; }
  const std::string& host() const { return host_; }
  std::int64_t step() const { return step_; }  // the last one that it told; -1: none

 private:
  int rank_;
  std::string host_;
  std::int64_t step_;
};

// All ranks meet it alike, so one of them is enough to tell.
class OnEveryRank : public Error {
 public:
  OnEveryRank(const std::string& line, bool speaks) : Error(line), speaks_(speaks) {}
  // Whether that is this one. Where it is not, waits a moment: a launcher ends all ranks when the first has
  // ended, and the line of the other would be lost.
  bool speaks() const;

 private:
  bool speaks_;
};

// Another rank has failed, in what all do together. The line is that rank's, which tells it.
class FailedElsewhere : public OnEveryRank {
 public:
  FailedElsewhere(const std::string& line, int rank) : OnEveryRank(line, false), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// Whether what all ranks have failed with together is told by another than this one. Where it is, waits a moment, as
// above.
bool told_by_another();
void set_told_by_another(bool told);

// Who tells, where others have not met it: "rank 1 of 4 on b: ", to stand before the line; else "".
std::string told_as();
void set_told_as(std::string who);

// Ranks do not have the same program, config, data or plan. The line names what, the ranks, both values.
class Mismatch : public OnEveryRank {
 public:
  using OnEveryRank::OnEveryRank;
};

}  // namespace ebb::dist
