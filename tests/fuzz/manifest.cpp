// A manifest from anywhere: read or refused with an Error; and what was read, written again, is read as the same.
// Its own checksum is put right first, or next to nothing would get past it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ebb/base/error.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "ebb/train/checkpoint/xxh3.hpp"

namespace {

using namespace ebb::train;

void read(const std::string& text) {
  Manifest found;
  try {
    found = parse_manifest(text);
  } catch (const ebb::Error& e) {
    if (std::string(e.what()).find('\n') != std::string::npos) std::abort();
    return;
  }
  if (parse_manifest(to_json(found)) != found) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  const std::string before = " \"checksum\": \"";
  const std::size_t at = text.rfind(before);
  if (at != text.npos) {
    text.resize(at + before.size());
    read(text + digits(xxh3(text)) + "\"\n}\n");
  }
  return 0;
}
