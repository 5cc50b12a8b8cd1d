#include "ebb/train/run/stop_signal.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "ebb/base/error.hpp"

namespace ebb::train {
namespace {

// What the handler writes. Lock-free, so that it may.
std::atomic<bool> installed{false}, on_terminal{false};
std::atomic<int> first{0};
std::atomic<std::int64_t> first_at{0};  // nanoseconds of the monotonic clock
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// Ends the process by this signal. Only calls that a handler may make.
[[noreturn]] void end_by(int signal) {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(signal, &plain, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

extern "C" void on_stop_signal(int signal) {
  const int error = errno;
  int none = 0;
  if (first.compare_exchange_strong(none, signal)) {
    first_at.store(nanoseconds());
  } else if (signal != SIGHUP) {
    // The prompt comes on a line of its own.
    if (on_terminal.load() && ::write(STDERR_FILENO, "\n", 1) < 0) errno = 0;
    end_by(signal);
  }
  errno = error;
}

}  // namespace

StopSignal::StopSignal() {
  if (installed.exchange(true))
    throw Error(
        "StopSignal: there is one already, and signals come to the process as a whole; use that "
        "one");
  first.store(0);
  first_at.store(0);
  on_terminal.store(::isatty(STDERR_FILENO) == 1);
  for (int i = 0; i < kCount; ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction ours {};
    ours.sa_handler = on_stop_signal;
    ours.sa_flags = SA_RESTART;
    sigemptyset(&ours.sa_mask);
    ::sigaction(kSignals[i], &ours, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (int i = 0; i < kCount; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  installed.store(false);
}

int StopSignal::signal() const { return first.load(std::memory_order_relaxed); }

bool StopSignal::asked() {
  return installed.load(std::memory_order_relaxed) && first.load(std::memory_order_relaxed) != 0;
}

const char* StopSignal::name() const {
  switch (signal()) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "none";
  }
}

int StopSignal::exit_code() const { return requested() ? 128 + signal() : 0; }

double StopSignal::seconds_since() const {
  const std::int64_t at = first_at.load();
  return at == 0 ? 0 : static_cast<double>(nanoseconds() - at) * 1e-9;
}

}  // namespace ebb::train
