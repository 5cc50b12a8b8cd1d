// All of a training run in one file, and back: weights, optimizer state, counts, averages, random
// draws.
//
//   save("run.safetensors", model, adam, ema);
//   …
//   load("run.safetensors", model, adam, ema);     // in a new process: the same bits from here on
//
// A part is a model (whatever has each()), an optimizer, an Ema, a Plateau, a Variable or a list of
// them: whatever names its variables with each() or state(). Where random draws of this thread stand
// is always among it. What the program says in code (layers, rates, schedules, clipping) is not.
//
// Both move 1 MiB at a time, whatever the model's size and wherever its variables lie, so they fit
// into the budget of a compiled step. A file is written beside the old one and put in place when it is
// on the disk. It is checked to the last byte before anything is changed; then every variable has its
// new value, or an error is thrown and none has. (What is in memory is set aside on the disk while it
// is overwritten, in TMPDIR, so that a disk that fails half way costs nothing.)
//
// The file is a plain .safetensors file, with a checksum in its metadata.
#pragma once

#include <concepts>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ebb/nn/params.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb {
namespace optim {

using Parts = std::span<const std::vector<Variable>>;
void save_parts(const std::string& path, Parts parts);
void save_parts_only(const std::string& path, Parts parts,
                     const std::map<std::string, std::string>& metadata);
void load_parts(const std::string& path, Parts parts);
void load_parts_only(const std::string& path, Parts parts);
// Reads all of a file and throws the FileError that load() would, where it is damaged. False: it has no checksum
// that save() has made.
bool verify_saved(const std::string& path);

template <class Part>
std::vector<Variable> part_of(Part& part) {
  if constexpr (requires {
                  { part.state() } -> std::same_as<std::vector<Variable>>;
                }) {
    return part.state();
  } else {
    return variables(part);
  }
}

}  // namespace optim

template <class... Parts>
void save(const std::string& path, Parts&&... parts) {
  const std::vector<Variable> all[] = {optim::part_of(parts)...};
  optim::save_parts(path, all);
}

// A model for others: its variables, no random draws; `metadata` is what else the file says of itself. load_only
// takes it.
template <class Part>
void save_only(const std::string& path, Part&& part,
               const std::map<std::string, std::string>& metadata = {}) {
  const std::vector<Variable> all[] = {optim::part_of(part)};
  optim::save_parts_only(path, all, metadata);
}

// The parts that were saved, all of them and no others, with the same names, dtypes and shapes.
template <class... Parts>
void load(const std::string& path, Parts&&... parts) {
  const std::vector<Variable> all[] = {optim::part_of(parts)...};
  optim::load_parts(path, all);
}

// Only these, from a file that may hold more, such as a model for evaluation; random draws stay where
// they are. Takes any .safetensors file, checked by its sum where it has one of ours.
template <class... Parts>
void load_only(const std::string& path, Parts&&... parts) {
  const std::vector<Variable> all[] = {optim::part_of(parts)...};
  optim::load_parts_only(path, all);
}

}  // namespace ebb
