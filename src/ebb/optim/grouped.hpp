// What groups come to for a list of parameters.
#pragma once

#include <cstddef>
#include <vector>

#include "ebb/optim/groups.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

struct Setting {
  double lr_scale = 1, weight_decay = 0;
  bool operator==(const Setting&) const = default;
};
struct Grouped {
  std::vector<Variable> trained, frozen;
  std::vector<Setting> settings;        // each once
  std::vector<std::size_t> setting_of;  // per trained parameter
};
Grouped grouped(const char* rule, std::vector<Variable> params, double weight_decay,
                const Groups& groups);

}  // namespace ebb::optim
