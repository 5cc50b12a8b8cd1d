// PNG files of a test's own, by libpng.
#pragma once

#include <png.h>

#include <string>
#include <vector>

namespace ebb::test {

// Rows one behind the other as PNG wants them: samples of 16 bits big-endian, few bits packed.
struct Png {
  unsigned width = 1, height = 1;
  int colour = PNG_COLOR_TYPE_GRAY, bits = 8;
  std::vector<unsigned char> rows = {};
  std::vector<png_color> palette = {};
  std::vector<unsigned char> clear = {};  // transparency of the palette
  bool interlaced = false;
};

inline std::string png_of(Png p) {
  std::string out;
  png_struct* png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_info* info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_struct* w, png_byte* bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(w))->append(reinterpret_cast<char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, p.width, p.height, p.bits, p.colour,
               p.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!p.palette.empty())
    png_set_PLTE(png, info, p.palette.data(), static_cast<int>(p.palette.size()));
  if (!p.clear.empty())
    png_set_tRNS(png, info, p.clear.data(), static_cast<int>(p.clear.size()), nullptr);
  const std::size_t row = png_get_rowbytes(png, info);
  p.rows.resize(row * p.height);
  std::vector<png_byte*> rows;
  for (unsigned y = 0; y < p.height; ++y) rows.push_back(p.rows.data() + y * row);
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace ebb::test
