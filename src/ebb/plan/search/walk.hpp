// One walk of the search: down from the schedule that keeps everything, and from plans made in one
// go, along one order of the nodes and with one size of tiles. What it meets goes to the front.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/plan/search/descent.hpp"
#include "ebb/plan/search/pareto_front.hpp"
#include "ebb/plan/search/search.hpp"

namespace ebb::plan {

class Walk {
 public:
  Walk(const Ordered& graph, std::size_t order, const SearchOptions& options, ParetoFront& front);

  std::uint64_t peak() const { return all_.peak; }  // with everything kept

  void search(std::uint64_t work);

 private:
  void offer(const Extras& extras, const Replay& r);
  std::vector<Extras> seed_plans();
  void down_from(Extras extras, double ratio, std::uint64_t work);
  void down(Score score, double ratio, std::uint64_t work);
  void down(Score score, double ratio, std::uint64_t work, Extras extras, Replay r);
  void fill(std::uint64_t work);

  const Ordered& g_;
  std::size_t order_;
  const SearchOptions& options_;
  ParetoFront& front_;
  Extras start_ = needed_reads(g_);
  Replayer replayer_{g_};
  Descent descent_{g_, replayer_, options_.recompute};
  Replay all_;
};

}  // namespace ebb::plan
