// Planning and running keep out of each other's way: steps run side by side, and whoever plans is alone. A
// plan is never made anew while it runs, and planning takes its memory while no arena is in use. So does
// saving, which borrows what is promised to steps.
#pragma once

namespace ebb::exec {

// Steps that run end first, and none begins until it is unlocked, by the same thread. One thread may lock it
// several times. Not from inside a step.
void lock_planning();
void unlock_planning();

class PlanLock {
 public:
  PlanLock() { lock_planning(); }
  ~PlanLock() { unlock_planning(); }
  PlanLock(const PlanLock&) = delete;
  PlanLock& operator=(const PlanLock&) = delete;
};

// Held while a step runs, or a plan is looked at; not while one is made, but by who makes it.
class RunLock {
 public:
  RunLock();
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  bool counted_;
};

}  // namespace ebb::exec
