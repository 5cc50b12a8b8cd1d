#include "ebb/base/error.hpp"

#include <algorithm>

#include "ebb/base/memory/ledger.hpp"

namespace ebb {
namespace {

std::string placed(const std::string& line) {
  const Scope::Id scope = Scope::current();
  if (scope == 0) return line;
  const std::size_t end = std::min(line.find('\n'), line.size());
  return line.substr(0, end) + ", in " + Scope::path(scope) + line.substr(end);
}

}  // namespace

Error::Error(const std::string& line) : std::runtime_error(placed(line)) {}

}  // namespace ebb
