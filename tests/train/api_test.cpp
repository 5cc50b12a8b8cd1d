// The examples of the headers of train/, as a program of a user has them: the one public header, plain structs.
#include <gtest/gtest.h>

#include <iostream>

#include "ebb/ebb.hpp"
#include "tests/bytes.hpp"
#include "tests/error_of.hpp"
#include "tests/train/folder.hpp"

namespace {

using namespace ebb;
using ebb::train::test::Folder;
using ebb::train::test::in_memory;

struct Mlp {
  nn::Dense up, down;
  explicit Mlp(nn::Init init) : up(init / "up", 784, 32), down(init / "down", 32, 10) {}
  Tensor operator()(const Tensor& x) const { return down(relu(up(reshape(x, {x.dim(0), 784})))); }
  void each(auto&& f) {
    f("up", up);
    f("down", down);
  }
};

TEST(TrainApi, ATrainerOfAPlainStruct) {
  const Folder folder(in_memory());
  const auto run = [&](std::int64_t steps) {
    Mlp net(nn::Init(1));
    auto model = train::Model::of(net, [](const Mlp& m, const Batch& b) {
      return sparse_cross_entropy(m(b["image"]), b["label"]);
    });
    optim::AdamW adam(params(net), {.lr = 3e-3});
    train::Trainer trainer(model, adam, data::digits(512, 1).shuffle(1).batch(64),
                           {.epochs = 5,
                            .steps = steps,
                            .compile = {.memory = 64_MiB},
                            .directory = folder / "run",
                            .live = false});
    trainer.evaluate_on(data::digits(128, 2).batch(64));
    double before = 0;
    trainer.on_evaluation = [&](const train::Evaluation& e) { before = e.figures[0].value; };
    EXPECT_NE(to_string(trainer.plan()).find("64 MiB"), std::string::npos);
    const train::Outcome outcome = trainer.run();
    EXPECT_EQ(outcome.last->figures[0].value, before);
    EXPECT_LE(outcome.peak, 64u << 20);
    return outcome;
  };
  EXPECT_EQ(run(10).step, 10);
  const train::Outcome whole = run(0);
  EXPECT_EQ(whole.step, 40);
  EXPECT_LT(whole.best->figures[0].value, 1.5);
}

TEST(TrainApi, ATaskHasItsLossAndItsFigures) {
  const Dataset digits = data::digits(256, 1);
  train::DataFacts facts = train::facts_of(digits, train::Task::classification, "image", "label");
  facts.classes = 10;
  train::Model model = train::Model::of(Mlp(nn::Init(1)), facts);
  optim::AdamW adam(params(model), {.lr = 3e-3});
  train::Trainer trainer(model, adam, digits.batch(64), {.epochs = 4, .live = false});
  trainer.evaluate_on(digits.batch(64));
  const train::Outcome out = trainer.run();
  EXPECT_EQ(out.last->figures.at(1).name, "accuracy");
  EXPECT_GT(out.last->figures.at(1).value, 0.4);
}

TEST(TrainApi, SaveAndLoadInALoopOfOnesOwn) {
  const Folder folder(in_memory());
  const Dataset data = data::digits(200, 1).shuffle(1).batch(64);
  const auto steps = [&](Mlp& model, optim::AdamW& adam, BatchWalk walk, int count, bool save) {
    auto step = compile(data.spec(), {}, [&](const Batch& b) {
      return adam.minimize(sparse_cross_entropy(model(b["image"]), b["label"]));
    });
    for (int i = 0; i < count; ++i) step(*walk.next());
    if (save) train::save(folder / "now", model, adam, walk);
    return test::bytes(variables(model));
  };
  Mlp model(nn::Init(1));
  optim::AdamW adam(params(model));
  steps(model, adam, data.walk(9), 6, true);
  const train::CheckpointInfo mid = train::verify(folder / "now");
  const auto whole =
      steps(model, adam, data.walk(9, data::Position::parse(mid.position)), 5, false);

  Mlp other(nn::Init(2));
  optim::AdamW again(params(other));
  const train::CheckpointInfo at = train::load(folder / "now", other, again);
  EXPECT_EQ(data::Position::parse(at.position).epoch, 1);
  EXPECT_EQ(steps(other, again, data.walk(9, data::Position::parse(at.position)), 5, false), whole);
}

TEST(TrainApi, ACheckpointOfAnotherModelIsRefusedByName) {
  const Folder folder(in_memory());
  Mlp model(nn::Init(1));
  optim::AdamW adam(params(model));
  train::save(folder / "now", model, adam);
  nn::Mlp other(nn::Init(1), {784, 10});
  optim::AdamW its(params(other));
  EXPECT_HAS(test::error_of([&] { train::load(folder / "now", other, its); }), "weight");
}

}  // namespace
