// One model at one batch size over budgets from its minimum to none: the cells, and what is wrong
// with them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/cell.hpp"
#include "models/report.hpp"

namespace ebb::zoo {

struct Tally {  // over all cells of all sweeps
  int cells = 0, killed = 0, failed = 0;
  int over_budget = 0;       // VmHWM above it
  int arena_differs = 0;     // held and forecast, to the byte
  int process_differs = 0;   // VmHWM and forecast, by more than 2% and 1 MiB
  double worst_process = 0;  // the largest such error, of the forecast
  std::int64_t worst_process_bytes = 0;
  int rises = 0;  // a larger budget that costs more than 3% more time
  double worst_rise = 0;
  int hash_sets = 0, hash_differs = 0;  // same model, batch and parts
  std::string unlimited;                // why the kernel limited nothing
};

class Sweep {
 public:
  Sweep(std::string model, std::int64_t batch, int budgets, double seconds);

  bool planned() const { return plan_.ok(); }
  const Outcome& plan() const { return plan_; }  // without a budget
  std::string name() const { return cell_.model + " " + std::to_string(cell_.batch); }

  void run(const Report& report, Tally& tally);

 private:
  struct Row {
    Cell cell;
    Outcome outcome;
  };
  void settle(int rounds);
  double seconds(std::size_t cell) const;
  std::vector<std::pair<std::size_t, std::size_t>> rises() const;
  void judge(const Row& row, Tally& tally) const;
  void print(const Row& row, const Report& report) const;

  Cell cell_;
  Outcome plan_;
  std::vector<Row> cells_;
};

}  // namespace ebb::zoo
