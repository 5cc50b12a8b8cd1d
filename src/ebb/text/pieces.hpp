// A text file, or a pipe, in pieces of bounded memory that leave the page cache again.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "ebb/base/files/file.hpp"

namespace ebb::text {

// Calls use(text, goes_on), which gives how many bytes of the text it has used: what is left comes again
// before what follows. `goes_on` is false for the last piece, all of which counts as used.
using UsePiece = std::function<std::size_t(std::string_view text, bool goes_on)>;
void read_pieces(const std::string& path, const UsePiece& use);
void read_pieces(File file, const UsePiece& use);  // from where it is

}  // namespace ebb::text
