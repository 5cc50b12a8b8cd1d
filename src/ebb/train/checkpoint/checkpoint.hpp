// A training run in a directory, and back, to the bit.
//
//   train::save("run/now", {.step = 1200}, model, adam, ema, walk);
//   …
//   const train::CheckpointInfo at = train::load("run/now", model, adam, ema);     // in a new process
//   for (const Batch& b : data.epochs(10, data::Position::parse(at.position))) …    // the same bits from here on
//
// Parts are those of ebb::save (ebb/optim/save.hpp). In the directory are
//
//   model.safetensors   what each() lists: weights and running statistics
//   state.safetensors   what state() lists: optimizers, averages, counters; and where random draws stand
//   manifest.json       the info below; of every tensor its dtype, shape and checksum (manifest.hpp)
//
// Saving writes beside, and puts the directory in place in one step when all of it is on the disk: a process
// that is killed, a full disk or a power cut leaves the old one or the new one, whole. Loading checks all of it
// to the last byte before it changes anything; then every variable has its new value, or an error names what is
// damaged or does not fit, and none has. Both move at most 1 MiB at a time, in the budget.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ebb/optim/save.hpp"

namespace ebb::train {

struct CheckpointInfo {
  std::int64_t step = 0;      // of the optimizer: so many are done
  std::int64_t epoch = 0;     // so many are done
  std::string position = {};  // of the data, as text; that of a walk among the parts where empty
  std::string metric = {};    // the name of what is measured, such as "validation loss",
  std::optional<double> value = {};  // what it is for this checkpoint, where it was measured,
  std::optional<double> best = {};   // and the best of the run so far
  std::map<std::string, std::string> extra =
      {};  // whatever else a later run wants: config, names of files

  bool operator==(const CheckpointInfo&) const = default;
};

// What parts come to. A walk over data is one that has a position and no variables; it can be saved.
struct CheckpointParts {
  std::vector<std::vector<Variable>> lists;
  std::vector<bool> model;    // which of them go to model.safetensors
  std::string position = {};  // of a walk among them

  template <class... Part>
  static CheckpointParts of(Part&... part) {
    CheckpointParts all;
    (all.add(part), ...);
    return all;
  }
  template <class Part>
  void add(Part& part) {
    if constexpr (requires { std::string(to_string(part.position())); }) {
      position = to_string(part.position());
    } else {
      lists.push_back(optim::part_of(part));
      model.push_back(!requires {
        { part.state() } -> std::same_as<std::vector<Variable>>;
      });
    }
  }
};
void save_parts(const std::string& directory, const CheckpointInfo& info,
                const CheckpointParts& parts);
CheckpointInfo load_parts(const std::string& directory, const CheckpointParts& parts);
CheckpointInfo load_parts_only(const std::string& directory, const CheckpointParts& parts);

// A directory of that name that holds a checkpoint is replaced; one that holds anything else is refused.
template <class... Parts>
void save(const std::string& directory, const CheckpointInfo& info, Parts&&... parts) {
  save_parts(directory, info, CheckpointParts::of(parts...));
}

template <class First, class... Parts>
requires(!std::same_as<std::remove_cvref_t<First>, CheckpointInfo>) void save(
    const std::string& directory, First&& first, Parts&&... parts) {
  save_parts(directory, {}, CheckpointParts::of(first, parts...));
}

// The parts that were saved, all of them and no others, with the same names, dtypes and shapes.
template <class... Parts>
CheckpointInfo load(const std::string& directory, Parts&&... parts) {
  return load_parts(directory, CheckpointParts::of(parts...));
}

// Only these, such as a model for evaluation; random draws stay where they are.
template <class... Parts>
CheckpointInfo load_only(const std::string& directory, Parts&&... parts) {
  return load_parts_only(directory, CheckpointParts::of(parts...));
}

// Reads all of it and throws the FileError that load() would, if it is damaged. Changes nothing.
CheckpointInfo verify(const std::string& directory);

}  // namespace ebb::train
