#include "ebb/dist/alert.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

namespace ebb::dist {
namespace {

std::atomic<bool> was_sent{false};
sem_t sent;  // what a handler may post
struct sigaction before {};
// The launcher may have started a script that has started this.
constexpr int kAncestors = 8;
pid_t ancestors[kAncestors];

pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);  // number (name) state parent …
  int parent = 0;
  const std::size_t name_end = text.rfind(')');
  if (name_end != std::string::npos) std::sscanf(text.c_str() + name_end, ") %*c %d", &parent);
  return parent;
}

bool is_ancestor(pid_t process) {
  return process > 0 &&
         std::find(ancestors, ancestors + kAncestors, process) != ancestors + kAncestors;
}

extern "C" void on_continue(int signal, siginfo_t* about, void* context) {
  if (about->si_code == SI_USER && is_ancestor(about->si_pid)) {
    was_sent = true;
    ::sem_post(&sent);
  }
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, about, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
}

}  // namespace

Alert::Alert(std::function<void()> then) : then_(std::move(then)) {
  was_sent = false;
  ::sem_init(&sent, 0, 0);
  thread_ = std::thread([this] { run(); });
  pid_t at = ::getpid();
  for (pid_t& ancestor : ancestors) ancestor = at = at > 0 ? parent_of(at) : 0;
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
  ending_ = true;
  ::sem_post(&sent);
  thread_.join();
}

void Alert::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    while (::sem_wait(&sent) != 0) {
    }
    if (ending_) return;
    then_();
  }
}

bool Alert::taken() { return was_sent.load(std::memory_order_relaxed) && was_sent.exchange(false); }

}  // namespace ebb::dist
