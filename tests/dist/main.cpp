#include <gtest/gtest.h>

#include "tests/dist/roles.hpp"

int main(int count, char** arguments) {
  if (count > 2 && std::string(arguments[1]) == "rank")
    return ebb::test::rank_main({arguments + 2, arguments + count});
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
