#include "ebb/io/image/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/io/bytes/pieces.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/image/png.hpp"

namespace ebb {
namespace {

using io::refuse;

// P5 and P6: "P6 width height largest", one white space, samples of one byte, or two from 256 on.
class PnmReader {
 public:
  PnmReader(File& file, ImageOptions options) : file_(file) {
    file.seek(0);
    std::array<std::byte, 512> front{};
    const std::size_t found = read_up_to(file, front);
    front_.assign(reinterpret_cast<const char*>(front.data()), found);
    in_file_ = front_[1] == '6' ? 3 : 1;
    at_ = 2;
    width_ = number("a width");
    height_ = number("a height");
    largest_ = number("a largest value");
    if (at_ == front_.size() || !is_space(front_[at_]))
      wrong("a white space in front of the pixels");
    ++at_;
    if (largest_ < 1 || largest_ > 65535) wrong("a largest value from 1 to 65535");
    if (width_ < 1 || height_ < 1 || width_ > options.most_pixels / height_)
      refuse(file.path(), fmt::format("a picture of {} by {}; from 1 to {} pixels are read", width_,
                                      height_, options.most_pixels));
    channels_ = options.channels ? options.channels : in_file_;
    const std::uint64_t bytes = at_ + pixels() * static_cast<unsigned>(in_file_) * sample_bytes();
    if (file.size() != bytes)
      refuse(file.path(),
             fmt::format("{} by {} pixels need a file of {} bytes, and this one has {}; the "
                         "file is cut short, or followed by something else",
                         width_, height_, bytes, file.size()));
  }

  Spec spec() const { return {{height_, width_, channels_}, DType::u8}; }

  void read(std::span<std::byte> to) {
    const auto from_channels = static_cast<std::size_t>(in_file_), width = sample_bytes();
    const std::size_t row = static_cast<std::size_t>(width_) * from_channels * width;
    const memory::Buffer line(row, "ppm", Category::data);
    file_.seek(at_);
    for (std::int64_t y = 0; y < height_; ++y) {
      file_.read({line.data(), row});
      for (std::size_t x = 0; x < static_cast<std::size_t>(width_); ++x) {
        unsigned value[3];
        for (std::size_t c = 0; c < from_channels; ++c)
          value[c] = sample(line.data() + (x * from_channels + c) * width);
        to = put(value, to);
      }
    }
  }

 private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  std::size_t sample_bytes() const { return largest_ > 255 ? 2 : 1; }
  std::uint64_t pixels() const { return static_cast<std::uint64_t>(width_ * height_); }
  [[noreturn]] void wrong(std::string_view expected) const {
    refuse(file_.path(),
           fmt::format("its header is malformed at byte {}: expected {}", at_, expected));
  }
  std::int64_t number(std::string_view what) {
    for (;; ++at_) {  // white space, and comments to the end of a line
      if (at_ < front_.size() && front_[at_] == '#')
        at_ = std::min(front_.find('\n', at_), front_.size());
      if (at_ >= front_.size() || !is_space(front_[at_])) break;
    }
    std::int64_t n = 0;
    const std::size_t first = at_;
    for (; at_ < front_.size() && front_[at_] >= '0' && front_[at_] <= '9' && n < 1'000'000'000;
         ++at_)
      n = n * 10 + (front_[at_] - '0');
    if (at_ == first) wrong(what);
    return n;
  }
  unsigned sample(const std::byte* p) const {
    unsigned v = std::to_integer<unsigned>(p[0]);
    if (largest_ > 255) v = v << 8 | std::to_integer<unsigned>(p[1]);
    const auto largest = static_cast<unsigned>(largest_);
    if (v > largest)
      refuse(file_.path(), fmt::format("a sample of {}, above its largest, {}", v, largest));
    return largest == 255 ? v : (v * 255 + largest / 2) / largest;
  }
  std::span<std::byte> put(const unsigned (&v)[3], std::span<std::byte> to) const {
    const bool gray = in_file_ == 1;
    // As libpng weighs them, in parts of 32768.
    const unsigned light = gray ? v[0] : (6968 * v[0] + 23434 * v[1] + 2366 * v[2] + 16384) >> 15;
    for (int c = 0; c < channels_; ++c) {
      const unsigned value = c == 3 ? 255 : channels_ == 1 ? light : gray ? v[0] : v[c];
      to[static_cast<std::size_t>(c)] = static_cast<std::byte>(value);
    }
    return to.subspan(static_cast<std::size_t>(channels_));
  }

  File& file_;
  std::string front_;
  std::size_t at_ = 0;
  int in_file_ = 1, channels_ = 1;
  std::int64_t width_ = 0, height_ = 0, largest_ = 0;
};

// Calls `use` with the spec of a picture and what reads it.
void open_image(
    const std::string& path, ImageOptions options,
    const std::function<void(const Spec&, const std::function<void(std::span<std::byte>)>&)>& use) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3 &&
      options.channels != 4)
    throw Error(
        fmt::format("load_image: {} channels; expected 1, 3 or 4, or 0 for those of the file",
                    options.channels));
  File file = File::open(path);
  std::array<std::byte, 8> front{};
  const std::size_t found = read_up_to(file, front);
  if (io::is_png(front)) {
    io::PngReader png(file, options.channels, options.most_pixels);
    const Spec spec{{png.height(), png.width(), png.channels()}, DType::u8};
    return use(spec, [&](std::span<std::byte> to) { png.read(to); });
  }
  if (found < 8 || front[0] != std::byte{'P'} ||
      (front[1] != std::byte{'5'} && front[1] != std::byte{'6'}))
    refuse(path, "it is no picture that Ebb reads; expected PNG, or PPM or PGM of bytes (P6, P5)");
  PnmReader pnm(file, options);
  use(pnm.spec(), [&](std::span<std::byte> to) { pnm.read(to); });
}

}  // namespace

Tensor load_image(const std::string& path, ImageOptions options) {
  Tensor out;
  open_image(path, options, [&](const Spec& spec, const auto& read) {
    out = Tensor::uninitialized(spec, "load_image", Category::data);
    read({out.bytes(), spec.bytes()});
  });
  return out;
}

Spec image_spec(const std::string& path, ImageOptions options) {
  Spec out;
  open_image(path, options, [&](const Spec& spec, const auto&) { out = spec; });
  return out;
}

void load_image(const std::string& path, ImageOptions options, const Spec& expected,
                std::span<std::byte> to) {
  open_image(path, options, [&](const Spec& spec, const auto& read) {
    if (spec != expected)
      refuse(path,
             fmt::format("it is {} (height, width, channels), and the pictures before it are {}; "
                         "make all of one size",
                         to_string(spec), to_string(expected)));
    read(to);
  });
}

}  // namespace ebb
