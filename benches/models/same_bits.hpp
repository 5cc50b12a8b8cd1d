// The checks of one model that compare ways of running it: the smallest budget, and the weights
// after 20 steps in every mode.
#pragma once

#include "models/report.hpp"
#include "models/sweep.hpp"

namespace ebb::zoo {

// One byte less than the minimum is refused, at once, by a message that says what would do.
void check_refusal(const Sweep& sweep, const std::string& model, std::int64_t batch,
                   Report& report);

// Threads, spilling, eager: the hash of the whole batch without a budget. Parts of 1, 3 and 7 rows:
// likewise where each weight is used once for an example (`once`), else close to it. A quick report
// has one of each.
void check_same_bits(const std::string& model, std::int64_t batch, bool once, Report& report);

}  // namespace ebb::zoo
