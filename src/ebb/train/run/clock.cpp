#include "ebb/train/run/clock.hpp"

#include <chrono>

namespace ebb::train {
namespace {

template <class C>
double seconds_of() {
  return std::chrono::duration<double>(C::now().time_since_epoch()).count();
}

}  // namespace

double steady_seconds() { return seconds_of<std::chrono::steady_clock>(); }
double unix_seconds() { return seconds_of<std::chrono::system_clock>(); }

}  // namespace ebb::train
