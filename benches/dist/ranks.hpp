// Ranks on this machine that train a row of benches/peers together, and what the same takes on paper.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/dist/timetable.hpp"
#include "ebb/plan/forecast/network.hpp"

namespace ebb::zoo {

// What a row is called, and what it is.
struct SharedRow {
  const char* name;
  const char* text;
};

struct Took {
  double seconds = 0;   // a step, the median
  double forecast = 0;  // by the plan of the first rank, alone
};
// This program again, as ranks with one thread each. Together: they share the steps; else each trains its own rows, side
// by side with the others.
Took train_on_ranks(const SharedRow& row, int ranks, bool together, double seconds);
plan::Network network_of_ranks();  // between two of them

// Where this program was started as one of these: does its work. The exit code.
bool is_rank(int argc, char** argv);
int rank_main(char** argv);

// On paper: of all ranks, with the threads that are set. The batch of the row is that of all of them; with `own_rows`
// each has so many, whatever the row says.
struct OnPaper {
  std::vector<dist::Timetable> tables;
  std::uint64_t peak = 0;       // of a rank
  std::uint64_t gradients = 0;  // bytes that go around
};
OnPaper on_paper(const SharedRow& row, int ranks, double slower = 1);

// Plans once, and lays out any number of ranks with as many rows each.
class AnyRanks {
 public:
  AnyRanks(const SharedRow& row, std::int64_t rows_of_each);
  OnPaper of(int ranks, double slower = 1) const;

 private:
  plan::Plan alone_, shared_;
};

}  // namespace ebb::zoo
