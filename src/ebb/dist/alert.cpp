#include "ebb/dist/alert.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace ebb::dist {
namespace {

std::atomic<bool> was_sent{false};
struct sigaction before {};

extern "C" void on_continue(int signal, siginfo_t* about, void* context) {
  if (about->si_code == SI_USER && about->si_pid == ::getppid()) was_sent = true;
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, about, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

}  // namespace

Alert::Alert() {
  was_sent = false;
  ::sigaction(SIGCONT, nullptr, &before);
  struct sigaction ours {};
  ours.sa_sigaction = on_continue;
  ours.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&ours.sa_mask);
  ::sigaction(SIGCONT, &ours, nullptr);
}

Alert::~Alert() {
  struct sigaction now {};
  ::sigaction(SIGCONT, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_continue)
    ::sigaction(SIGCONT, &before, nullptr);
}

bool Alert::taken() { return was_sent.load(std::memory_order_relaxed) && was_sent.exchange(false); }

}  // namespace ebb::dist
