#include "ebb/exec/compile_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/process.hpp"
#include "ebb/exec/spill/spill_file.hpp"

namespace ebb::exec {
namespace {

void check(const CompileOptions& o) {
  if (o.micro_batch < 0)
    throw Error(fmt::format(
        "compile: .micro_batch is {}; expected 0 (the planner's choice) or more", o.micro_batch));
  if (o.micro_batch > 0 && !o.split)
    throw Error(
        fmt::format("compile: .micro_batch is {}, but .split = false keeps the batch whole; leave "
                    "one of them out",
                    o.micro_batch));
  if (o.allow == Allow::same_bits && o.approximate.activations != DType::f32)
    throw Error(
        fmt::format("compile: .approximate stores activations in {}, which .allow = "
                    "same_bits forbids; leave one of them out",
                    name(o.approximate.activations)));
  if (o.allow == Allow::same_bits && o.independent_micro_batches)
    throw Error(
        "compile: .independent_micro_batches makes another function of the step, which .allow = "
        "same_bits "
        "forbids; leave one of them out");
  if (o.plans < 1) throw Error(fmt::format("compile: .plans is {}; expected 1 or more", o.plans));
  std::error_code failed;
  if (o.spill && !o.spill_directory.empty() &&
      !std::filesystem::is_directory(o.spill_directory, failed))
    throw FileError(
        fmt::format("compile: .spill_directory \"{}\" is no directory; name one that is "
                    "there, or set .spill = false",
                    o.spill_directory));
}

bool frees_nothing(const std::string& directory) {
  try {
    return File::temporary(directory, false).in_memory();
  } catch (const FileError&) {
    return false;  // said when a plan needs it
  }
}

}  // namespace

CompileOptions checked(CompileOptions o) {
  check(o);
  if (!o.spill || !frees_nothing(spill_directory(o.spill_directory))) return o;
  if (!o.spill_directory.empty())
    throw FileError(fmt::format(
        "compile: .spill_directory \"{}\" is on a file system in memory (tmpfs), so that spilling "
        "there frees nothing; name one on a disk, or set .spill = false",
        o.spill_directory));
  o.spill = false;
  return o;
}

std::string resolve_memory(CompileOptions& options) {
  if (!options.memory.automatic) return {};
  const process::Available available = process::available();
  // Nothing left is a budget, too: one that is refused.
  options.memory.bytes = std::max<std::uint64_t>(1, process::safe_budget(available));
  return available.source + ", less 5%";
}

bool has_choices(const CompileOptions& o) {
  return o.memory.bytes || o.recompute || o.split || o.spill;
}

plan::Machine machine_for(const CompileOptions& options) {
  const std::uint64_t asked = options.memory.bytes, there = Budget::now();
  const std::uint64_t budget = asked && there ? std::min(asked, there) : asked + there;
  const std::uint64_t now = process::resident();
  const std::uint64_t room = budget == 0 ? plan::kAmple : budget > now ? budget - now : 0;
  const plan::Machine machine = plan::this_machine(room);
  if (!options.spill) return machine;
  return plan::with_spill_speed(machine, spill_directory(options.spill_directory), room);
}

}  // namespace ebb::exec
