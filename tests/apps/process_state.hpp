// Where another process is: what it has read, computed and opened, and standing still, so that it stays there.
#pragma once

#include <functional>
#include <string>

namespace ebb::test {

std::uint64_t bytes_read(int pid);  // by calls, since it began; 0 where that is not told
double cpu_seconds(int pid);        // of all its threads
bool has_open(int pid, const std::string& path);
bool is_writing(int pid, int descriptor);  // it waits in such a call
bool is_pending(int pid, int signal);      // it was sent, and has not come yet

// Stops the process at a moment when this is true of it, and stays true while it stands. False where it ended, or
// nothing of the kind was seen in 30 s.
bool stopped_where(int pid, const std::function<bool()>& is_there);

// The signal comes as soon as it goes on.
void signal_and_go_on(int pid, int signal);

}  // namespace ebb::test
