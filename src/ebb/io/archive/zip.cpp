#include "ebb/io/archive/zip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ebb/io/bytes/refuse.hpp"

namespace ebb::io {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kCentralBytes = 46,
                      kLocalBytes = 30, kLongestComment = 65535;
constexpr std::uint64_t kMostDirectory = 16 << 20, kMostMembers = 100'000;
constexpr std::uint64_t kMostRatio = 1032;  // deflate packs no better

// Numbers of a record, little-endian.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t at(std::size_t offset, std::size_t width) const {
    std::uint64_t n = 0;
    for (std::size_t i = width; i-- > 0;)
      n = n << 8 | std::to_integer<std::uint64_t>(bytes_[offset + i]);
    return n;
  }
  std::uint32_t u32(std::size_t offset) const { return static_cast<std::uint32_t>(at(offset, 4)); }
  std::uint64_t u64(std::size_t offset) const { return at(offset, 8); }
  std::size_t u16(std::size_t offset) const { return at(offset, 2); }

 private:
  std::span<const std::byte> bytes_;
};

// Sizes that a member's extra field gives where 32 bits do not hold them: those among `wanted` that are
// all ones, in order. False where it does not.
bool take_zip64(std::span<const std::byte> extra, std::initializer_list<std::uint64_t*> wanted) {
  const bool any = std::any_of(wanted.begin(), wanted.end(),
                               [](const std::uint64_t* n) { return *n == 0xffffffff; });
  while (extra.size() >= 4) {
    const Fields head(extra);
    const std::size_t bytes = head.u16(2);
    if (bytes > extra.size() - 4) return false;
    if (head.u16(0) == 1) {
      const Fields sizes(extra.subspan(4, bytes));
      std::size_t at = 0;
      for (std::uint64_t* n : wanted) {
        if (*n != 0xffffffff) continue;
        if (at + 8 > bytes) return false;
        *n = sizes.u64(at);
        at += 8;
      }
      return true;
    }
    extra = extra.subspan(4 + bytes);
  }
  return !any;
}

std::uint32_t crc(std::uint32_t so_far, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(so_far, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

void ZipReader::refuse(std::string_view why) const { io::refuse(file_.path(), why); }

ZipReader::ZipReader(const std::string& path) : file_(File::open(path)), size_(file_.size()) {
  read_directory(find_directory());
}

ZipReader::Directory ZipReader::find_directory() {
  if (size_ < kEndBytes) refuse(fmt::format("{} bytes are too few for a zip archive", size_));
  // The end record stands last, but for a comment: of those that fit, the one nearest the end.
  const std::size_t tail = std::min<std::uint64_t>(size_, kEndBytes + kLongestComment);
  const memory::Buffer buffer(tail, "zip", Category::data);
  const std::span<std::byte> bytes(buffer.data(), tail);
  file_.read_at(size_ - tail, bytes);
  std::size_t at = tail - kEndBytes;
  const Fields fields(bytes);
  while (fields.u32(at) != kEnd || fields.u16(at + 20) != tail - kEndBytes - at)
    if (at-- == 0) refuse("it has no zip directory at its end; it is no zip archive, or cut short");
  if (fields.u16(at + 4) != 0 || fields.u16(at + 6) != 0)
    refuse("it is one of several parts of a zip archive, which is not read");
  Directory found{fields.u32(at + 16), fields.u32(at + 12), fields.u16(at + 10)};
  const std::uint64_t end = size_ - tail + at;
  if (found.offset == 0xffffffff || found.bytes == 0xffffffff || found.count == 0xffff) {
    std::byte locator[kLocatorBytes] = {}, record[kEnd64Bytes] = {};
    if (end < kLocatorBytes) refuse("its zip64 directory is missing");
    file_.read_at(end - kLocatorBytes, locator);
    const std::uint64_t place = Fields(locator).u64(8);
    if (Fields(locator).u32(0) == kLocator64) {
      if (place > end || end - place < kEnd64Bytes)
        refuse("its zip64 directory lies outside of it");
      file_.read_at(place, record);
      if (Fields(record).u32(0) != kEnd64) refuse("its zip64 directory is damaged");
      found = {Fields(record).u64(48), Fields(record).u64(40), Fields(record).u64(32)};
    }
  }
  if (found.offset > end || found.bytes > end - found.offset)
    refuse(fmt::format("its directory claims {} bytes from byte {} on, of {}; the file is damaged",
                       found.bytes, found.offset, size_));
  if (found.bytes > kMostDirectory || found.count > kMostMembers)
    refuse(fmt::format("its directory claims {} members in {} bytes; at most {} in {} are read",
                       found.count, found.bytes, kMostMembers, kMostDirectory));
  return found;
}

void ZipReader::read_directory(const Directory& directory) {
  const memory::Buffer buffer(directory.bytes, "zip", Category::data);
  std::span<const std::byte> left(buffer.data(), buffer.size());
  file_.read_at(directory.offset, {buffer.data(), buffer.size()});
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const Fields f(left);
    if (left.size() < kCentralBytes || f.u32(0) != kCentral)
      refuse(fmt::format("its directory is damaged at member {} of {}", i, directory.count));
    const std::size_t name = f.u16(28), extra = f.u16(30), comment = f.u16(32);
    if (name + extra + comment > left.size() - kCentralBytes)
      refuse(fmt::format("its directory is damaged at member {} of {}", i, directory.count));
    ZipMember m;
    m.name.assign(reinterpret_cast<const char*>(left.data()) + kCentralBytes, name);
    const std::string label = shown(m.name);
    if (!names.insert(m.name).second) refuse(fmt::format("it has two members \"{}\"", label));
    if (f.u16(8) & 1) refuse(fmt::format("its member \"{}\" is encrypted", label));
    const std::size_t method = f.u16(10);
    if (method != 0 && method != 8)
      refuse(fmt::format("its member \"{}\" is packed by method {}; stored and deflated are read",
                         label, method));
    m.deflated = method == 8;
    m.checksum = f.u32(16);
    m.packed = f.u32(20);
    m.bytes = f.u32(24);
    std::uint64_t local = f.u32(42);
    if (!take_zip64(left.subspan(kCentralBytes + name, extra), {&m.bytes, &m.packed, &local}))
      refuse(fmt::format("the sizes of its member \"{}\" are damaged", label));
    find_data(m, local, directory.offset);
    if (m.deflated ? m.bytes > m.packed * kMostRatio + 64 : m.bytes != m.packed)
      refuse(fmt::format("its member \"{}\" claims {} bytes, packed in {}, which cannot be", label,
                         m.bytes, m.packed));
    members_.push_back(std::move(m));
    left = left.subspan(kCentralBytes + name + extra + comment);
  }
  if (!left.empty()) refuse("its directory is followed by something else");
  std::vector<const ZipMember*> order;
  for (const ZipMember& m : members_) order.push_back(&m);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->data < b->data; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->data + order[i - 1]->packed > order[i]->data)
      refuse(fmt::format("its members \"{}\" and \"{}\" lie on one another",
                         shown(order[i - 1]->name), shown(order[i]->name)));
}

void ZipReader::find_data(ZipMember& m, std::uint64_t local, std::uint64_t directory) {
  std::byte head[kLocalBytes] = {};
  const auto outside = [&] {
    refuse(fmt::format("its member \"{}\" claims to lie outside of it; the file is damaged",
                       shown(m.name)));
  };
  if (local > directory || directory - local < kLocalBytes) outside();
  file_.read_at(local, head);
  const Fields f(head);
  if (f.u32(0) != kLocal)
    refuse(fmt::format("its member \"{}\" does not begin where it should", shown(m.name)));
  m.data = local + kLocalBytes + f.u16(26) + f.u16(28);
  if (m.data > directory || m.packed > directory - m.data) outside();
}

ZipReader::Stream::Stream(ZipReader& zip, const ZipMember& member) : zip_(zip), member_(member) {
  if (!member.deflated) return;
  inflate_.emplace(Inflate::Wrap::none);
  packed_ = memory::Buffer(64 << 10, "zip", Category::data);
}

std::size_t ZipReader::Stream::read_packed(std::span<std::byte> to) {
  const std::size_t count = std::min<std::uint64_t>(to.size(), member_.packed - taken_);
  zip_.file_.read_at(member_.data + taken_, to.first(count));
  taken_ += count;
  return count;
}

void ZipReader::Stream::read(std::span<std::byte> to) {
  const std::span<std::byte> all = to;
  const auto damaged = [&](std::string_view how) {
    zip_.refuse(fmt::format("its member \"{}\" {}; get a new copy", shown(member_.name), how));
  };
  if (to.size() > member_.bytes - read_) damaged("ends early");
  if (!inflate_) to = to.subspan(read_packed(to));
  while (!to.empty()) {
    if (left_.empty()) {
      const std::span<std::byte> whole(packed_.data(), packed_.size());
      left_ = whole.first(read_packed(whole));
    }
    if (left_.empty() || ended_) damaged("ends early");
    const auto state = inflate_->step(left_, to);
    if (state == Inflate::State::damaged) damaged("is damaged");
    ended_ = state == Inflate::State::end;
  }
  read_ += all.size();
  checksum_ = crc(checksum_, all);
}

void ZipReader::Stream::finish() {
  if (read_ == member_.bytes && checksum_ == member_.checksum) return;
  zip_.refuse(read_ != member_.bytes
                  ? fmt::format("its member \"{}\" has {} bytes more than it should",
                                shown(member_.name), member_.bytes - read_)
                  : fmt::format("the checksum of its member \"{}\" is not that of its content; the "
                                "file is damaged, get a new copy",
                                shown(member_.name)));
}

}  // namespace ebb::io
