// Zip archives put together by hand, right ones and those that lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/io/folder.hpp"

namespace ebb::test {

struct Member {
  std::string name, content;
  bool deflated = false;
  std::uint64_t claimed = 0;  // bytes; 0: as many as there are
  std::int64_t offset_shift = 0;
  int method = -1, flags = 0;
  std::uint32_t checksum_flip = 0;
};

inline std::string little(std::uint64_t n, int width) {
  std::string out;
  for (int i = 0; i < width; ++i) out += static_cast<char>(n >> 8 * i & 0xff);
  return out;
}

// `large`: sizes and places in the fields of zip64.
inline std::string zip_of(const std::vector<Member>& members, bool large = false,
                          const std::string& comment = "") {
  std::string out, directory;
  for (const Member& m : members) {
    const std::string data = m.deflated ? deflated(m.content, -15) : m.content;
    const auto sum =
        static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(m.content.data()),
                                         static_cast<unsigned>(m.content.size())));
    const std::uint64_t bytes = m.claimed ? m.claimed : m.content.size();
    const std::uint64_t offset = out.size() + static_cast<std::uint64_t>(m.offset_shift);
    const int method = m.method >= 0 ? m.method : m.deflated ? 8 : 0;
    const std::string common = little(static_cast<unsigned>(m.flags), 2) +
                               little(static_cast<unsigned>(method), 2) + little(0, 4) +
                               little(sum ^ m.checksum_flip, 4);
    out += little(0x04034b50, 4) + little(20, 2) + common + little(data.size(), 4) +
           little(bytes, 4) + little(m.name.size(), 2) + little(0, 2) + m.name + data;
    const std::string extra = large ? little(1, 2) + little(24, 2) + little(bytes, 8) +
                                          little(data.size(), 8) + little(offset, 8)
                                    : "";
    directory += little(0x02014b50, 4) + little(20, 2) + little(20, 2) + common +
                 little(large ? 0xffffffff : data.size(), 4) +
                 little(large ? 0xffffffff : bytes, 4) + little(m.name.size(), 2) +
                 little(extra.size(), 2) + little(0, 2) + little(0, 8) +
                 little(large ? 0xffffffff : offset, 4) + m.name + extra;
  }
  const std::uint64_t start = out.size(), count = members.size();
  out += directory;
  if (large) {
    const std::uint64_t place = out.size();
    out += little(0x06064b50, 4) + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) +
           little(count, 8) + little(count, 8) + little(directory.size(), 8) + little(start, 8);
    out += little(0x07064b50, 4) + little(0, 4) + little(place, 8) + little(1, 4);
  }
  out += little(0x06054b50, 4) + little(0, 4) + little(large ? 0xffff : count, 2) +
         little(large ? 0xffff : count, 2) + little(large ? 0xffffffff : directory.size(), 4) +
         little(large ? 0xffffffff : start, 4) + little(comment.size(), 2) + comment;
  return out;
}

}  // namespace ebb::test
