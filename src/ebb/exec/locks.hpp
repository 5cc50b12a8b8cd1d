// Planning and running keep out of each other's way: steps run side by side, and whoever plans is alone. A
// plan is never made anew while it runs, and planning takes its memory while no arena is in use.
#pragma once

namespace ebb::exec {

// Steps that run end first, and none begins until this is gone. One thread may take several.
class PlanLock {
 public:
  PlanLock();
  ~PlanLock();
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
