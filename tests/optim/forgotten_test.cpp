// A layer that the model calls and its each() does not list is named when the step is compiled.
#include <gtest/gtest.h>

#include "ebb/exec/compile.hpp"
#include "ebb/ops/stop_gradient.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::error_of;

struct Forgetful {
  nn::Dense body, head;
  bool stop = false;
  explicit Forgetful(nn::Init init) : body(init / "body", 3, 4), head(init / "head", 4, 2) {}
  Tensor operator()(const Tensor& x) const { return head(stop ? stop_gradient(body(x)) : body(x)); }
  void each(auto&& f) { f("head", head); }
};

std::string compiled(Forgetful& model, optim::Optimizer& optimizer) {
  return error_of([&] {
    compile({{"x", Spec{{5, 3}, DType::f32}}, {"y", Spec{{5, 2}, DType::f32}}}, {},
            [&](const Batch& b) { return optimizer.minimize(mse(model(b["x"]), b["y"])); });
  });
}

TEST(Forgotten, IsNamed) {
  Forgetful model(nn::Init(1));
  optim::Sgd sgd(params(model));
  EXPECT_EQ(
      compiled(model, sgd),
      "sgd: the loss depends on body.bias and 1 more, trainable and given to no "
      "optimizer; list it in the model's each(), or say that it stays as it is: freeze() that "
      "part, or give it to the optimizer in a group with .frozen = true");
}

TEST(Forgotten, WhatIsMeantToStayIsNot) {
  {
    Forgetful model(nn::Init(1));
    freeze(model.body);
    optim::Sgd sgd(params(model));
    EXPECT_EQ(compiled(model, sgd), "no error");
  }
  {
    Forgetful model(nn::Init(1));
    model.stop = true;  // no gradient flows there
    optim::Sgd sgd(params(model));
    EXPECT_EQ(compiled(model, sgd), "no error");
  }
  {
    Forgetful model(nn::Init(1));
    std::vector<Variable> all = params(model.body);
    for (const Variable& v : params(model.head)) all.push_back(v);
    optim::Sgd sgd(all, {.groups = {{"body.*", {.frozen = true}}}});
    EXPECT_EQ(compiled(model, sgd), "no error");
  }
  {  // two players, each with an optimizer of its own
    Forgetful model(nn::Init(1));
    optim::Sgd other(params(model.body)), sgd(params(model.head));
    EXPECT_EQ(compiled(model, sgd), "no error");
  }
}

}  // namespace
}  // namespace ebb
