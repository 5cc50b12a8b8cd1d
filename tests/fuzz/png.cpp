#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "ebb/io/image/image.hpp"
#include "tests/fuzz/fuzz.hpp"

void read_file_of(const std::string& path) {
  for (const int channels : {0, 1, 3, 4})
    (void)ebb::load_image(path, {.channels = channels, .most_pixels = 1 << 16});
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// Chunks with a wrong checksum are not looked into: it is put right after each mutation.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 8 == 0) return size;
  for (std::size_t at = 8; at + 12 <= size;) {
    const std::size_t length =
        std::size_t{data[at]} << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3];
    if (length > size - at - 12) break;
    const auto sum = static_cast<std::uint32_t>(crc32_z(0, data + at + 4, length + 4));
    for (int i = 0; i < 4; ++i)
      data[at + 8 + length + static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  return size;
}
