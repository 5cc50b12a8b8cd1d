#include "ebb/train/run/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>

namespace ebb::train {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool locale_has_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(variable(name));
    if (value.empty()) continue;
    for (char& c : value) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

// A write to a closed pipe sends SIGPIPE to this thread, and one from the background may send
// SIGTTOU: held back while this lives, and a SIGPIPE of its own taken off, so that the program's
// handling of them is what it was.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t pending;
    sigemptyset(&pending);
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGPIPE);
    sigaddset(&held, SIGTTOU);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() {
    if (broken_pipe && !was_pending_) {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      const timespec now{};
      while (::sigtimedwait(&pipe, nullptr, &now) < 0 && errno == EINTR) continue;
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  bool broken_pipe = false;

 private:
  sigset_t before_;
  bool was_pending_;
};

// A terminal is opened anew where that can be: then a write that would wait returns instead, and
// nothing changes for others who have it open. Of anything else a copy.
int own_descriptor(int descriptor) {
  if (::isatty(descriptor) == 1) {
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const int opened = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (opened > 2) return opened;
    if (opened >= 0) ::close(opened);
  }
  return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

}  // namespace

Terminal::Terminal(int descriptor) : descriptor_(own_descriptor(descriptor)) {
  const std::string_view term = variable("TERM");
  can_redraw_ = !gone() && ::isatty(descriptor_) == 1 && !term.empty() && term != "dumb";
  has_color_ = can_redraw_ && variable("NO_COLOR").empty();
  has_unicode_ = can_redraw_ && locale_has_unicode();
}

Terminal::~Terminal() {
  if (!gone()) ::close(descriptor_);
}

int Terminal::columns() const {
  winsize size{};
  int window = 0;
  if (!gone() && ::ioctl(descriptor_, TIOCGWINSZ, &size) == 0) window = size.ws_col;
  const int wished = std::atoi(std::string(variable("COLUMNS")).c_str());
  if (wished > 0 && window > 0) return std::min(wished, window);
  return window > 0 ? window : wished > 0 ? wished : 80;
}

bool Terminal::in_foreground() const {
  if (gone()) return false;
  const pid_t owner = ::tcgetpgrp(descriptor_);
  return owner < 0 || owner == ::getpgrp();
}

bool Terminal::write(std::string_view text, int most_milliseconds) {
  if (gone()) return false;
  if (torn_) {
    if (!write_ready("\n", most_milliseconds)) return false;
    torn_ = false;
  }
  return write_ready(text, most_milliseconds);
}

bool Terminal::write_ready(std::string_view text, int most_milliseconds) {
  SignalsHeld held;
  const std::size_t all = text.size();
  while (!text.empty()) {
    pollfd ready{descriptor_, POLLOUT, 0};
    const int polled = ::poll(&ready, 1, most_milliseconds);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) break;
    // As much as a pipe that is ready takes without waiting.
    const ssize_t n =
        ::write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EPIPE || errno == EIO || errno == EBADF)) {
      held.broken_pipe = errno == EPIPE;
      ::close(descriptor_);
      descriptor_ = -1;
      return false;
    }
    break;  // a full disk, or nobody reads: it may be otherwise the next time
  }
  if (!text.empty() && text.size() < all) torn_ = !can_redraw_;
  return text.empty();
}

void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", O_RDWR);  // takes the lowest number that is free
    if (opened > 2) ::close(opened);
  }
}

}  // namespace ebb::train
