#include "ebb/data/rows_held.hpp"

#include <algorithm>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb::data {
namespace {

std::uint64_t sum(std::span<const std::uint64_t> tensors) {
  std::uint64_t bytes = 0;
  for (const std::uint64_t t : tensors)
    if (__builtin_add_overflow(bytes, t, &bytes)) return RowsHeld::kAll;
  return bytes;
}

}  // namespace

bool RowsHeld::has_room(std::span<const std::uint64_t> tensors) const {
  return most == kAll || (in_memory <= most && sum(tensors) <= most - in_memory);
}

bool RowsHeld::put(bool wanted, std::span<const std::uint64_t> tensors) {
  look_at_peak();
  const bool here = wanted && has_room(tensors);
  std::uint64_t charge = 0;
  for (const std::uint64_t t : tensors)
    charge += Tensor::charge({{static_cast<std::int64_t>(t)}, DType::u8});
  (here ? in_memory : in_files) += sum(tensors);
  (here ? charge_in_memory : charge_in_files) += charge;
  return here;
}

// A peak that has not grown since rows came was there before them, or lower without them.
void RowsHeld::look_at_peak() {
  const std::uint64_t peak = ledger::total().peak;
  if (peak > peak_seen) peak_in_files = std::max(peak_in_files, peak - std::min(peak, in_memory));
  peak_seen = std::max(peak_seen, peak);
}

}  // namespace ebb::data
