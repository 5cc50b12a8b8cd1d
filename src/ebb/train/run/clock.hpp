// The two clocks of a run: one for periods, which never jumps, and the one that people read, for
// records. Both are values, so that a test can put its own in their place.
#pragma once

#include <functional>

namespace ebb::train {

using Clock = std::function<double()>;  // seconds

double steady_seconds();  // since some moment; never goes back
double unix_seconds();    // since 1970

}  // namespace ebb::train
