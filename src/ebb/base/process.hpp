// What the operating system knows of this process's memory.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::process {

std::uint64_t resident();       // bytes in memory now (VmRSS)
std::uint64_t peak_resident();  // the most there ever were (VmHWM)
std::uint64_t mapped();         // of those in memory now, pages of files: code, libraries (RssFile)
bool reset_peak();              // the peak is counted from here on; false where that cannot be

// What of it is not from the memory seam: code, libraries, stacks, the heap of the standard
// library.
std::uint64_t footprint();

// How much this process may hold in all, what it holds already included, and who says so, whichever is least: the
// limit of its control group (v1 or v2) or of one above it, less what others in that group use and cannot give
// back at once; the shell's limits (ulimit -v, -d), less what is mapped and not in memory; free memory.
struct Available {
  std::uint64_t bytes = 0;
  std::string source;
};
Available available();
// Where so many processes of one job are on this machine, each may hold an equal part of it (dist::World says so).
void set_shared_by(int processes);
// Of that, what a budget may be: a twentieth is left for what others take meanwhile.
inline std::uint64_t safe_budget(const Available& all) { return all.bytes - all.bytes / 20; }

// For tests: the same from the text of /proc/self/cgroup, with all paths below `root`, for a
// process that holds `own` bytes.
Available available_in(const std::string& cgroup_text, const std::string& root, std::uint64_t own);

}  // namespace ebb::process
