// A file of one test's own: tests run in processes of their own, several at a time.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace ebb::test {

inline std::string temp_path(const std::string& name) {
  return testing::TempDir() + "ebb-" + std::to_string(::getpid()) + "-" + name;
}

}  // namespace ebb::test
