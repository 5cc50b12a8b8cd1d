// Text as a string of JSON or Graphviz.
#pragma once

#include <string>

namespace ebb {

std::string quoted(const std::string& text);  // with its quotes

}  // namespace ebb
