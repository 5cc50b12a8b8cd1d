// What `using namespace ebb` brings into a program: what users call, and not what ops are made of.
// That this file compiles is the test.
#include <gtest/gtest.h>

#include "ebb/ebb.hpp"
#include "ebb/ops/apply.hpp"

using namespace ebb;

// Names that a program may well want for itself.
struct Add {
  int x = 1;
};
struct AnyOp {
  int x = 1;
};
struct Back {
  int x = 1;
};
struct Call {
  int x = 1;
};
struct Concat {
  int x = 1;
};
struct Conv2d {
  int x = 1;
};
struct Cost {
  int x = 1;
};
struct Function {
  int x = 1;
};
struct Grads {
  int x = 1;
};
struct In {
  int x = 1;
};
struct Linear {
  int x = 1;
};
struct MaxPool2d {
  int x = 1;
};
struct Needs {
  int x = 1;
};
struct Out {
  int x = 1;
};
struct Pad {
  int x = 1;
};
struct Record {
  int x = 1;
};
struct Scratch {
  int x = 1;
};
struct Slice {
  int x = 1;
};
struct Softmax {
  int x = 1;
};
struct Value {
  int x = 1;
};
struct Where {
  int x = 1;
};

template <class... T>
int count() {
  return (T{}.x + ...);
}

TEST(Names, AProgramMayUseThoseOfTheMachinery) {
  EXPECT_EQ((count<Add, AnyOp, Back, Call, Concat, Conv2d, Cost, Function, Grads, In, Linear>()),
            11);
  EXPECT_EQ((count<MaxPool2d, Needs, Out, Pad, Record, Scratch, Slice, Softmax, Value, Where>()),
            10);
  // And what it calls is still found.
  const Tensor x = Tensor::of({{1, 2}, {3, 4}});
  EXPECT_EQ(sum(slice(concat({x + x, relu(x)}, 1), 0, 1)).item(), 21);
}

// Every op struct is held to this where its OpType is made (ops/apply.hpp).
TEST(Names, AnOpsStructIsItsNameInCamelCase) {
  using ops::op_detail::named_after;
  using ops::op_detail::struct_name;
  static_assert(named_after("rms_norm", "RmsNorm") && named_after("conv2d", "Conv2d"));
  static_assert(!named_after("rms_norm", "RmsNormOp") && !named_after("argmax", "ArgMax"));
  static_assert(!named_after("rms_norm_backward", "RmsNorm") && !named_after("", "RmsNorm"));
  EXPECT_EQ(struct_name<ops::RmsNorm>(), "RmsNorm");
  EXPECT_EQ(struct_name<ops::Add>(), "Binary<");
  EXPECT_STREQ(ops::Add::name, "add");
}
