// A control group with a memory limit, inside the group this process is in: the kernel kills what
// goes above it. Where the system does not let us make one, `why` says so and nothing is limited.
#pragma once

#include <cstdint>
#include <string>

namespace ebb {

class MemoryGroup {
 public:
  explicit MemoryGroup(std::uint64_t limit_bytes);  // 0: no limit, and no group
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool limited() const { return !path_.empty(); }
  const std::string& why() const { return why_; }
  bool enter() const;  // the calling process; for a child before it executes
  // What a process writes its number to that enters by itself; empty where nothing is limited.
  std::string door() const { return limited() ? path_ + "/cgroup.procs" : ""; }
  std::uint64_t peak_bytes() const;  // charged to the group so far, page cache included

 private:
  std::string path_, why_;
  bool second_version_ = false;
};

}  // namespace ebb
