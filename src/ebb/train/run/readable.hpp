// Numbers as people read them: three or four digits and a unit.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::train {

std::string readable_number(double value, int digits = 4);  // "0.2310", "12.35", "2.310e-5", "nan"
std::string readable_rate(double value);                    // a learning rate: "0.001", "2.5e-5"
std::string readable_count(double value);                   // "512", "12.3k", "1.20M"
std::string readable_bytes(std::uint64_t bytes);            // "812 MiB", "1.50 GiB"
std::string short_bytes(std::uint64_t bytes);               // "812M", "1.50G"
std::string readable_seconds(double seconds);               // "8s", "3m20s", "2h05m", "3d04h"

}  // namespace ebb::train
