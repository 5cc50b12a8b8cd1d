#include "ebb/exec/store.hpp"

#include <algorithm>

#include "ebb/base/memory.hpp"

namespace ebb::exec {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;  // a multiple of First::kChunk elements

void copy_in(const Variable& v, Spill& file, int slot) {
  const std::uint64_t bytes = v.spec().bytes();
  const memory::Buffer chunk(std::min<std::uint64_t>(kChunk, bytes), "spill", Category::workspace);
  for (std::uint64_t at = 0; at < bytes; at += kChunk) {
    const std::span<std::byte> part(chunk.data(), std::min<std::uint64_t>(kChunk, bytes - at));
    v.read(part, at);
    file.write_now(slot, at, part);
  }
}

}  // namespace

std::vector<SpillSlot> Store::slots(std::span<const Variable> variables,
                                    std::span<const std::uint64_t> activation_bytes) {
  std::vector<SpillSlot> all;
  for (const Variable& v : variables)
    all.push_back({v.spec().bytes(), true, v.begins(), size_of(v.spec().dtype)});
  for (const std::uint64_t bytes : activation_bytes) all.push_back({bytes, false});
  return all;
}

Store::Store(const SpillOptions& options, std::vector<Variable> variables,
             std::span<const std::uint64_t> activation_bytes)
    : variables_(std::move(variables)), dirty_(variables_.size(), false) {
  for (std::size_t i = 0; i < variables_.size(); ++i) slots_[variables_[i].id()] = static_cast<int>(i);
  file_ = std::make_unique<Spill>(options, slots(variables_, activation_bytes));
}

void Store::fill() {
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (!variables_[i].begins()) copy_in(variables_[i], *file_, static_cast<int>(i));
  file_->commit();
  for (Variable& v : variables_) v.give_to(shared_from_this());
}

void Store::refresh() {
  bool any = false;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (dirty_[i] || !variables_[i].kept_by(this)) {
      copy_in(variables_[i], *file_, static_cast<int>(i));
      any = true;
    }
  }
  if (any) file_->commit();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    dirty_[i] = false;
    if (!variables_[i].kept_by(this)) {
      variables_[i].give_to(shared_from_this());
    } else if (variables_[i].in_memory()) {
      variables_[i].forget();
    }
  }
}

void Store::read(const Variable& variable, std::span<std::byte> to, std::uint64_t offset) {
  file_->read_now(slot_of(variable), offset, to);
}

void Store::written(const Variable& variable) {
  dirty_[static_cast<std::size_t>(slot_of(variable))] = true;
}

}  // namespace ebb::exec
