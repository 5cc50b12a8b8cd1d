// A 64-bit checksum, as fast as memory: to find bytes that a disk or a stray write has changed.
// It is no defence against someone who means to deceive.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

// Depends on every byte, its position, the length and the seed; not on the width of vectors.
std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace ebb::kernels
