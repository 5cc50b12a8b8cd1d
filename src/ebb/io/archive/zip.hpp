// Zip archives, as far as .npz files are such: members stored or deflated, also beyond 4 GiB. Nothing is
// ever extracted to a path that an archive names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/io/bytes/inflate.hpp"

namespace ebb::io {

struct ZipMember {
  std::string name;
  bool deflated = false;
  std::uint32_t checksum = 0;           // crc32 of the content
  std::uint64_t packed = 0, bytes = 0;  // in the file, and unpacked
  std::uint64_t data = 0;               // where it begins in the file
};

class ZipReader {
 public:
  // Reads the directory and checks it: every member lies in the file, none on another, and no size is
  // beyond what deflate can pack.
  explicit ZipReader(const std::string& path);
  const std::vector<ZipMember>& members() const { return members_; }
  const std::string& path() const { return file_.path(); }

  // The content of one member, from its start on; its checksum is compared at its end.
  class Stream {
   public:
    Stream(ZipReader& zip, const ZipMember& member);
    void read(std::span<std::byte> to);  // all of it; an early end is refused
    void finish();                       // that there is nothing more, and what was read is whole

   private:
    std::size_t read_packed(std::span<std::byte> to);
    ZipReader& zip_;
    const ZipMember& member_;
    std::optional<Inflate> inflate_;
    memory::Buffer packed_;
    std::span<const std::byte> left_;
    std::uint64_t read_ = 0, taken_ = 0;  // unpacked, and of the packed bytes
    std::uint32_t checksum_ = 0;
    bool ended_ = false;
  };

 private:
  struct Directory {
    std::uint64_t offset = 0, bytes = 0, count = 0;
  };
  Directory find_directory();
  void read_directory(const Directory& directory);
  void find_data(ZipMember& member, std::uint64_t local, std::uint64_t directory);
  [[noreturn]] void refuse(std::string_view why) const;

  File file_;
  std::uint64_t size_;
  std::vector<ZipMember> members_;
};

// Members stored as they are; the archive is in place when it is committed.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  // One member whose content is `front` and `content`, one behind the other.
  void add(const std::string& name, std::string_view front, std::span<const std::byte> content);
  void commit();

 private:
  struct Written {
    std::string name;
    std::uint32_t checksum;
    std::uint64_t bytes, offset;
  };
  AtomicFile file_;
  std::vector<Written> written_;
  std::uint64_t at_ = 0;
};

}  // namespace ebb::io
