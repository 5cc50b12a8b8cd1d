// ebb plan --processes: what several processes would take, by their plans and a simulation of their messages.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/ebb/commands.hpp"

namespace ebb::app {

struct AskedProcesses {
  std::string counts;   // "1,2,8"; "": nobody asks
  std::string network;  // "10Gbit/s,50us"; "": as ebb doctor --network has measured this machine
  int per_host = 0;     // 0: all on this machine where that is meant, else one
};
void add_asked_processes(CLI::App& command, AskedProcesses& asked);

// The table; an Exit with code 3 where some of them do not fit the budget.
void plan_processes(const ConfigFlags& flags, const AskedProcesses& asked, bool json);

}  // namespace ebb::app
