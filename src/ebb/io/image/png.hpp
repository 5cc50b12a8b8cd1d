// PNG files by libpng. What image.hpp stands on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ebb/base/files/file.hpp"

namespace ebb::io {

class PngReader {
 public:
  // Reads the header. `channels`: 1, 3 or 4, or 0 for what the file has.
  PngReader(File& file, int channels, std::int64_t most_pixels);
  ~PngReader();
  std::int64_t height() const, width() const;
  int channels() const;
  void read(std::span<std::byte> to);  // all rows, and the end with its checksums

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool is_png(std::span<const std::byte> front);  // its first 8 bytes

}  // namespace ebb::io
