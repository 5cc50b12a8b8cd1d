// Linking Ebb and doing nothing is light: at most 16 MiB resident.
#include <ebb/ebb.hpp>

#include <cstdio>
#include <fstream>
#include <string>

int main() {
  if (ebb::pool::threads() < 1) return 1;  // the library is really there, its workers started
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    long kib = 0;
    status >> kib;
    std::printf("idle: %ld KiB resident, limit %d KiB\n", kib, 16 * 1024);
    return kib > 0 && kib <= 16 * 1024 ? 0 : 1;
  }
  return 1;
}
