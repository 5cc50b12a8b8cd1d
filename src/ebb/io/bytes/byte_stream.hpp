// The bytes of a file one after the other, unpacked on the way where it is a .gz file (whatever its
// name). Under a limit, what was read leaves the page cache behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/io/bytes/inflate.hpp"

namespace ebb::io {

class ByteStream {
 public:
  explicit ByteStream(const std::string& path);

  std::size_t read(std::span<std::byte> to);  // fills it, but for the end of the file; then 0
  bool packed() const { return inflate_.has_value(); }
  std::uint64_t file_bytes() const { return size_; }  // as it lies
  std::uint64_t offset() const { return offset_; }    // bytes read so far, unpacked
  const std::string& path() const { return file_.path(); }

 private:
  std::size_t read_file(std::span<std::byte> to);
  std::size_t unpack(std::span<std::byte> to);

  File file_;
  std::uint64_t size_, at_ = 0, offset_ = 0, dropped_ = 0;
  std::optional<Inflate> inflate_;
  memory::Buffer packed_;  // what was read and is to be unpacked
  std::span<const std::byte> left_;
  bool ended_ = false;  // the member that was unpacked last
};

}  // namespace ebb::io
