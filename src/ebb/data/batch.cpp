#include "ebb/data/batch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ebb/base/error.hpp"

namespace ebb {

std::size_t index_of(const Names& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Error(
        fmt::format("batch: no column \"{}\"; there {}", name,
                    names.empty() ? "are none" : fmt::format("is {}", fmt::join(names, ", "))));
  return static_cast<std::size_t>(found - names.begin());
}

const std::shared_ptr<const Names>& no_names() {
  static const auto names = std::make_shared<const Names>();
  return names;
}

}  // namespace ebb
