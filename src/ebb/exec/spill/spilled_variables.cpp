#include "ebb/exec/spill/spilled_variables.hpp"

#include <algorithm>

#include "ebb/base/memory/memory.hpp"

namespace ebb::exec {
namespace {

constexpr std::size_t kChunk = std::size_t{64}
                               << 10;    // a multiple of InitialValue::kChunk elements
constexpr std::size_t kMostChunks = 16;  // at once

void copy_in(const Variable& v, SpillFile& file, int slot, std::span<std::byte> through = {}) {
  const std::uint64_t bytes = v.spec().bytes();
  memory::Buffer own;
  if (through.size() < kChunk) {
    own = memory::Buffer(std::min<std::uint64_t>(kChunk, bytes), "spill", Category::workspace);
    through = {own.data(), kChunk};
  }
  const std::uint64_t chunk = std::min(through.size() / kChunk, kMostChunks) * kChunk;
  for (std::uint64_t at = 0; at < bytes; at += chunk) {
    const std::span<std::byte> part(through.data(), std::min<std::uint64_t>(chunk, bytes - at));
    v.read(part, at);
    file.write_now(slot, at, part);
  }
}

}  // namespace

std::vector<SpillSlot> SpilledVariables::slots(std::span<const Variable> variables,
                                               std::span<const std::uint64_t> activation_bytes) {
  std::vector<SpillSlot> all;
  for (const Variable& v : variables)
    all.push_back({v.spec().bytes(), true, v.begins(), size_of(v.spec().dtype)});
  for (const std::uint64_t bytes : activation_bytes) all.push_back({bytes, false});
  return all;
}

SpilledVariables::SpilledVariables(const SpillOptions& options, std::vector<Variable> variables,
                                   std::span<const std::uint64_t> activation_bytes)
    : variables_(std::move(variables)), dirty_(variables_.size(), false) {
  for (std::size_t i = 0; i < variables_.size(); ++i)
    slots_[variables_[i].id()] = static_cast<int>(i);
  file_ = std::make_unique<SpillFile>(options, slots(variables_, activation_bytes));
}

void SpilledVariables::fill() {
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (!variables_[i].begins()) copy_in(variables_[i], *file_, static_cast<int>(i));
  file_->commit();
  for (Variable& v : variables_) v.give_to(shared_from_this());
}

void SpilledVariables::refresh(std::span<std::byte> through) {
  bool any = false;
  try {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const Variable& v = variables_[i];
      if (!v.backed_by(this) || (dirty_[i] && v.in_memory())) {
        copy_in(v, *file_, static_cast<int>(i), through);
        any = true;
      }
    }
    if (any) file_->commit();
  } catch (...) {
    rollback();  // what is half there must not meet the program's next write
    throw;
  }
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    dirty_[i] = false;
    if (!variables_[i].backed_by(this)) {
      variables_[i].give_to(shared_from_this());
    } else if (variables_[i].in_memory()) {
      variables_[i].forget();
    }
  }
}

void SpilledVariables::read(const Variable& variable, std::span<std::byte> to,
                            std::uint64_t offset) {
  file_->read_now(slot_of(variable), offset, to);
}

void SpilledVariables::written(const Variable& variable) {
  dirty_[static_cast<std::size_t>(slot_of(variable))] = true;
}

void SpilledVariables::write(const Variable& variable, std::span<const std::byte> from,
                             std::uint64_t offset) {
  file_->write_now(slot_of(variable), offset, from);
}

// It forgets what was not committed. That cannot fail, but for the locks and waits of the system.
void SpilledVariables::rollback() noexcept { file_->rollback(); }

}  // namespace ebb::exec
