#include "data/files.hpp"

#include <fmt/format.h>
#include <png.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "ebb/base/files/file.hpp"

namespace ebb::input {
namespace {

// Rows of `text`, over and over.
void write_rows(const std::string& path, const std::string& head, const std::string& text,
                std::uint64_t bytes) {
  File file = File::create(path);
  file.write(head);
  for (std::uint64_t done = 0; done < bytes; done += text.size()) file.write(text);
}

}  // namespace

Folder::Folder() {
  std::string name = temporary_folder() + "/ebb-input-XXXXXX";
  path_ = ::mkdtemp(name.data());
}
Folder::~Folder() { std::filesystem::remove_all(path_); }

void write_csv(const std::string& path, std::uint64_t bytes) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> number(-1, 1);
  std::string head, text;
  for (int i = 0; i < 20; ++i) head += fmt::format("f{},", i);
  for (int row = 0; row < 10'000; ++row) {
    for (int i = 0; i < 20; ++i) text += fmt::format("{:.6f},", number(random));
    text += row % 3 ? "cat\n" : "dog\n";
  }
  write_rows(path, head + "kind\n", text, bytes);
}

void write_jsonl(const std::string& path, std::uint64_t bytes) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> number(-1, 1);
  std::string text;
  for (int row = 0; row < 10'000; ++row) {
    text += "{\"x\": [";
    for (int i = 0; i < 16; ++i) text += fmt::format("{}{:.6f}", i ? ", " : "", number(random));
    text += "], \"ids\": [";
    for (std::uint64_t i = 0, end = 5 + random() % 35; i < end; ++i)
      text += fmt::format("{}{}", i ? ", " : "", random() % 50'000);
    text += fmt::format("], \"label\": \"{}\"}}\n", row % 3 ? "cat" : "dog");
  }
  write_rows(path, "", text, bytes);
}

void write_classes_csv(const std::string& path, std::int64_t rows, std::int64_t columns) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> number(-1, 1);
  File file = File::create(path);
  std::string text;
  for (std::int64_t i = 0; i < columns; ++i) text += fmt::format("x{},", i);
  text += "y\n";
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) text += fmt::format("{:.4f},", number(random));
    text += fmt::format("c{}\n", row % 10);
    if (text.size() > 1 << 20 || row + 1 == rows) file.write(std::exchange(text, {}));
  }
}

void write_classes_jsonl(const std::string& path, std::int64_t rows, std::int64_t columns) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> number(-1, 1);
  File file = File::create(path);
  std::string text;
  for (std::int64_t row = 0; row < rows; ++row) {
    text += "{\"x\": [";
    for (std::int64_t i = 0; i < columns; ++i)
      text += fmt::format("{}{:.4f}", i ? ", " : "", number(random));
    text += fmt::format("], \"y\": \"c{}\"}}\n", row % 10);
    if (text.size() > 1 << 20 || row + 1 == rows) file.write(std::exchange(text, {}));
  }
}

void write_short_jsonl(const std::string& path, std::int64_t rows) {
  std::string text;
  for (int row = 0; row < 1000; ++row) text += fmt::format("{{\"y\": {}}}\n", row);
  File file = File::create(path);
  for (std::int64_t done = 0; done < rows; done += 1000) file.write(text);
}

void write_pictures(const std::string& folder, int count, int side) {
  std::mt19937 random(1);
  std::vector<png_byte> pixels(static_cast<std::size_t>(side * side) * 3);
  for (const char* name : {"cat", "dog"}) std::filesystem::create_directories(folder + "/" + name);
  for (int i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < pixels.size(); ++k)  // slopes with some noise
      pixels[k] = static_cast<png_byte>(k / 97 + static_cast<std::size_t>(i) + random() % 8);
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = image.height = static_cast<png_uint_32>(side);
    image.format = PNG_FORMAT_RGB;
    const std::string path = fmt::format("{}/{}/{}.png", folder, i % 2 ? "cat" : "dog", i);
    if (!png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr)) std::abort();
  }
}

void read_through(const std::string& path) {
  File file = File::open(path);
  std::vector<std::byte> piece(1 << 20);
  while (file.read_some(piece)) {
  }
}

}  // namespace ebb::input
