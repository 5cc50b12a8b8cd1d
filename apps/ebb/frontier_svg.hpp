// Time over budget as a picture that needs nothing beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/plan/plan.hpp"

namespace ebb::app {

struct FrontierPicture {
  std::vector<plan::FrontierPoint> frontier;  // rising budget, falling time
  std::uint64_t budget = 0;                   // 0: none
  double chosen_seconds = 0;                  // a step; 0: the budget is too small
  std::uint64_t minimum = 0;
  std::string title;
};
std::string frontier_svg(const FrontierPicture& picture);

}  // namespace ebb::app
