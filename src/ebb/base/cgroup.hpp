// The control groups that a process is in, of version 1 or 2. Its own group and all above it that can be
// seen may each have a limit.
#pragma once

#include <string>
#include <vector>

namespace ebb::cgroup {

struct Group {
  int version = 2;
  std::string name;    // as its mount sees it; empty: the top
  std::string folder;  // where its files are, with a slash at the end
};

// For a controller such as "memory" or "cpu", the innermost first. `self` is the text of
// /proc/self/cgroup, and all paths are below `root` (tests have one of their own).
std::vector<Group> groups_of(const char* controller, const std::string& self,
                             const std::string& root);
std::vector<Group> groups_of(const char* controller);  // of this process

// Cores that these let the process use: the least of them; 0: no limit.
double cpu_quota(const std::vector<Group>& groups);

// A file of the system's; empty where there is none, or it cannot be read.
std::string text_of(const std::string& path);

}  // namespace ebb::cgroup
