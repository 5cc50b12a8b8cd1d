#include "ebb/optim/grouped.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ebb/base/error.hpp"

namespace ebb::optim {
namespace {

void check(const char* rule, const Group& g, std::span<const Variable> params) {
  const GroupOptions& o = g.options;
  const auto number = [&](const char* what, const std::optional<double>& value) {
    if (value && !(*value >= 0 && std::isfinite(*value)))
      throw Error(fmt::format("{}: group \"{}\" has .{} = {}, expected a number from 0 on", rule,
                              g.names, what, *value));
  };
  number("lr_scale", o.lr_scale);
  number("weight_decay", o.weight_decay);
  if (std::none_of(params.begin(), params.end(),
                   [&](const Variable& p) { return fits(g.names, p.name()); }))
    throw Error(
        fmt::format("{}: group \"{}\" fits none of the {} parameters, the first of which is "
                    "{}; '*' stands for any text, '?' for one character",
                    rule, g.names, params.size(), params[0].name()));
}

}  // namespace

bool fits(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, from = 0;  // the last '*', and what it stands for
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

Grouped grouped(const char* rule, std::vector<Variable> params, double weight_decay,
                const Groups& groups) {
  if (params.empty()) throw Error(fmt::format("{}: there are no parameters to train", rule));
  for (const Group& g : groups) check(rule, g, params);
  Grouped out;
  for (Variable& p : params) {
    Setting setting{1, weight_decay};
    bool frozen = false;
    for (const Group& g : groups) {
      if (!fits(g.names, p.name())) continue;
      setting.lr_scale = g.options.lr_scale.value_or(setting.lr_scale);
      setting.weight_decay = g.options.weight_decay.value_or(setting.weight_decay);
      frozen = g.options.frozen.value_or(frozen);
    }
    if (frozen) {
      out.frozen.push_back(std::move(p));
      continue;
    }
    const auto at = std::find(out.settings.begin(), out.settings.end(), setting);
    out.setting_of.push_back(static_cast<std::size_t>(at - out.settings.begin()));
    if (at == out.settings.end()) out.settings.push_back(setting);
    out.trained.push_back(std::move(p));
  }
  if (out.trained.empty())
    throw Error(fmt::format("{}: its groups freeze all {} parameters; nothing is left to train",
                            rule, out.frozen.size()));
  return out;
}

}  // namespace ebb::optim
