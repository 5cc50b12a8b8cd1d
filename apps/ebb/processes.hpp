// Commands that several processes run together: --processes, and what each of them does.
#pragma once

#include <exception>

#include <CLI/CLI.hpp>

#include "ebb/dist/world.hpp"

namespace ebb::app {

void add_processes(CLI::App& command, int& processes);

// Where so many are asked for and no launcher has started this one: shows the line, and becomes mpirun with it.
void start_processes(const char* command, int processes);

// f(); none goes on unless it has worked on all ranks.
template <class F>
void together(dist::World& world, const char* what, F&& f) {
  std::exception_ptr failed;
  try {
    f();
  } catch (...) {
    failed = std::current_exception();
  }
  world.together(what, failed);
}

// The first one does it, for all.
template <class F>
void by_first(dist::World& world, const char* what, F&& f) {
  together(world, what, [&] {
    if (world.first()) f();
  });
}

}  // namespace ebb::app
