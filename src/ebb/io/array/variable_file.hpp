// The bytes of variables to and from .safetensors files, a chunk of at most 1 MiB at a time, wherever they lie:
// what a model is saved and loaded with, in little memory whatever its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb {

struct NamedVariable {
  std::string name;  // in the file
  Variable variable;
};

// A chunk to move them through: no more than the largest of them has, so that little is enough for a little
// one, and less than 1 MiB where there is not so much room. But for a tensor's last chunk, whole pieces.
memory::Buffer chunk_for(std::span<const NamedVariable> all, const char* site);
memory::Buffer chunk_for(std::size_t largest, const char* site);
inline constexpr std::size_t kPiece = InitialValue::kChunk * sizeof(double);

// Pages of a file that is gone through once leave the cache as it goes: they are memory, too. Those that are
// written are on their way to the disk while the next ones are made.
class PassingPages {
 public:
  PassingPages(File& file, bool written) : file_(file), written_(written) {}
  void reached(std::uint64_t position);
  void end(std::uint64_t position);  // all of them

 private:
  void leave(std::uint64_t to);
  File& file_;
  bool written_;
  std::uint64_t begun_ = 0, done_ = 0;
};

// Each tensor by its number, and the next bytes of it.
using Chunks = std::function<void(std::size_t tensor, std::span<const std::byte> bytes)>;

Safetensors layout_of(std::span<const NamedVariable> all);

// From the file's position on, which is where the data begins: what safetensors_front says of these.
void write_variables(File& file, std::span<const NamedVariable> all, std::span<std::byte> chunk,
                     const Chunks& passed);

// Those of its tensors that are wanted, in the order of their bytes.
void read_tensors(File& file, const Safetensors& front, std::span<std::byte> chunk,
                  const std::function<bool(std::size_t tensor)>& wanted, const Chunks& passed);

}  // namespace ebb
