#include "ebb/dist/identity.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/kernels/checksum.hpp"

namespace ebb::dist {
namespace {

struct Object {
  std::string path;      // "": the program
  std::string build_id;  // in hex; "": it has none
};

std::string id_in(const char* notes, std::size_t bytes) {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t name = (note.n_namesz + 3) / 4 * 4, content = (note.n_descsz + 3) / 4 * 4;
    const std::size_t all = sizeof note + name + content;
    if (all > bytes) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes + sizeof note, "GNU", 4) == 0) {
      std::string hex;
      for (std::size_t i = 0; i < note.n_descsz; ++i)
        hex += fmt::format("{:02x}", static_cast<unsigned char>(notes[sizeof note + name + i]));
      return hex;
    }
    notes += all;
    bytes -= all;
  }
  return "";
}

// The program, and libebb.so.
std::vector<Object> objects() {
  std::vector<Object> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        auto& all = *static_cast<std::vector<Object>*>(to);
        const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
        if (!all.empty() && path.find("/libebb.so") == std::string_view::npos) return 0;
        Object object{std::string(all.empty() ? "" : path), ""};
        for (int i = 0; i < info->dlpi_phnum && object.build_id.empty(); ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type == PT_NOTE)
            object.build_id =
                id_in(reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr), part.p_memsz);
        }
        all.push_back(std::move(object));
        return 0;
      },
      &found);
  return found;
}

std::string checksum_of(const std::string& path) {
  constexpr std::size_t kPiece = 256 << 10;
  File file = File::open(path);
  const memory::Buffer piece(kPiece, "checksum of the program", Category::data);
  std::uint64_t sum = 0, length = 0;
  while (const std::size_t got = file.read_some({piece.data(), piece.size()})) {
    sum = kernels::checksum(piece.data(), got, sum);
    length += got;
  }
  return fmt::format("{} bytes, {:016x}", length, sum);
}

}  // namespace

std::string version() { return EBB_VERSION; }

std::string byte_order() {
  return std::endian::native == std::endian::little ? "little-endian" : "big-endian";
}

std::string program() {
  std::string text;
  for (const Object& o : objects()) {
    if (!text.empty()) text += ", libebb.so ";
    text +=
        o.build_id.empty() ? checksum_of(o.path.empty() ? "/proc/self/exe" : o.path) : o.build_id;
  }
  return text;
}

}  // namespace ebb::dist
