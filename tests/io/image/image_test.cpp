#include "ebb/io/image/image.hpp"

#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "tests/answers.hpp"
#include "tests/io/folder.hpp"
#include "tests/io/image/png_bytes.hpp"
#include "tests/memory_refusals.hpp"

namespace ebb {
namespace {

using test::error_of;
using test::Png;
using test::png_of;
using Bytes = std::vector<std::uint8_t>;

class ImageTest : public test::InFolder {
 protected:
  Tensor load(const std::string& content, int channels = 0) {
    return load_image(put("a", content), {.channels = channels});
  }
  Bytes bytes(const std::string& content, int channels = 0) {
    return load(content, channels).to_vector<std::uint8_t>();
  }
  std::string refused(const std::string& content, ImageOptions options = {}) {
    const std::string line = error_of([&] { load_image(put("a", content), options); });
    EXPECT_HAS(line, path("a"));
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
};

TEST_F(ImageTest, EveryKindOfPngIsBytes) {
  const Png gray{.width = 3, .height = 2, .rows = {0, 100, 255, 7, 8, 9}};
  EXPECT_EQ(load(png_of(gray)).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(bytes(png_of(gray)), (Bytes{0, 100, 255, 7, 8, 9}));
  EXPECT_EQ(bytes(png_of({.width = 1, .rows = {50}}), 3), (Bytes{50, 50, 50}));
  EXPECT_EQ(bytes(png_of({.width = 1, .rows = {50}}), 4), (Bytes{50, 50, 50, 255}));
  const Png rgb{.colour = PNG_COLOR_TYPE_RGB, .rows = {1, 2, 3}};
  EXPECT_EQ(bytes(png_of(rgb)), (Bytes{1, 2, 3}));
  EXPECT_EQ(bytes(png_of(rgb), 4), (Bytes{1, 2, 3, 255}));
  EXPECT_EQ(bytes(png_of({.colour = PNG_COLOR_TYPE_RGB, .rows = {80, 80, 80}}), 1), (Bytes{80}));
  const Png rgba{.colour = PNG_COLOR_TYPE_RGB_ALPHA, .rows = {1, 2, 3, 4}};
  EXPECT_EQ(bytes(png_of(rgba)), (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(bytes(png_of(rgba), 3), (Bytes{1, 2, 3}));
  EXPECT_EQ(bytes(png_of({.colour = PNG_COLOR_TYPE_GRAY_ALPHA, .rows = {9, 128}})),
            (Bytes{9, 9, 9, 128}));
  EXPECT_EQ(bytes(png_of({.bits = 16, .rows = {0x80, 0x00}})), (Bytes{128}));
  EXPECT_EQ(bytes(png_of({.bits = 16, .rows = {0x00, 0xff}})), (Bytes{1}))
      << "rounded, not cut off";
  EXPECT_EQ(bytes(png_of({.width = 4, .bits = 1, .rows = {0xa0}})), (Bytes{255, 0, 255, 0}));
  Png palette{.width = 2,
              .colour = PNG_COLOR_TYPE_PALETTE,
              .rows = {1, 0},
              .palette = {{1, 2, 3}, {4, 5, 6}}};
  EXPECT_EQ(bytes(png_of(palette)), (Bytes{4, 5, 6, 1, 2, 3}));
  palette.clear = {7};
  EXPECT_EQ(bytes(png_of(palette)), (Bytes{4, 5, 6, 255, 1, 2, 3, 7}));
  Png large{.width = 33, .height = 19, .rows = Bytes(33 * 19)};
  for (std::size_t i = 0; i < large.rows.size(); ++i) large.rows[i] = static_cast<std::uint8_t>(i);
  const Bytes plain = bytes(png_of(large));
  large.interlaced = true;
  EXPECT_EQ(bytes(png_of(large)), plain);
}

TEST_F(ImageTest, PpmAndPgm) {
  EXPECT_EQ(bytes("P5 2 1 255\nab"), (Bytes{'a', 'b'}));
  EXPECT_EQ(bytes("P5 2 1 255\nab", 3), (Bytes{'a', 'a', 'a', 'b', 'b', 'b'}));
  EXPECT_EQ(bytes("P6\n# a comment\n1 2\n255\nabcdef"), (Bytes{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(load("P6 1 2 255\nabcdef").shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(bytes(std::string("P5 2 1 1\n\0\1", 11)), (Bytes{0, 255}));
  EXPECT_EQ(bytes(std::string("P5 1 1 65535\n\x80\0", 15)), (Bytes{128}));
  test::expect_parts([&](const char* content) { return refused(content); },
                     {
                         {"P5 2 1 255\na", "need a file of 13 bytes, and this one has 12"},
                         {"P5 2 1 255\nabc", "followed by something else"},
                         {"P5 2 x 255\nab", "malformed at byte 5: expected a height"},
                         {"P5 0 1 255\nab", "a picture of 0 by 1"},
                         {"P5 999999999 999999999 255\n", "pixels are read"},
                         {"P5 99999999999999999999 1 255\n", "pixels are read"},
                         {"P5 1 1 70000\nab", "from 1 to 65535"},
                         {"P5 1 1 9\nz", "a sample of 122, above its largest, 9"},
                         {"P3 1 1 255 1 2 3", "no picture that Ebb reads"},
                     });
}

TEST_F(ImageTest, WhatIsNoPictureIsRefused) {
  const std::string good = png_of({.width = 5, .height = 4});
  EXPECT_HAS(refused(""), "no picture that Ebb reads");
  EXPECT_HAS(refused(good.substr(0, good.size() / 2)), "no whole PNG picture");
  EXPECT_HAS(refused(good, {.most_pixels = 19}), "a picture of 5 by 4; at most 19 pixels");
  EXPECT_HAS(error_of([&] { load(good, 2); }), "2 channels; expected 1, 3 or 4");
  std::string huge = good;
  huge[16] = huge[20] = '\x7f';  // a width and a height beyond any picture
  EXPECT_HAS(refused(huge), "no whole PNG picture");
  EXPECT_EQ(image_spec(put("a", good)), (Spec{{4, 5, 1}, DType::u8}));
  Bytes to(20);
  const Spec other{{4, 4, 1}, DType::u8};
  EXPECT_HAS(
      error_of([&] { load_image(path("a"), {}, other, std::as_writable_bytes(std::span(to))); }),
      "it is u8(4, 5, 1) (height, width, channels), and the pictures before it are u8(4, 4, 1)");
}

// libpng leaves by longjmp: nothing is lost, whatever fails.
TEST_F(ImageTest, FaultsOfFilesAndMemoryAreErrors) {
  put("a", png_of({.width = 40, .height = 30, .colour = PNG_COLOR_TYPE_RGB, .interlaced = true}));
  const auto live = ledger::total().live;
  EXPECT_GT(test::memory_refusals(100, [&] { (void)load_image(path("a")); }), 3);
  int failures = 0;
  for (std::uint64_t n = 1; n < 100; ++n) {
    const file_faults::Guard guard;
    file_faults::fail_read(n, file_faults::Fault::eio);
    const std::string line = error_of([&] { (void)load_image(path("a")); });
    EXPECT_EQ(ledger::total().live, live);
    if (line == "no error") break;
    EXPECT_HAS(line, path("a"));
    ++failures;
  }
  EXPECT_GT(failures, 1);
}

}  // namespace
}  // namespace ebb
