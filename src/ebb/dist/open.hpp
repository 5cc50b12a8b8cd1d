// Whether this process is one of several, and the way to the others: the plugin, found and opened.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/messages/transport.hpp"

namespace ebb::dist {

// By whom this process was started as one of several; none: alone, and then nothing is opened. mpirun -np 1
// is alone, too.
struct Started {
  std::string by;  // "mpirun", "srun"
  int rank = 0;
  int size = 1;
};
using Environment = std::function<const char*(const char*)>;
std::optional<Started> started(const Environment& environment);
std::optional<Started> started();  // by this process's environment; not in a child of a rank

// Whether a launcher has started this process, be it alone; and whether that was mpirun.
bool launched();
bool under_mpirun();

// Where the plugin is looked for, in order: what EBB_DIST_PLUGIN names, and nowhere else; else beside libebb.so,
// beside the program, and where both are installed together.
std::vector<std::string> plugin_places();
std::string missing_plugin(const std::vector<std::string>& places);  // that it is in none of them

// Opens it and joins the others. For the thread that will use it. An OnEveryRank says what is missing, of
// another version, or not as it was started.
std::unique_ptr<Transport> open_plugin(const Started& as);

}  // namespace ebb::dist
