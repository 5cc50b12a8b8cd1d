// .npy arrays from wherever their bytes come: a file, a member of an archive.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "ebb/io/array/npy_header.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

using ReadBytes = std::function<void(std::span<std::byte>)>;  // all of it, or it throws

struct NpyFront {
  NpyHeader header;
  std::uint64_t bytes = 0;  // in front of the data
};

// What stands in front of the data of an array of `size` bytes in all, which is what it says. `where`
// names it in errors.
NpyFront read_npy_front(const std::string& where, std::uint64_t size, const ReadBytes& read);
Tensor read_npy(const std::string& where, std::uint64_t size, const ReadBytes& read);

// That elements of bool are; `first`: which element `bytes` begin with.
void check_bools(const std::string& where, std::span<const std::byte> bytes, std::uint64_t first);
void swap_bytes(std::byte* data, std::size_t count, std::size_t bytes);  // of each element

std::string npy_preamble_for(const std::string& path,
                             const Spec& spec);  // an Error that names both

}  // namespace ebb
