// The `ebb` command in a process of its own, under a kernel limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ebb::programs {

struct Ran {
  int code = -1;
  bool killed = false;         // by the kernel, for its memory
  std::uint64_t peak = 0;      // VmHWM in bytes
  std::string out, err;        // what it printed
  std::string unlimited = {};  // why the kernel did not limit it
  std::string line = {};       // that runs it again
};

// limit: in bytes; 0: none.
Ran run_ebb(std::vector<std::string> arguments, std::uint64_t limit = 0);
bool launches(int argc, char** argv);  // for main, before all else: true where it was asked to

// A folder of a test, gone with it. On a disk: what a tmpfs holds is memory of the process's group.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ebb::programs
