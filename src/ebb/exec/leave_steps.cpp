#include "ebb/exec/leave_steps.hpp"

#include <utility>

namespace ebb::exec {
namespace {

thread_local const LeaveSteps::When* when_to = nullptr;

}  // namespace

LeaveSteps::LeaveSteps(When when) : when_(std::move(when)), before_(when_to) { when_to = &when_; }
LeaveSteps::~LeaveSteps() { when_to = before_; }

bool LeaveSteps::asked() { return when_to && (*when_to)(); }

}  // namespace ebb::exec
