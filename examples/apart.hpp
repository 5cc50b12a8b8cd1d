// Runs a function in a process of its own, so that its peak of memory is its own.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ebb/ebb.hpp>
#include <iostream>
#include <type_traits>

// Where the function fails, its error is said and this process ends too: with 3 where a budget is
// too small, else with 1.
template <class Outcome, class Fn>
Outcome apart(Fn fn) {
  static_assert(std::is_trivially_copyable_v<Outcome>);
  int ends[2];
  Outcome outcome;
  if (pipe(ends) != 0) throw ebb::Error("no pipe to a process of its own");
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // when nobody waits for it any more
    int code = 0;
    try {
      outcome = fn();
    } catch (const ebb::Error& e) {
      std::cerr << e.what() << '\n';
      code = dynamic_cast<const ebb::BudgetTooSmall*>(&e) ? 3 : 1;
    }
    const bool told = write(ends[1], &outcome, sizeof outcome) == sizeof outcome;
    std::cout.flush();
    _exit(told ? code : 1);
  }
  close(ends[1]);
  int status = 0;
  const bool heard = child > 0 && read(ends[0], &outcome, sizeof outcome) == sizeof outcome;
  close(ends[0]);
  if (child > 0) waitpid(child, &status, 0);
  if (!heard || status != 0) std::exit(WIFEXITED(status) && status ? WEXITSTATUS(status) : 1);
  return outcome;
}
