// Variables whose bytes live in a spill file between their uses, beside the activations that a plan spills.
// They stay readable there for as long as anybody holds them, also when the executor is gone.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "ebb/exec/spill/spill_file.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::exec {

class SpilledVariables final : public Variable::Backing,
                               public std::enable_shared_from_this<SpilledVariables> {
 public:
  // Slots 0 … of the file are the variables', the rest the activations'.
  SpilledVariables(const SpillOptions& options, std::vector<Variable> variables,
                   std::span<const std::uint64_t> activation_bytes);

  static std::vector<SpillSlot> slots(std::span<const Variable> variables,
                                      std::span<const std::uint64_t> activation_bytes);

  // What has a value goes into the file, chunk by chunk; this backs the variables from then on. The file
  // makes what they begin with when it is read: gigabytes of it need not be written first.
  void fill();
  // Before a step: what the program has written since goes to the file, and what another file keeps by
  // now, such as that of a plan for another shape, is taken over. `through`: memory to use for that.
  void refresh(std::span<std::byte> through);
  // After the last step: variables hold this, which holds them no longer and ends with them.
  void let_go() { variables_.clear(); }
  SpillFile& file() { return *file_; }
  int slot_of(const Variable& variable) const { return slots_.at(variable.id()); }
  int activation_slot(int index) const { return static_cast<int>(slots_.size()) + index; }
  const std::vector<Variable>& variables() const { return variables_; }

  void read(const Variable& variable, std::span<std::byte> to, std::uint64_t offset) override;
  void written(const Variable& variable) override;
  void write(const Variable& variable, std::span<const std::byte> from,
             std::uint64_t offset) override;
  void commit() override { file_->commit(); }
  void rollback() noexcept override;

 private:
  std::vector<Variable> variables_;
  std::map<std::uint64_t, int> slots_;  // by a variable's id
  std::vector<bool> dirty_;             // of a variable in memory: the file does not have it yet
  std::unique_ptr<SpillFile> file_;
};

}  // namespace ebb::exec
