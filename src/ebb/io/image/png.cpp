#include "ebb/io/image/png.hpp"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <exception>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/io/bytes/refuse.hpp"

namespace ebb::io {

// libpng is C, and leaves by longjmp, which must not jump over anything that has a destructor. So every
// call of it stands in a function of its own that has none (the `try_…` below), and what goes wrong in a
// callback is kept until that function has come back.
struct PngReader::State {
  File& file;
  png_struct* png = nullptr;
  png_info* info = nullptr;
  std::exception_ptr failure;  // of the file or of memory
  char message[200] = {};      // libpng's
  std::int64_t height = 0, width = 0;
  int channels = 0, passes = 1;
  std::byte read_ahead[4096];  // libpng asks for a few bytes at a time
  std::size_t ahead_at = 0, ahead_end = 0;

  State(File& f, int wanted) : file(f), channels(wanted) {}
  ~State() { png_destroy_read_struct(&png, &info, nullptr); }

  [[noreturn]] void refuse() {
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
    io::refuse(file.path(), fmt::format("it is no whole PNG picture ({}); the file is cut short or "
                                        "damaged, get a new copy",
                                        shown(message)));
  }

  static void on_error(png_struct* png, const char* message) {
    auto* const self = static_cast<State*>(png_get_error_ptr(png));
    if (message) std::strncpy(self->message, message, sizeof self->message - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_struct*, const char*) {}
  static void* take(png_struct* png, std::size_t bytes) {
    auto* const self = static_cast<State*>(png_get_mem_ptr(png));
    try {
      return memory::take(bytes, "png", Category::data);
    } catch (...) {
      self->failure = std::current_exception();
      return nullptr;  // libpng comes back by on_error
    }
  }
  static void give(png_struct*, void* bytes) {
    if (bytes) memory::give(bytes);
  }
  static void on_read(png_struct* png, png_byte* to, std::size_t count) {
    auto* const self = static_cast<State*>(png_get_io_ptr(png));
    if (!self->try_file(to, count)) png_error(png, "it ends early");
  }
  bool try_file(png_byte* to, std::size_t count) {
    try {
      std::span<std::byte> bytes(reinterpret_cast<std::byte*>(to), count);
      while (!bytes.empty()) {
        if (ahead_at == ahead_end) {
          ahead_at = 0;
          ahead_end = file.read_some(read_ahead);
          if (ahead_end == 0) return false;
        }
        const std::size_t part = std::min(bytes.size(), ahead_end - ahead_at);
        std::memcpy(bytes.data(), read_ahead + ahead_at, part);
        ahead_at += part;
        bytes = bytes.subspan(part);
      }
      return true;
    } catch (...) {
      failure = std::current_exception();
    }
    return false;
  }

  bool try_create() {
    png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this, take,
                                   give);
    if (!png) return false;
    info = png_create_info_struct(png);
    return info != nullptr;
  }

  bool try_header(std::int64_t most_pixels) {
    if (setjmp(png_jmpbuf(png))) return false;
    // No picture needs more; what else a file may hold is not looked at.
    png_set_user_limits(png, 1 << 24, 1 << 24);
    png_set_chunk_cache_max(png, 64);
    png_set_chunk_malloc_max(png, 1 << 20);
    png_set_read_fn(png, this, on_read);
    png_read_info(png, info);
    width = png_get_image_width(png, info);
    height = png_get_image_height(png, info);
    if (width * height > most_pixels) {
      width = -width;  // the caller says why
      return true;
    }
    const int colour = png_get_color_type(png, info);
    const bool clear = png_get_valid(png, info, PNG_INFO_tRNS) != 0;
    png_set_expand(png);    // palettes to colours, few bits to 8, transparent colours to a channel
    png_set_scale_16(png);  // 16 bits to 8, rounded
    const bool gray = !(colour & PNG_COLOR_MASK_COLOR);
    const bool alpha = (colour & PNG_COLOR_MASK_ALPHA) || clear;
    if (channels == 0) channels = alpha ? 4 : gray ? 1 : 3;
    if (gray && channels >= 3) png_set_gray_to_rgb(png);
    if (!gray && channels == 1) png_set_rgb_to_gray_fixed(png, PNG_ERROR_ACTION_NONE, -1, -1);
    if (alpha && channels < 4) png_set_strip_alpha(png);
    if (!alpha && channels == 4) png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return png_get_rowbytes(png, info) ==
               static_cast<std::size_t>(width) * static_cast<unsigned>(channels) &&
           png_get_bit_depth(png, info) == 8;
  }

  bool try_rows(std::byte* to) {
    if (setjmp(png_jmpbuf(png))) return false;
    const std::size_t row = static_cast<std::size_t>(width) * static_cast<unsigned>(channels);
    for (int pass = 0; pass < passes; ++pass)
      for (std::int64_t y = 0; y < height; ++y)
        png_read_row(png, reinterpret_cast<png_byte*>(to) + static_cast<std::size_t>(y) * row,
                     nullptr);
    png_read_end(png, nullptr);
    return true;
  }
};

PngReader::PngReader(File& file, int channels, std::int64_t most_pixels)
    : state_(std::make_unique<State>(file, channels)) {
  State& s = *state_;
  file.seek(0);
  if (!s.try_create() || !s.try_header(most_pixels)) s.refuse();
  if (s.width < 0)
    refuse(file.path(), fmt::format("a picture of {} by {}; at most {} pixels are read", -s.width,
                                    s.height, most_pixels));
}
PngReader::~PngReader() = default;

std::int64_t PngReader::height() const { return state_->height; }
std::int64_t PngReader::width() const { return state_->width; }
int PngReader::channels() const { return state_->channels; }

void PngReader::read(std::span<std::byte> to) {
  if (state_->passes > 1) std::memset(to.data(), 0, to.size());
  if (!state_->try_rows(to.data())) state_->refuse();
}

bool is_png(std::span<const std::byte> front) {
  return front.size() >= 8 &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(front.data()), 0, 8) == 0;
}

}  // namespace ebb::io
