// Parameters that are trained otherwise than the rest, chosen by name.
//
//   optim::AdamW adam(params(model), {.lr = 1e-3, .groups = {
//       {"*.bias", {.weight_decay = 0}},
//       {"tokens.*", {.lr_scale = 0.1}},
//       {"layers.?.*", {.frozen = true}}}});
//
// In a pattern '*' stands for any text and '?' for one character. A parameter takes what every group
// that fits its name says; where two say the same thing, what the later one says. A pattern that fits
// no parameter is an Error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::optim {

struct GroupOptions {
  std::optional<double> lr_scale = {};      // times the rate of the step, scheduled or not
  std::optional<double> weight_decay = {};  // in place of the optimizer's
  std::optional<bool> frozen = {};          // left as it is: no gradient is computed, no state kept
};

struct Group {
  std::string names;  // a pattern
  GroupOptions options;
};
using Groups = std::vector<Group>;

// Whether a name is one that the pattern stands for.
bool fits(std::string_view pattern, std::string_view name);

}  // namespace ebb::optim
