#include "ebb/io/array/safetensors.hpp"

#include "tests/fuzz/fuzz.hpp"

void read_file_of(const std::string& path) {
  ebb::File file = ebb::File::open(path);
  const ebb::Safetensors front = ebb::read_safetensors_front(file);
  for (const ebb::StoredTensor& t : front.tensors)
    if (front.data + t.offset + t.spec.bytes() > file.size()) std::abort();
}
