// How many cores the process's control group may use.
#pragma once

#include <string>

namespace ebb::app {

double cpu_quota();  // the least of its group and those above it; 0: no limit
// The same below another root, for tests.
double cpu_quota_in(const std::string& root);

}  // namespace ebb::app
