#include "ebb/exec/locks.hpp"

#include <atomic>
#include <mutex>

namespace ebb::exec {
namespace {

struct State {
  std::recursive_mutex lock;  // of who plans
  std::atomic<bool> planning = false;
  std::atomic<int> running = 0;
};

State& state() {
  static State* const s = new State;  // outlives every compiled function
  return *s;
}

thread_local int planning_here = 0;  // depth, on this thread

}  // namespace

void lock_planning() {
  State& s = state();
  s.lock.lock();
  if (planning_here++ > 0) return;
  s.planning = true;
  for (int running; (running = s.running) > 0;) s.running.wait(running);
}

void unlock_planning() {
  State& s = state();
  if (--planning_here == 0) {
    s.planning = false;
    s.planning.notify_all();
  }
  s.lock.unlock();
}

RunLock::RunLock() : counted_(planning_here == 0) {
  if (!counted_) return;
  State& s = state();
  while (++s.running, s.planning) {
    if (--s.running == 0) s.running.notify_all();
    s.planning.wait(true);
  }
}

RunLock::~RunLock() {
  if (!counted_) return;
  State& s = state();
  if (--s.running == 0 && s.planning) s.running.notify_all();
}

}  // namespace ebb::exec
