#include "ebb/data/files/text_stream.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "ebb/base/memory/memory.hpp"
#include "ebb/io/bytes/pieces.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/growing_bytes.hpp"
#include "ebb/io/text/jsonl.hpp"

namespace ebb::data {
namespace {

void each_piece(const std::string& path, const UseText& use) {
  constexpr std::uint64_t kPiece = 64 << 10;
  File file = File::open(path);
  const std::uint64_t size = file.size();
  const memory::Buffer piece(std::min(size, kPiece), "text", Category::data);
  for (std::uint64_t at = 0; at < size; at += piece.size()) {
    const std::span bytes(piece.data(), std::min<std::uint64_t>(piece.size(), size - at));
    read_in_pieces(file, at, bytes);
    use({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

void check_field(const std::string& path, const std::string& field) {
  std::vector<std::string> names;
  for (io::JsonlFirst& f : io::read_jsonl_first(path)) names.push_back(std::move(f.name));
  if (std::find(names.begin(), names.end(), field) == names.end())
    io::refuse_name(path, "field", field, names);
}

}  // namespace

TextStream text_of_files(std::vector<std::string> paths) {
  return [paths = std::move(paths)](const UseText& use) {
    for (const std::string& path : paths) each_piece(path, use);
  };
}

TextStream text_of_field(std::vector<std::string> paths, std::string field) {
  return [paths = std::move(paths), field = std::move(field)](const UseText& use) {
    io::JsonlField text{field, io::JsonKind::text, true, true};
    text.longest = std::numeric_limits<std::int64_t>::max();
    const io::JsonlSchema schema{{text}, 0};
    io::GrowingBytes lines;
    for (const std::string& path : paths) {
      check_field(path, field);
      io::read_jsonl_rows(path, {.fields = {field}}, schema, [&](const io::JsonlRows& rows) {
        lines.clear();
        const std::byte* from = rows.lists[0].data();
        for (const std::uint32_t length : rows.words) {
          std::byte* const to = lines.add(length + 1);
          std::copy_n(from, length, to);
          to[length] = std::byte{'\n'};
          from += length;
        }
        use({reinterpret_cast<const char*>(lines.bytes().data()), lines.size()});
      });
    }
  };
}

File as_file(const TextStream& text) {
  constexpr std::uint64_t kUnwritten = 4 << 20;  // of the page cache, at most
  File file = File::temporary(temporary_folder());
  std::uint64_t bytes = 0, written = 0;
  text([&](std::string_view piece) {
    file.write(piece);
    bytes += piece.size();
    if (bytes - written < kUnwritten) return;
    file.write_back(0, bytes);
    written = bytes;
  });
  file.write_back(0, bytes);
  file.seek(0);
  return file;
}

TextShape shape_of(const TextStream& text) {
  TextShape shape;
  bool seen[256] = {};
  text([&](std::string_view piece) {
    shape.bytes += piece.size();
    for (const char c : piece) seen[static_cast<unsigned char>(c)] = true;
  });
  for (int c = 0; c < 256; ++c)
    if (seen[c]) shape.characters += static_cast<char>(c);
  return shape;
}

}  // namespace ebb::data
