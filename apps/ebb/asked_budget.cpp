#include "apps/ebb/asked_budget.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "apps/ebb/commands.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/round.hpp"
#include "ebb/base/runtime.hpp"

namespace ebb::app {
namespace {

// Of memory that is in use, headers and whole pages: what the guard counts beside the bytes that were asked for.
constexpr std::uint64_t kBeside = (256_KiB).bytes, kStep = (256_KiB).bytes, kShare = 64;

std::uint64_t in_bytes(const std::string& memory) {
  if (memory.empty() || memory == "none") return 0;
  if (memory == "auto") return process::available().bytes / 10 * 9;
  const bool plain = memory.find_first_not_of("0123456789") == std::string::npos;
  return ByteSize::parse(plain ? memory + "B" : memory).bytes;
}

}  // namespace

AskedBudget::AskedBudget(const std::string& memory) : bytes_(in_bytes(memory)) {
  reserve_ = runtime::reserve();  // before a budget asks for it
  budget_ = Budget(ByteSize{bytes_});
}

void AskedBudget::begin() { ledger::reset_peak(); }

void AskedBudget::lift() {
  budget_ = {};
  ledger::reset_peak();
}

void AskedBudget::end(Counts counts) {
  const Usage used = ledger::total();
  const std::uint64_t between = used.peak - used.live, little = (64_KiB).bytes;
  std::uint64_t needed = reserve_ + round_up(used.live, little) +
                         round_up(between, between < little ? little : (1_MiB).bytes);
  if (Budget::now()) needed = std::min(needed, Budget::now());  // it could
  if (counts == Counts::yes) least_bytes_ = std::max({least_bytes_, needed, train::kAtStart});
  least_.reset();
  least_ = std::make_unique<LeastBudget>(least_bytes_);
  runtime::drop_code();  // of reading, before that of computing comes
  if (bytes_ && !Budget::now()) budget_ = Budget(ByteSize{bytes_});
}

void AskedBudget::restore(std::uint64_t least_bytes) {
  least_bytes_ = least_bytes;
  least_.reset();
  least_ = std::make_unique<LeastBudget>(least_bytes_);
  if (!Budget::now()) budget_ = Budget(ByteSize{bytes_});
}

void AskedBudget::must_hold(const std::function<void()>& trial) {
  if (bytes_ == 0) return;
  const auto taken = [&] {
    ledger::reset_peak();
    trial();
    const std::uint64_t peak = ledger::total().peak;
    return runtime::reserve() + round_up(peak + peak / kShare + kBeside, kStep);
  };
  std::optional<std::uint64_t> needed;
  try {
    needed = taken();
  } catch (const OutOfMemory&) {
    lift();
  }
  if (!needed) needed = std::max(taken(), bytes_ + 1);
  if (*needed <= bytes_) return;
  throw too_small(*needed);
}

BudgetTooSmall AskedBudget::too_small(std::uint64_t smallest) const {
  return {fmt::format("the budget of {} ({} bytes) is too small: the smallest that does is {} ({} "
                      "bytes)",
                      to_string(ByteSize{bytes_}), bytes_, plan::enough(smallest), smallest),
          smallest};
}

train::Job open_run(AskedBudget& budget, const std::string& directory, const std::string& memory,
                    train::Which which) {
  return budget.reading(
      [&] {
        train::Job job = train::open_run(directory, which);
        if (!memory.empty())
          job.config =
              train::parse_config(train::to_toml(job.config), directory, {budget_override(memory)});
        return job;
      },
      AskedBudget::Counts::no);
}

}  // namespace ebb::app
