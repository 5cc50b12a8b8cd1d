#include "ebb/text/utf8_stream.hpp"

#include <cstdint>

namespace ebb::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  int length;              // bytes of a character that begins so; 0: none does
  std::uint8_t low, high;  // between which its second byte is
};

// Too long forms, surrogates and what is beyond U+10FFFF have no valid second byte.
Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes at the front belong to one character, or could begin one.
std::size_t valid_front(std::string_view text, const Lead& lead) {
  std::size_t n = 1;
  for (; n < text.size() && n < static_cast<std::size_t>(lead.length); ++n) {
    const auto byte = static_cast<std::uint8_t>(text[n]);
    const bool fits = n == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0) == 0x80;
    if (!fits) break;
  }
  return n;
}

}  // namespace

std::string Utf8Stream::put(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Lead lead = lead_of(static_cast<std::uint8_t>(rest[0]));
    const std::size_t front = valid_front(rest, lead);
    if (front == static_cast<std::size_t>(lead.length)) {
      out += rest.substr(0, front);
    } else if (lead.length > 0 && front == rest.size()) {
      break;  // it may go on
    } else {
      out += kReplacement;
    }
    rest.remove_prefix(front);
  }
  held_ = std::string(rest);
  return out;
}

std::string Utf8Stream::finish() {
  const bool some = !held_.empty();
  held_.clear();
  return some ? std::string(kReplacement) : std::string();
}

}  // namespace ebb::text
