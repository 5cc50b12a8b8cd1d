#include "ebb/dist/errors.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace ebb::dist {

namespace {

std::atomic<bool> told{false};
std::mutex who_lock;
std::string who;

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

std::string told_as() {
  const std::lock_guard lock(who_lock);
  return who;
}
void set_told_as(std::string by) {
  const std::lock_guard lock(who_lock);
  who = std::move(by);
}

}  // namespace ebb::dist
