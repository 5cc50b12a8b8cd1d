// Whether text is UTF-8 without NUL.
#pragma once

#include <cstddef>
#include <string_view>

namespace ebb::io {

// The first byte that is NUL or begins no character of UTF-8; npos: there is none.
std::size_t find_not_text(std::string_view text);

}  // namespace ebb::io
