#include "ebb/dist/errors.hpp"

#include <chrono>
#include <thread>

namespace ebb::dist {

bool OnEveryRank::speaks() const {
  if (!speaks_) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return speaks_;
}

}  // namespace ebb::dist
