#include "apps/ebb/interrupted.hpp"

#include <unistd.h>

#include <cstring>

namespace ebb::app {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
const char* text = "";

// Only calls that a handler may make; the handler is gone when it runs (SA_RESETHAND).
extern "C" void on_interrupt(int signal) {
  bool written = ::write(STDERR_FILENO, "ebb: interrupted ", 17) == 17;
  written = written && ::write(STDERR_FILENO, text, std::strlen(text)) > 0;
  if (written && ::write(STDERR_FILENO, "\n", 1) == 1) written = false;
  ::raise(signal);
}

}  // namespace

Interrupted::Interrupted(const char* what) {
  text = what;
  for (int i = 0; i < 2; ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction ours {};
    ours.sa_handler = on_interrupt;
    ours.sa_flags = SA_RESETHAND;
    sigemptyset(&ours.sa_mask);
    ::sigaction(kSignals[i], &ours, nullptr);
  }
}

Interrupted::~Interrupted() {
  for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

}  // namespace ebb::app
