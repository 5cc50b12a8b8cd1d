// Starts a program as several processes on this machine, by mpirun: the line is a value, which is shown, and
// which users can take and change.
#pragma once

#include <string>
#include <vector>

namespace ebb::dist {

struct Launch {
  int processes = 2;
  int threads = 0;                   // of each; 0: the cores are divided among them
  std::vector<std::string> program;  // and its arguments
};

int cores();                         // that this process may use
int threads_of_each(int processes);  // of so many on this machine, where nobody says another number

// mpirun -np 2 … program arguments. What is said there:
//   as many processes as are asked for, on however many cores, wherever the system lets them run; threads of
//   each; waiting processes leave their core to others; a host that cannot be reached is noticed within 5 s
//   (else minutes); root may.
std::vector<std::string> mpirun_line(const Launch& launch);
std::string shell_line(const std::vector<std::string>& arguments);  // as one would type it

// Throws where there is no mpirun, or no plugin for its processes.
void check_launcher();

// Becomes that program. Comes back by an Error alone: no mpirun here.
[[noreturn]] void become(const std::vector<std::string>& arguments);

}  // namespace ebb::dist
