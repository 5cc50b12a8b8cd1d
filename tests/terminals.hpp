// Whether there are terminals to test with: a container may have none.
#pragma once

#include <pty.h>
#include <unistd.h>

namespace ebb::test {

inline constexpr char kNoTerminals[] = "no pseudo-terminals here (is /dev/pts mounted?)";

inline bool has_terminals() {
  int master = -1, slave = -1;
  if (::openpty(&master, &slave, nullptr, nullptr, nullptr) != 0) return false;
  ::close(master);
  ::close(slave);
  return true;
}

}  // namespace ebb::test
