#include "ebb/io/bytes/pieces.hpp"

#include <algorithm>

#include "ebb/base/round.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPiece = 1 << 20;

}  // namespace

void drop_cached_up_to(File& file, std::uint64_t end) { file.drop_cached(0, round_up(end, kPage)); }

void read_in_pieces(File& file, std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const std::uint64_t end = (offset + kPiece) / kPage * kPage;
    const std::size_t piece = std::min<std::uint64_t>(to.size(), end - offset);
    file.read_at(offset, to.first(piece));
    offset += piece;
    to = to.subspan(piece);
    drop_cached_up_to(file, offset);
  }
}

std::size_t read_up_to(File& file, std::span<std::byte> to) {
  std::size_t count = 0;
  while (count < to.size()) {
    const std::size_t more = file.read_some(to.subspan(count));
    if (more == 0) break;
    count += more;
  }
  return count;
}

}  // namespace ebb
