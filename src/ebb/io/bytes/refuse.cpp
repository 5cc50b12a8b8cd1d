#include "ebb/io/bytes/refuse.hpp"

#include <fmt/format.h>

#include "ebb/base/error.hpp"
#include "ebb/base/nearest.hpp"

namespace ebb::io {

void refuse(const std::string& path, std::string_view why) {
  throw FileError(fmt::format("cannot load \"{}\": {}", path, why));
}

void refuse(const std::string& path, std::uint64_t line, std::string_view why) {
  throw FileError(fmt::format("cannot load \"{}\", line {}: {}", path, line, why));
}

void refuse_name(const std::string& path, std::string_view what, std::string_view name,
                 const std::vector<std::string>& names) {
  constexpr std::size_t kListed = 20;
  std::string all;
  for (std::size_t i = 0; i < names.size() && i < kListed; ++i)
    all += fmt::format("{}\"{}\"", i ? ", " : "", shown(names[i]));
  if (names.size() > kListed) all += fmt::format(" and {} more", names.size() - kListed);
  const std::string near = nearest(name, names);
  refuse(path, fmt::format("it has no {} \"{}\"; {}it has {}", what, shown(name),
                           near.empty() ? "" : fmt::format("do you mean \"{}\"? ", shown(near)),
                           names.empty() ? "none" : all));
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string out;
  for (const char c : text.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? out + "..." : out;
}

}  // namespace ebb::io
