// Leaving a step that has begun: whoever must not wait for the end of a long one, as a program that
// was told to stop, says when.
//
//   const exec::LeaveSteps late([&] { return must_end; });   // for steps of this thread, while it lives
//   try { step(batch); } catch (const exec::StepLeft&) { save(); }
//
// A step is left between two calls of ops, before anything in memory is updated, and is then as if it
// had never begun: the same step taken later gives the bits it would have given. From its first
// update on it is taken to its end.
#pragma once

#include <functional>

#include "ebb/base/error.hpp"

namespace ebb::exec {

class StepLeft : public Error {
 public:
  StepLeft() : Error("the step was left before it had changed anything, as was asked for") {}
};

class LeaveSteps {
 public:
  using When = std::function<bool()>;
  explicit LeaveSteps(When when);
  ~LeaveSteps();
  LeaveSteps(const LeaveSteps&) = delete;
  LeaveSteps& operator=(const LeaveSteps&) = delete;

  static bool asked();  // of this thread's steps, just now

 private:
  When when_;
  const When* before_;
};

}  // namespace ebb::exec
