// What goes wrong in a run: numbers that are none, a full disk, data or a config that are others when it goes on.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ebb/base/files/file_faults.hpp"
#include "ebb/data/files/digits.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/train/job.hpp"
#include "tests/error_of.hpp"
#include "tests/train/tales.hpp"

namespace ebb::train {
namespace {

using ebb::test::error_of;
using test::Folder;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Net {  // with something that can go wrong in the middle
  nn::Dense up, down;
  nn::BatchNorm norm;
  explicit Net(nn::Init init)
      : up(init / "up", 4, 8), down(init / "down", 8, 1), norm(init / "norm", 8) {}
  Tensor operator()(const Tensor& x) const {
    Tensor h = norm(up(x));
    const Scope in("middle");
    return down(log(h * h + 1e-3f));
  }
  void each(auto&& f) {
    f("up", up);
    f("norm", norm);
    f("down", down);
  }
};

struct Log {
  nn::Dense up;
  Tensor operator()(const Tensor& x) const {
    const Tensor h = up(x);
    const Scope in("head");
    return log(h - h);
  }
  void each(auto&& f) { f("up", up); }
};

struct Root {
  nn::Dense up;
  Tensor operator()(const Tensor& x) const {
    const Tensor h = up(x);
    const Scope in("root");
    return sqrt(h - h) + h;
  }
  void each(auto&& f) { f("up", up); }
};

// Rows of `bad` hold this value.
Dataset rows(float bad, std::int64_t from, std::int64_t to, std::int64_t count = 32) {
  std::vector<float> x(static_cast<std::size_t>(count) * 4), y(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (std::int64_t row = from; row < to; ++row) x[static_cast<std::size_t>(row) * 4] = bad;
  return Dataset::of({{"x", Tensor::from(x, {count, 4})}, {"y", Tensor::from(y, {count, 1})}});
}

Model model_of(const Net& net) {
  return Model::of(net, [](const Net& n, const Batch& b) { return mse(n(b["x"]), b["y"]); });
}

TEST(TrainerFaults, ABadStepIsNotTakenAndTheRunGoesOn) {
  const auto after = [](const Dataset& data, std::int64_t steps) {
    random::seed(1);
    Net net(nn::Init(1));
    optim::Adam adam(params(net));
    Trainer(model_of(net), adam, data.batch(8), {.steps = steps, .live = false}).run();
    return ebb::test::bytes(variables(net));
  };
  // The second batch is bad: weights and running statistics are those of the first alone.
  EXPECT_EQ(after(rows(kNan, 8, 16), 2), after(rows(0, 0, 0), 1));
  EXPECT_NE(after(rows(kNan, 8, 16), 3), after(rows(kNan, 8, 16), 2));
}

TEST(TrainerFaults, AfterSomeInARowItStopsAndNamesTheColumn) {
  const Folder folder(test::in_memory());
  Net net(nn::Init(1));
  optim::Adam adam(params(net));
  Trainer trainer(model_of(net), adam, rows(kNan, 16, 32).batch(8),
                  {.epochs = 2,
                   .directory = folder / "run",
                   .save = Period::steps(1),
                   .live = false,
                   .bad_steps = 2});
  const std::string error = error_of([&] { trainer.run(); });
  EXPECT_HAS(error, "step 4: the loss or its gradient was NaN or infinite 2 times in a row");
  EXPECT_HAS(error, "column \"x\" of the batch holds nan at [0, 0] of f32(8, 4)");
  EXPECT_HAS(error, "the last good checkpoint is that of step 2");
  EXPECT_EQ(Checkpoints(folder / "run/checkpoints").latest()->info.step, 2);
  EXPECT_HAS(test::content(folder / "run/log.txt"), "error   step 4");
}

// Everything that a call gets is finite, and what it gives is not.
TEST(TrainerFaults, TheOpIsNamedThatMadeTheFirstBadNumber) {
  const Log net{nn::Dense(nn::Init(1) / "up", 4, 2)};
  Log same = net;
  optim::Adam adam(params(same));
  Trainer trainer(Model::of(net, [](const Log& n, const Batch& b) { return loss_of(n(b["x"])); }),
                  adam, rows(0, 0, 0).batch(8), {.live = false, .bad_steps = 1});
  const std::string error = error_of([&] { trainer.run(); });
  EXPECT_HAS(error, "log in head, on the way forward, made -inf at [0, 0] of f32(8, 2)");
  EXPECT_HAS(error, "nothing was saved");
}

TEST(TrainerFaults, AlsoOnTheWayBackAndInABudget) {
  Root net{nn::Dense(nn::Init(1) / "up", 4, 2)};
  optim::Adam adam(params(net));
  const auto before = ebb::test::bytes(params(net));
  Trainer trainer(Model::of(net, [](const Root& n, const Batch& b) { return loss_of(n(b["x"])); }),
                  adam, rows(0, 0, 0).batch(8),
                  {.compile = {.memory = 48_MiB}, .live = false, .bad_steps = 1});
  const std::string error = error_of([&] { trainer.run(); });
  EXPECT_HAS(error, "the loss or its gradient was NaN or infinite 1 time in a row");
  EXPECT_HAS(error, " in root, on the way back, made ");
  EXPECT_EQ(ebb::test::bytes(params(net)), before);
}

TEST(TrainerFaults, WeightsThatAreBadAreNamed) {
  Net net(nn::Init(1));
  params(net)[0].assign(Tensor::full({8, 4}, INFINITY));
  optim::Adam adam(params(net));
  Trainer trainer(model_of(net), adam, rows(0, 0, 0).batch(8), {.live = false, .bad_steps = 1});
  EXPECT_HAS(error_of([&] { trainer.run(); }), "up.weight holds inf at [0, 0] of f32(8, 4)");
}

TEST(TrainerFaults, WeightsThatAStepMadeInfiniteAreNotSaved) {
  const Folder folder(test::in_memory());
  Net net(nn::Init(1));
  optim::Sgd sgd(params(net), {.lr = 1e300});
  Trainer trainer(model_of(net), sgd, rows(0, 0, 0).batch(8),
                  {.directory = folder / "run", .save = Period::steps(1), .live = false});
  EXPECT_HAS(error_of([&] { trainer.run(); }), "step 1: it is not saved, as up.weight holds ");
  EXPECT_FALSE(Checkpoints(folder / "run/checkpoints").latest());
}

TEST(TrainerFaults, ARunThatEndsWithBadStepsSavesWhatWasGood) {
  const Folder folder(test::in_memory());
  const auto run = [&](std::int64_t epochs) {
    random::seed(1);
    Net net(nn::Init(1));
    optim::Adam adam(params(net));
    Trainer(
        model_of(net), adam, rows(kNan, 24, 32).batch(8),
        {.epochs = epochs, .directory = folder / "run", .save = Period::steps(4), .live = false})
        .run();
    return ebb::test::bytes(variables(net));
  };
  const auto once = run(1);
  const auto saved = Checkpoints(folder / "run/checkpoints").latest();
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->info.step, 4);
  EXPECT_EQ(run(1), once);
}

// Steps 2 to 4 are bad, and the run is ended and taken up between them.
TEST(TrainerFaults, BadStepsAreCountedOnWhereARunIsTakenUp) {
  const Folder folder(test::in_memory());
  const auto run = [&](std::int64_t steps) {
    random::seed(1);
    Net net(nn::Init(1));
    optim::Adam adam(params(net));
    Trainer(
        model_of(net), adam, rows(kNan, 8, 32).batch(8),
        {.epochs = 2, .steps = steps, .directory = folder / "run", .live = false, .bad_steps = 3})
        .run();
  };
  run(3);
  EXPECT_HAS(error_of([&] { run(8); }),
             "step 4: the loss or its gradient was NaN or infinite 3 times in a row");
}

TEST(TrainerFaults, AFullDiskEndsTheRunAndTheLastCheckpointIsWhole) {
  using file_faults::Call;
  const auto config = [](const std::string& more) {
    return parse_config(
        "[model]\nkind='mlp'\nhidden=[16]\n[data]\nformat='digits'\nrows=200\n[train]\nbatch="
        "50\nsteps=8\n"
        "[memory]\nbudget='none'\n[every]\nsave='1 steps'\n" +
        more);
  };
  const Folder folder(test::in_memory());
  const std::string whole = test::weights_after(config(""), folder / "whole");
  for (const Call call :
       {Call::write, Call::sync, Call::rename, Call::reserve, Call::make_folder}) {
    const std::string run = folder / ("run" + std::to_string(static_cast<int>(call)));
    const file_faults::Guard guard;
    std::int64_t saved = 0;
    Job job(config(""));
    auto trainer = job.trainer(run, false);
    trainer->on_save = [&](std::int64_t step, const std::string&) {
      saved = step;
      if (step == 3)
        file_faults::fail(call, 1, file_faults::Fault::enospc, file_faults::Repeat::from_then_on);
    };
    const std::string error = error_of([&] { trainer->run(); });
    file_faults::clear();
    trainer.reset();
    EXPECT_HAS(error, "No space left on device");
    EXPECT_EQ(error.find('\n'), error.npos) << error;
    EXPECT_EQ(saved, 3);
    const auto last = Checkpoints(run + "/checkpoints").latest();
    ASSERT_TRUE(last);
    EXPECT_EQ(verify(last->path).step, 3);
    EXPECT_EQ(test::weights_after(config(""), run), whole) << "when there was room again";
  }
}

class Changed : public ::testing::Test {
 protected:
  Changed() {
    std::vector<float> x(100 * 3);
    std::vector<std::int32_t> y(100);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int32_t>(i % 4);
    save_npy(folder_ / "x.npy", Tensor::from(x, {100, 3}));
    save_npy(folder_ / "y.npy", Tensor::from(y, {100}));
    run({"train.steps=3"});
  }
  void run(const std::vector<std::string>& set) const {
    std::vector<std::string> all = {"data.path=" + (folder_ / "x.npy"),
                                    "data.target_path=" + (folder_ / "y.npy")};
    all.insert(all.end(), set.begin(), set.end());
    Job job(parse_config(
        "[model]\nkind='mlp'\nhidden=[8]\n[data]\nformat='npy'\n[train]\nbatch=10\nlr=0.003\n"
        "[memory]\nbudget='none'\n[[train.groups]]\nnames='*.bias'\nweight_decay=0\n",
        "test", all));
    job.trainer(folder_ / "run", false)->run();
  }
  Folder folder_{test::in_memory()};
};

TEST_F(Changed, AnotherConfigIsRefusedByItsKeys) {
  EXPECT_HAS(error_of([&] { run({"train.lr=0.1"}); }),
             "the run there was begun otherwise: train.lr is 0.1 now, and was 0.003;");
  EXPECT_HAS(error_of([&] { run({"model.hidden=[8, 8]"}); }),
             "model.hidden is [8, 8] now, and was [8]");
  EXPECT_HAS(error_of([&] {
               run({"train.clip_norm=1", "train.ema=0.5"});
             }),
             "(1 more differ, such as: train.ema");
  EXPECT_HAS(error_of([&] { run({"memory.optimizer_state='8bit'"}); }),
             "memory.optimizer_state is \"8bit\" now");
  EXPECT_HAS(error_of([&] { run({"train.groups=[]"}); }),
             "train.groups[0].names is not set now, and was \"*.bias\"");
}

TEST_F(Changed, WhatDoesNotChangeTheWeightsMayDiffer) {
  run({"train.steps=5", "memory.budget='96MiB'", "train.threads=1", "every.save='2 steps'",
       "every.log='1 steps'", "output.keep_last=1", "output.csv=false", "data.prefetch=0",
       "data.in_memory=false", "train.bad_steps=3"});
}

TEST_F(Changed, AnotherDataFileIsRefusedWhenItWasWrittenDoesNotMatter) {
  const std::string x = folder_ / "x.npy", content = test::content(x);
  test::put(x, content);  // anew
  std::filesystem::last_write_time(x, std::filesystem::file_time_type::clock::now());
  std::filesystem::copy(x, folder_ / "moved.npy");
  run({"train.steps=4", "data.path=" + (folder_ / "moved.npy")});
  std::string other = content;
  other[other.size() / 2] ^= 1;
  test::put(x, other);
  const std::string error = error_of([&] { run({}); });
  EXPECT_HAS(error, "the content of data.path is 1328 bytes, xxh3 ");
  EXPECT_HAS(error, " now, and was 1328 bytes, xxh3 ");
  test::put(x, content);
  save_npy(folder_ / "y.npy", Tensor::zeros({100}, DType::i32));
  EXPECT_HAS(error_of([&] { run({}); }), "the content of data.target_path is 528 bytes");
}

}  // namespace
}  // namespace ebb::train
