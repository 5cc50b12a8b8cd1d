// Parameters in groups: each trained as by an optimizer of its own, eagerly and compiled; frozen ones
// are left alone. And optimizers that are moved while a compiled step knows them.
#include "ebb/optim/groups.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ebb/exec/compile.hpp"
#include "ebb/optim/accumulator.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::bytes;
using test::error_of;
using test::Mlp;

TEST(Groups, PatternsFitNames) {
  for (const auto& [pattern, name, expected] :
       std::vector<std::tuple<const char*, const char*, bool>>{{"*.bias", "a.b.bias", true},
                                                               {"*.bias", "bias", false},
                                                               {"*", "", true},
                                                               {"a?c", "abc", true},
                                                               {"a?c", "ac", false},
                                                               {"*a*b*", "xxaxxbxx", true},
                                                               {"*a*b", "xbxa", false},
                                                               {"head.*", "head.weight", true},
                                                               {"head.*", "ahead.weight", false},
                                                               {"*ab", "aab", true}})
    EXPECT_EQ(optim::fits(pattern, name), expected) << pattern << ' ' << name;
}

const optim::Groups kGroups = {
    {"*.bias", {.weight_decay = 0}}, {"mid.*", {.lr_scale = 0.1}}, {"up.*", {.frozen = true}}};

// The parameters of `model` whose name fits.
std::vector<Variable> fitting(Mlp& model, std::initializer_list<const char*> names) {
  std::vector<Variable> out;
  for (const Variable& p : params(model))
    for (const char* n : names)
      if (optim::fits(n, p.name())) out.push_back(p);
  return out;
}

template <class Optimizer, class Options>
void trains_as_four(Options options) {
  const test::Example data = test::examples(24, 12, 5, 1);
  options.lr = 0.05;
  options.weight_decay = 0.1;
  const auto draws = [] { random::seed(3); };
  // Four optimizers, each with the numbers of its group.
  Mlp apart(nn::Init(1));
  const auto with = [&](double lr, double decay) {
    Options o = options;
    o.lr = lr;
    o.weight_decay = decay;
    return o;
  };
  Optimizer rest(fitting(apart, {"norm.weight", "down.weight"}), with(0.05, 0.1)),
      rest_bias(fitting(apart, {"norm.bias", "down.bias"}), with(0.05, 0)),
      mid(fitting(apart, {"mid.weight"}), with(0.05 * 0.1, 0.1)),
      mid_bias(fitting(apart, {"mid.bias"}), with(0.05 * 0.1, 0));
  draws();
  for (int i = 0; i < 3; ++i) {
    const random::State before = random::state();
    Tape tape({.persistent = true});
    const Loss loss = sparse_cross_entropy(apart(data.x), data.labels);
    std::vector<std::vector<Tensor>> all;
    for (Optimizer* o : {&rest, &rest_bias, &mid, &mid_bias})
      all.push_back(tape.gradient(loss, o->params()));
    std::size_t k = 0;
    for (Optimizer* o : {&rest, &rest_bias, &mid, &mid_bias}) o->step(all[k++], loss.count.item());
    random::restore(before);
    random::next_step();
  }
  options.groups = kGroups;
  for (const int rows : {-1, 0, 7}) {
    Mlp model(nn::Init(1));
    Optimizer one(params(model), options);
    draws();
    if (rows < 0) {
      for (int i = 0; i < 3; ++i) {
        Tape tape;
        one.minimize(sparse_cross_entropy(model(data.x), data.labels));
      }
    } else {
      auto step = compile({{"x", data.x.spec()}, {"y", data.labels.spec()}}, {.micro_batch = rows},
                          [&](const Batch& b) {
                            return one.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
                          });
      for (int i = 0; i < 3; ++i) step({{"x", data.x}, {"y", data.labels}});
    }
    EXPECT_EQ(bytes(params(model)), bytes(params(apart))) << "rows " << rows;
    Mlp untouched(nn::Init(1));
    EXPECT_EQ(bytes({model.up.weight, model.up.bias}),
              bytes({untouched.up.weight, untouched.up.bias}));
    EXPECT_EQ(one.params().size(), params(model).size() - 2);
  }
}

TEST(Groups, AdamW) { trains_as_four<optim::AdamW>(optim::AdamWOptions{}); }
TEST(Groups, Adam) { trains_as_four<optim::Adam>(optim::AdamOptions{}); }
TEST(Groups, AdamW8bit) { trains_as_four<optim::AdamW8bit>(optim::AdamWOptions{}); }
TEST(Groups, Sgd) { trains_as_four<optim::Sgd>(optim::SgdOptions{.momentum = 0.9}); }
TEST(Groups, Rmsprop) { trains_as_four<optim::Rmsprop>(optim::RmspropOptions{}); }
TEST(Groups, Adagrad) { trains_as_four<optim::Adagrad>(optim::AdagradOptions{}); }
TEST(Groups, Lion) { trains_as_four<optim::Lion>(optim::LionOptions{}); }
TEST(Groups, Adafactor) {
  trains_as_four<optim::Adafactor>(optim::AdafactorOptions{.decaying = false});
}

TEST(Groups, FrozenParametersHaveNoGradient) {
  Mlp model(nn::Init(1));
  optim::Sgd sgd(params(model), {.groups = {{"up.*", {.frozen = true}}}});
  auto step = compile(
      {{"x", Spec{{4, 12}, DType::f32}}, {"y", Spec{{4}, DType::i64}}}, {},
      [&](const Batch& b) { return sgd.minimize(sparse_cross_entropy(model(b["x"]), b["y"])); });
  const trace::Trace& trace = step.plan().programs.back().trace;
  for (const trace::Value& v : trace.values)
    EXPECT_FALSE(v.category == Category::gradients && v.spec == model.up.weight.spec());
}

TEST(Groups, LaterGroupsOverrule) {
  Mlp model(nn::Init(1));
  optim::Sgd sgd(params(model),
                 {.groups = {{"*", {.frozen = true}}, {"down.*", {.frozen = false}}}});
  EXPECT_EQ(sgd.params(), (std::vector<Variable>{model.down.weight, model.down.bias}));
}

TEST(Groups, MistakesAreNamed) {
  Mlp model(nn::Init(1));
  const auto error = [&](optim::Groups groups) {
    return error_of([&] { optim::Sgd(params(model), {.groups = std::move(groups)}); });
  };
  EXPECT_EQ(
      error({{"haed.*", {.frozen = true}}}),
      "sgd: group \"haed.*\" fits none of the 8 parameters, the first of which is up.weight; '*' "
      "stands for any text, '?' for one character");
  EXPECT_NE(error({{"up.*", {.lr_scale = -1}}}).find(".lr_scale = -1"), std::string::npos);
  EXPECT_NE(error({{"up.*", {.weight_decay = NAN}}}).find(".weight_decay"), std::string::npos);
  EXPECT_NE(error({{"*", {.frozen = true}}}).find("nothing is left to train"), std::string::npos);
}

TEST(Moved, ACompiledStepGoesOnWithIt) {
  const test::Example data = test::examples(24, 12, 5, 1);
  std::vector<std::vector<std::byte>> expected;
  for (const bool move : {false, true}) {
    Mlp model((random::seed(3), nn::Init(1)));
    std::vector<optim::AdamW> kept;
    optim::AdamW adam(params(model), {.lr = 1e-2, .half = {.loss_scale = optim::dynamic}});
    auto step = compile({{"x", data.x.spec()}, {"y", data.labels.spec()}}, {}, [&](const Batch& b) {
      return adam.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
    });
    step({{"x", data.x}, {"y", data.labels}});
    Accumulator gathered(adam);
    if (move) {
      kept.push_back(std::move(adam));
      EXPECT_NE(error_of([&] { adam.set_lr(1); }).find("moved from"), std::string::npos);
      EXPECT_TRUE(gathered.is_for(kept[0]));
    }
    optim::AdamW& now = move ? kept[0] : adam;
    now.set_lr(0.5);
    step({{"x", data.x}, {"y", data.labels}});
    EXPECT_EQ(now.steps(), 2);
    {
      Tape tape;
      now.minimize(sparse_cross_entropy(model(data.x), data.labels));
    }
    EXPECT_EQ(now.steps(), 3);
    if (expected.empty()) expected = bytes(params(model));
    EXPECT_EQ(bytes(params(model)), expected) << move;
    if (!move) continue;
    now = optim::AdamW(params(model));  // and the one of the step is gone
    EXPECT_NE(error_of([&] {
                step({{"x", data.x}, {"y", data.labels}});
              }).find("is gone"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace ebb
