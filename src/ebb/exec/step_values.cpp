#include "ebb/exec/step_values.hpp"

namespace ebb::exec {

StepValues::StepValues(const plan::Plan& plan) : values_(plan.programs.back().trace.before) {
  std::uint64_t bytes = memory::kAlignment;
  for (const trace::Before& v : values_) bytes += memory::aligned(v.spec.bytes());
  bytes_.resize(bytes + memory::kAlignment);
  const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
  key_ = reinterpret_cast<std::int64_t*>(memory::aligned(start));
}

std::byte* StepValues::of(const trace::Before& value) const {
  std::byte* place = reinterpret_cast<std::byte*>(key_) + memory::kAlignment;
  for (const trace::Before& v : values_) {
    if (v.name == value.name) break;
    place += memory::aligned(v.spec.bytes());
  }
  return place;
}

void StepValues::fill() {
  std::byte* next = reinterpret_cast<std::byte*>(key_) + memory::kAlignment;
  for (const trace::Before& v : values_) {
    v.fill({next, v.spec.bytes()});
    next += memory::aligned(v.spec.bytes());
  }
}

}  // namespace ebb::exec
