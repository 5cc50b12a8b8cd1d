// What measuring a machine and its disk have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ebb::plan {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Machine;
// Whether some kind of work gained so much less by all threads than most kinds do that others must have used the
// machine just then; and the speeds of all threads, from those of one where they cannot be believed (not sound).
bool is_disturbed(const Machine& one, const Machine& all);
Machine together(const Machine& one, const Machine& all, bool quiet);

// To two digits: what is measured again tomorrow is then mostly the same.
inline double rounded(double x) {
  double unit = 1;
  while (x / unit >= 100) unit *= 10;
  return static_cast<double>(static_cast<std::int64_t>(x / unit + 0.5)) * unit;
}

// Where the machine's figures are kept, and the disk's beside them; "": nowhere.
std::string cache_path();

}  // namespace ebb::plan
