#include "ebb/train/build/fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/files/folder.hpp"
#include "ebb/train/checkpoint/xxh3.hpp"

namespace ebb::train {
namespace {

constexpr std::size_t kPiece = 16 << 10;
constexpr int kDeepest = 16;  // folders in folders

// A file is read whole up to a size, which takes a tenth of a second; of a larger one both ends and pieces at
// equal distances in between, so that what is changed over that distance is seen.
struct Sampling {
  std::uint64_t whole, end, pieces;
};
constexpr Sampling kOfAFile{256 << 20, 1 << 20, 4096};
constexpr Sampling kOfAFolder{1 << 20, 64 << 10, 16};  // each of its files

void add_number(Xxh3& sum, std::uint64_t number) { sum.add(fmt::format("{};", number)); }

void add_piece(Xxh3& sum, File& file, std::uint64_t offset, std::uint64_t bytes) {
  std::array<std::byte, kPiece> piece;
  while (bytes > 0) {
    const auto some = std::span(piece).first(std::min<std::uint64_t>(bytes, kPiece));
    file.read_at(offset, some);
    sum.add(some);
    offset += some.size();
    bytes -= some.size();
  }
}

// Both ends, and pieces at equal distances in between; all of it where it is short.
std::uint64_t add_file(Xxh3& sum, const std::string& path, const Sampling& how) {
  File file = File::open(path);
  const std::uint64_t size = file.size();
  add_number(sum, size);
  if (size <= how.whole) {
    add_piece(sum, file, 0, size);
    return size;
  }
  add_piece(sum, file, 0, how.end);
  const std::uint64_t between = size - 2 * how.end - kPiece;
  for (std::uint64_t i = 1; i <= how.pieces; ++i)
    add_piece(sum, file, how.end + between / (how.pieces + 1) * i, kPiece);
  add_piece(sum, file, size - how.end, how.end);
  return size;
}

void list_files(const std::string& folder, int depth, std::vector<std::string>& to) {
  for (const std::string& name : names_in(folder)) {
    const std::string path = folder + "/" + name;
    const PathKind kind = kind_of(path);
    if (kind == PathKind::file) to.push_back(path);
    if (kind == PathKind::folder && depth < kDeepest) list_files(path, depth + 1, to);
  }
}

std::string of_folder(const std::string& folder) {
  std::vector<std::string> files;
  list_files(folder, 0, files);
  Xxh3 sum;
  std::uint64_t bytes = 0;
  for (const std::string& file : files) {
    sum.add(file.substr(folder.size()));
    bytes += add_file(sum, file, kOfAFolder);
  }
  return fmt::format("{} files, {} bytes, xxh3 {}", files.size(), bytes, digits(sum.sum()));
}

}  // namespace

std::string fingerprint(const std::string& path) {
  if (kind_of(path) == PathKind::folder) return of_folder(path);
  Xxh3 sum;
  const std::uint64_t bytes = add_file(sum, path, kOfAFile);
  return fmt::format("{} bytes, xxh3 {}", bytes, digits(sum.sum()));
}

}  // namespace ebb::train
