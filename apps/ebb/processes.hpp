// Commands that several processes run together: --processes, and what each of them does.
#pragma once

#include <CLI/CLI.hpp>

#include "ebb/dist/world.hpp"

namespace ebb::app {

void add_processes(CLI::App& command, int& processes);

// Where so many are asked for and no launcher has started this one: shows the line, and becomes mpirun with it.
void start_processes(const char* command, int processes);

// The first one does it, for all.
template <class F>
void by_first(dist::World& world, const char* what, F&& f) {
  together(&world, what, [&] {
    if (world.first()) f();
  });
}

}  // namespace ebb::app
