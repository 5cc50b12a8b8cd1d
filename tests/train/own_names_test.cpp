// Names that a program may have of its own beside those of Ebb, as the guide says it.
#include <gtest/gtest.h>

#include "ebb/ebb.hpp"

using namespace ebb;

int train(int steps) { return steps + 1; }

namespace program {
int train(int steps) { return steps + 2; }
int twice() { return train(train(0)); }  // the nearer one, in a namespace of its own
}  // namespace program

namespace {

TEST(OwnNames, AFunctionTrainIsCalledByItsWholeName) {
  EXPECT_EQ(::train(1), 2);
  EXPECT_EQ(program::twice(), 4);
  const auto train = [](int steps) { return steps; };  // a local one hides both
  EXPECT_EQ(train(3), 3);
  EXPECT_EQ(ebb::train::Outcome().step, 0);
}

}  // namespace
