#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/io/archive/zip.hpp"

namespace ebb::io {
namespace {

constexpr std::uint64_t kAll32 = 0xffffffff;

// Numbers one behind the other, little-endian.
class Record {
 public:
  Record& u16(std::uint64_t n) { return put(n, 2); }
  Record& u32(std::uint64_t n) { return put(n, 4); }
  Record& u64(std::uint64_t n) { return put(n, 8); }
  Record& text(std::string_view t) {
    text_ += t;
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  Record& put(std::uint64_t n, int width) {
    for (int i = 0; i < width; ++i) text_ += static_cast<char>(n >> 8 * i & 0xff);
    return *this;
  }
  std::string text_;
};

std::uint64_t capped(std::uint64_t n) { return std::min(n, kAll32); }
constexpr std::uint64_t kDate =
    1 << 5 | 1;  // 1 January 1980: the same bytes whenever it is written

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view front,
                    std::span<const std::byte> content) {
  if (name.empty() || name.size() > 0xffff)
    throw Error(fmt::format("zip: a member's name has {} bytes; expected 1 to 65535", name.size()));
  const std::uint64_t bytes = front.size() + content.size();
  std::uint64_t sum = crc32_z(0, reinterpret_cast<const Bytef*>(front.data()), front.size());
  sum = crc32_z(sum, reinterpret_cast<const Bytef*>(content.data()), content.size());
  const bool large = bytes >= kAll32;
  Record head;
  head.u32(0x04034b50).u16(large ? 45 : 20).u16(0x800).u16(0).u16(0).u16(kDate).u32(sum);
  head.u32(capped(bytes)).u32(capped(bytes)).u16(name.size()).u16(large ? 20 : 0).text(name);
  if (large) head.u16(1).u16(16).u64(bytes).u64(bytes);
  file_.file().write(head.str());
  file_.file().write(front);
  file_.file().write(content);
  written_.push_back({name, static_cast<std::uint32_t>(sum), bytes, at_});
  at_ += head.str().size() + bytes;
}

void ZipWriter::commit() {
  Record all;
  for (const Written& w : written_) {
    Record extra;
    if (w.bytes >= kAll32) extra.u64(w.bytes).u64(w.bytes);
    if (w.offset >= kAll32) extra.u64(w.offset);
    const std::size_t more = extra.str().empty() ? 0 : extra.str().size() + 4;
    all.u32(0x02014b50).u16(more ? 45 : 20).u16(more ? 45 : 20).u16(0x800).u16(0).u16(0).u16(kDate);
    all.u32(w.checksum).u32(capped(w.bytes)).u32(capped(w.bytes)).u16(w.name.size()).u16(more);
    all.u16(0).u16(0).u16(0).u32(0).u32(capped(w.offset)).text(w.name);
    if (more) all.u16(1).u16(more - 4).text(extra.str());
  }
  const std::uint64_t start = at_, bytes = all.str().size(), count = written_.size();
  if (start >= kAll32 || bytes >= kAll32 || count >= 0xffff) {
    all.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count);
    all.u64(bytes).u64(start);
    all.u32(0x07064b50).u32(0).u64(start + bytes).u32(1);
  }
  const std::uint64_t shown = std::min<std::uint64_t>(count, 0xffff);
  all.u32(0x06054b50)
      .u16(0)
      .u16(0)
      .u16(shown)
      .u16(shown)
      .u32(capped(bytes))
      .u32(capped(start))
      .u16(0);
  file_.file().write(all.str());
  file_.commit();
}

}  // namespace ebb::io
