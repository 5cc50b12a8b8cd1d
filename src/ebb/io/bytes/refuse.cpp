#include "ebb/io/bytes/refuse.hpp"

#include <fmt/format.h>

#include <algorithm>

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

namespace {

// Bytes of the character of UTF-8 that `text` begins with; 0 where there is none, or one that a terminal obeys.
std::size_t printable(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (at(0) < 0x80) return text[0] >= ' ' && text[0] <= '~' ? 1 : 0;
  const std::size_t bytes = at(0) >= 0xf0 ? 4 : at(0) >= 0xe0 ? 3 : 2;
  if (at(0) < 0xc2 || at(0) > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  const bool control = at(0) == 0xc2 && at(1) < 0xa0;
  const bool direction = at(0) == 0xe2 && (at(1) == 0x80 || at(1) == 0x81);  // marks and overrides
  return control || direction ? 0 : bytes;
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string out;
  std::size_t used = 0, count = 0;
  for (; used < text.size() && count < kMost; ++count) {
    const std::size_t bytes = printable(text.substr(used));
    bytes > 0 ? out.append(text.substr(used, bytes)) : out.append("?");
    used += std::max<std::size_t>(bytes, 1);
  }
  return used < text.size() ? out + "..." : out;
}

}  // namespace ebb::io
