// The front of a .safetensors file: eight bytes that say how long the header is, and the header, a
// JSON object that gives each tensor's dtype, shape and place. Their bytes follow without gaps. Many
// tools read such files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/tensor/spec.hpp"

namespace ebb {

struct StoredTensor {
  std::string name;
  Spec spec;
  std::uint64_t offset = 0;  // from the first byte of the data
};

struct Safetensors {
  std::vector<StoredTensor> tensors;            // in the order of their bytes
  std::map<std::string, std::string> metadata;  // what else the header says
  std::uint64_t data = 0;                       // where in the file the data begins
};

// How such files write a dtype: "F32", "BF16", …
const char* safetensors_type(DType dtype);
DType safetensors_dtype(std::string_view name);  // an Error where there is none of that name

// The front of a file with these tensors, whose offsets and `data` are set to what they will be.
std::string safetensors_front(Safetensors& file);

// Reads and checks the front: what it says fits the file to the byte, or a FileError says what does
// not. `text`, where given, is the front as it is. `known`: the bytes of a front that the caller has room
// for, as it saves such files; a longer one is counted at the memory seam.
Safetensors read_safetensors_front(File& file, std::string* text = nullptr,
                                   std::uint64_t known = 0);

}  // namespace ebb
