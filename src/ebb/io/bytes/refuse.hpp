// How every reader of io/ says no.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::io {

// A FileError: cannot load "path": why
[[noreturn]] void refuse(const std::string& path, std::string_view why);
// … with the line of a text file, counted from 1: cannot load "path", line 7: why
[[noreturn]] void refuse(const std::string& path, std::uint64_t line, std::string_view why);

// A name that is not in the file, with the nearest and those there are: what = "column".
[[noreturn]] void refuse_name(const std::string& path, std::string_view what, std::string_view name,
                              const std::vector<std::string>& names);

// Text of a file, made safe for a message of one line and not too long.
std::string shown(std::string_view text);

}  // namespace ebb::io
