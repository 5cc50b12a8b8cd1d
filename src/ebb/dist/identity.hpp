// What must be the same on all ranks before any of them does anything.
#pragma once

#include <string>

namespace ebb::dist {

std::string version();     // of Ebb
std::string byte_order();  // "little-endian"

// The program, by its linker's build id, or where it has none by its length and checksum; with that of
// libebb.so, where it is in one.
std::string program();

}  // namespace ebb::dist
