// The text in front of an .npy file's data: a Python dict literal that names dtype, order and
// shape.
#pragma once

#include <string>
#include <string_view>

#include "ebb/tensor/spec.hpp"

namespace ebb {

struct NpyHeader {
  Spec spec;
  bool fortran_order = false;  // the first axis runs fastest
  bool swapped = false;        // the bytes of an element are in the other order than this machine's
};

// The dict, its padding and its newline. Throws an Error that says what is wrong, without the path.
NpyHeader parse_npy_header(std::string_view text);

// All that stands in front of the data: magic, version 1.0, length, dict, padding to 64 bytes.
std::string npy_preamble(const Spec& spec);

}  // namespace ebb
