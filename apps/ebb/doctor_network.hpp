// `ebb doctor --network`.
#pragma once

namespace ebb::app {

// Started by a launcher: measures between its processes, and the first one prints. Else becomes a launcher of so
// many (0: two) of itself.
void doctor_network(int processes, bool json);

}  // namespace ebb::app
