// The text of the error that a call throws, and what it says.
#pragma once

#include <gtest/gtest.h>

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

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text
