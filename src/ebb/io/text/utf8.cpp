#include "ebb/io/text/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace ebb::io {
namespace {

using Byte = unsigned char;

// Bytes of the character at `p`, 0 where there is none: no overlong forms, no surrogates, no NUL.
std::size_t character(const Byte* p, const Byte* end) {
  const auto tail = [&](std::size_t i) { return p + i < end && (p[i] & 0xc0) == 0x80; };
  const Byte c = p[0];
  if (c < 0x80) return c != 0;
  if (c < 0xc2) return 0;
  if (c < 0xe0) return tail(1) ? 2 : 0;
  if (c < 0xf0) {
    if (!tail(1) || !tail(2)) return 0;
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] >= 0xa0)) return 0;
    return 3;
  }
  if (c > 0xf4 || !tail(1) || !tail(2) || !tail(3)) return 0;
  if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] >= 0x90)) return 0;
  return 4;
}

// Plain characters from `p` on, 32 at a time: none is NUL, none has its high bit.
const Byte* skip_plain(const Byte* p, const Byte* end) {
  constexpr std::uint64_t kLow = 0x0101010101010101, kHigh = 0x8080808080808080;
  for (; end - p >= 32; p += 32) {
    std::uint64_t word[4], odd = 0;
    std::memcpy(word, p, 32);
    for (const std::uint64_t w : word) odd |= (w - kLow) | w;  // NUL borrows its high bit
    if (odd & kHigh) break;
  }
  return p;
}

}  // namespace

std::size_t find_not_text(std::string_view text) {
  const auto* const begin = reinterpret_cast<const Byte*>(text.data());
  const Byte* const end = begin + text.size();
  for (const Byte* p = skip_plain(begin, end); p != end;) {
    const Byte* const stop = end - p > 64 ? p + 64 : end;
    while (p < stop) {
      const std::size_t bytes = character(p, end);
      if (bytes == 0) return static_cast<std::size_t>(p - begin);
      p += bytes;
    }
    p = skip_plain(p, end);
  }
  return std::string_view::npos;
}

}  // namespace ebb::io
