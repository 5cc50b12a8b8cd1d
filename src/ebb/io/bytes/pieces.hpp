// A file, or a part of it, read into memory without leaving it in the page cache as well, which else
// is memory of the process's group.
#pragma once

#include <cstdint>
#include <span>

#include "ebb/base/files/file.hpp"

namespace ebb {

// Drops what lies before `end`. From the front: the kernel may hold pages in pieces of up to some MiB,
// as whoever read the file first has made them, and a piece goes only when all of it is named.
void drop_cached_up_to(File& file, std::uint64_t end);

// All of `to`, from `offset` on, in pieces that leave the page cache again.
void read_in_pieces(File& file, std::uint64_t offset, std::span<std::byte> to);

// As many bytes as there are, in as many reads as it takes: less than asked for at the end of the file.
std::size_t read_up_to(File& file, std::span<std::byte> to);

}  // namespace ebb
