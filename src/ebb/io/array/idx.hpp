// The idx format of the MNIST digits and their relatives, plain or packed (.gz), read strictly.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ebb/base/files/file.hpp"
#include "ebb/io/bytes/byte_stream.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

// One idx file: u8, i32, f32 or f64, of the shape that it states.
Tensor load_idx(const std::string& path);

bool is_packed(const std::string& path);  // it begins as a .gz file does

// A file that is not packed, whose header was read and fits it to the byte.
struct IdxFile {
  File file;
  Spec spec;
  std::uint64_t data = 0;  // where the elements begin
  bool swapped = false;    // their bytes are in the other order than this machine's
};
IdxFile open_idx(const std::string& path);

// The elements one after the other, unpacked where it is packed, in this machine's order of bytes.
class IdxStream {
 public:
  explicit IdxStream(const std::string& path);
  const Spec& spec() const { return spec_; }
  void read(std::span<std::byte> to);  // whole elements
  void finish();                       // that there are no more, and checksums are right

 private:
  io::ByteStream stream_;
  Spec spec_;
};

}  // namespace ebb
