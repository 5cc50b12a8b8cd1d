#include "ebb/text/pieces.hpp"

#include <cstring>

#include "ebb/base/memory/memory.hpp"

namespace ebb::text {
namespace {

constexpr std::size_t kPiece = 256 << 10;  // far more than what use() may leave

}  // namespace

void read_pieces(const std::string& path, const UsePiece& use) {
  read_pieces(File::open(path), use);
}

void read_pieces(File file, const UsePiece& use) {
  const memory::Buffer buffer(kPiece, "read_pieces", Category::data);
  std::size_t held = 0;
  std::uint64_t done = 0;
  for (bool goes_on = true; goes_on;) {
    const std::size_t read = file.read_some({buffer.data() + held, buffer.size() - held});
    goes_on = read > 0;
    held += read;
    done += read;
    file.drop_cached(0, done / 4096 * 4096);
    const std::size_t used = use({reinterpret_cast<const char*>(buffer.data()), held}, goes_on);
    held -= used;
    std::memmove(buffer.data(), buffer.data() + used, held);
  }
}

}  // namespace ebb::text
