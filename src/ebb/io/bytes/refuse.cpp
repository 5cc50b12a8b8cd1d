#include "ebb/io/bytes/refuse.hpp"

#include <fmt/format.h>

#include "ebb/base/error.hpp"

namespace ebb::io {

void refuse(const std::string& path, std::string_view why) {
  throw FileError(fmt::format("cannot load \"{}\": {}", path, why));
}

void refuse(const std::string& path, std::uint64_t line, std::string_view why) {
  throw FileError(fmt::format("cannot load \"{}\", line {}: {}", path, line, why));
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

}  // namespace ebb::io
