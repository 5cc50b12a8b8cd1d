// The text of the error that a call throws.
#pragma once

#include <string>
#include <utility>

#include "ebb/base/error.hpp"

namespace ebb::test {

template <class F>
std::string error_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace ebb::test
