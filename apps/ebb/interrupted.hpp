// Ctrl-C and SIGTERM where there is nothing to save: a line says so, and the process ends by the signal.
#pragma once

#include <csignal>

namespace ebb::app {

class Interrupted {
 public:
  // "ebb: interrupted …"; the text outlives it. One at a time.
  explicit Interrupted(const char* what);
  ~Interrupted();
  Interrupted(const Interrupted&) = delete;
  Interrupted& operator=(const Interrupted&) = delete;

 private:
  struct sigaction before_[2];
};

}  // namespace ebb::app
