#include "ebb/dist/errors.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace ebb::dist {

namespace {

std::atomic<bool> told{false};

void wait_for_another() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }

}  // namespace

bool OnEveryRank::speaks() const {
  if (!speaks_) wait_for_another();
  return speaks_;
}

bool told_by_another() {
  if (told) wait_for_another();
  return told;
}
void set_told_by_another(bool by_another) { told = by_another; }

}  // namespace ebb::dist
