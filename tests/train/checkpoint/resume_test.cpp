// A run that is taken up again has the bits of one that went on: at any step, in any budget, with any number of
// threads.
#include <optional>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

using test::Training;

class Resume : public test::FolderTest {};

TEST_F(Resume, AtAnyStepOfAnEpoch) {
  Training whole(3);
  const std::string path = folder_ + "/run";
  std::int64_t saved = 0;
  whole.steps(9, {}, [&] {
    train::save(path + std::to_string(++saved), whole.info(), whole.model, whole.adam, whole.ema);
  });
  const auto expected = whole.all();
  const random::State draws = random::state();
  for (std::int64_t at = 1; at <= saved; ++at) {
    Training later(99);  // other weights, other draws
    later.steps(2);
    later.load(path + std::to_string(at));
    EXPECT_EQ(later.done, at);
    later.steps(9 - at);
    EXPECT_EQ(later.all(), expected) << at;
    EXPECT_EQ(random::state(), draws) << at;
    EXPECT_EQ(later.adam.lr(), whole.adam.lr());
    EXPECT_EQ(to_string(later.at), to_string(whole.at));
  }
}

TEST_F(Resume, WithAnotherNumberOfThreads) {
  const int before = pool::threads();
  Training whole(3);
  pool::set_threads(1);
  whole.steps(3);
  whole.save(folder_ + "/run");
  whole.steps(4);
  const auto expected = whole.all();
  pool::set_threads(3);
  Training later(99);
  later.load(folder_ + "/run");
  later.steps(4);
  EXPECT_EQ(later.all(), expected);
  pool::set_threads(before);
}

// Parameters and states of 4 MiB each, of which some go to a spill file in a small budget.
struct Large {
  static constexpr std::int64_t kWidth = 1024;
  struct Model {
    std::vector<nn::Dense> layers;
    nn::Dropout dropout{0.25};
    Model() {
      for (int i = 0; i < 4; ++i) layers.emplace_back(nn::Init(1) / i, kWidth, kWidth);
    }
    Tensor operator()(Tensor x) const {
      for (const nn::Dense& l : layers) x = dropout(gelu(l(x)));
      return x;
    }
    void each(auto&& f) { f("layers", layers); }
  } model;
  optim::AdamW adam{params(model)};
  Tensor x = random::normal({8, kWidth}, 0, 1, 1, 2);

  Step<Loss> compiled(const CompileOptions& options) {
    return compile({{"x", x.spec()}}, options,
                   [this](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["x"])); });
  }
  std::uint64_t digest(const std::string& folder) {
    train::save(folder, model, adam);
    const Manifest m = read_manifest(folder);
    return m.model().checksum * 31 + m.state().checksum;
  }
};

TEST_F(Resume, InAnotherBudgetWhereStateLiesInAFile) {
  const std::string at = folder_ + "/at", end = folder_ + "/end";
  std::uint64_t expected = 0, minimum = 0;
  {
    random::seed(5);
    Large whole;
    auto step = whole.compiled({.split = false});
    minimum = step.plan().minimum;
    for (int i = 0; i < 2; ++i) step({{"x", whole.x}});
    train::save(at, {.step = 2}, whole.model, whole.adam);
    for (int i = 0; i < 2; ++i) step({{"x", whole.x}});
    expected = whole.digest(end);
  }
  for (const bool begun :
       {false, true}) {  // loaded before the first step, and into what lies in the file
    random::seed(6);
    Large later;
    auto step =
        later.compiled({.memory = ByteSize{minimum + (std::uint64_t{4} << 20)}, .split = false});
    if (begun) step({{"x", later.x}});
    EXPECT_EQ(train::load(at, later.model, later.adam).step, 2);
    for (int i = 0; i < 2; ++i) step({{"x", later.x}});
    std::size_t kept = 0;
    for (const Variable& v : later.adam.state())
      kept += !v.in_memory() && v.spec().bytes() > (1 << 20);
    EXPECT_GT(kept, 0u);
    const std::uint64_t live = ledger::total().live;
    ledger::reset_peak();
    EXPECT_EQ(later.digest(end), expected) << begun;
    EXPECT_LE(ledger::total().peak, live + (std::uint64_t{3} << 19));
  }
}

TEST_F(Resume, AWalkAmongThePartsGivesItsPosition) {
  Training run(1);
  auto walk = run.data.walk(3);
  for (int i = 0; i < 5; ++i) walk.next();
  const std::string path = folder_ + "/with/new/folders";
  train::save(path, run.model, walk);
  EXPECT_EQ(train::load(path, run.model).position, to_string(walk.position()));
}

TEST_F(Resume, OnlyTheModel) {
  Training run(1);
  run.steps(2);
  run.save(folder_ + "/run");
  const random::State draws = random::state();
  Training other(2);
  random::restore(draws);
  const std::string error = test::error_of([&] { train::load(folder_ + "/run", other.model); });
  EXPECT_NE(error.find("load_only"), std::string::npos) << error;
  EXPECT_NE(test::bytes(params(other.model)), test::bytes(params(run.model)));
  EXPECT_EQ(train::load_only(folder_ + "/run", other.model).step, 2);
  EXPECT_EQ(test::bytes(params(other.model)), test::bytes(params(run.model)));
  EXPECT_EQ(random::state(), draws);
  ebb::load_only(folder_ + "/run/model.safetensors", other.model);  // a file like any other
}

TEST_F(Resume, WhatDoesNotFitIsNamed) {
  Training run(1);
  run.save(folder_ + "/run");
  const auto refused = [&](auto& part, const std::string& says) {
    const std::string error = test::error_of([&] { train::load_only(folder_ + "/run", part); });
    EXPECT_NE(error.find(says), std::string::npos) << error;
  };
  nn::Dense wide(nn::Init(1) / "down", 17, 6), missing(nn::Init(1) / "sideways", 17, 6);
  refused(wide, "down.weight is f32(5, 17) in it, and f32(6, 17) in the program");
  refused(missing, "it has no sideways.weight");
  EXPECT_NE(
      test::error_of([&] { train::load(folder_ + "/none", run.model); }).find("no such directory"),
      std::string::npos);
  EXPECT_NE(
      test::error_of([&] { train::load(folder_, run.model); }).find("it has no file manifest.json"),
      std::string::npos);
  File::create(folder_ + "/note").write("mine");
  EXPECT_NE(test::error_of([&] {
              train::save(folder_ + "/note", run.model);
            }).find("holds no checkpoint"),
            std::string::npos);
  EXPECT_NE(test::error_of([&] { train::save(folder_, run.model); }).find("holds no checkpoint"),
            std::string::npos);
}

TEST_F(Resume, NotInsideACompiledFunction) {
  Training run(1);
  const std::string error = test::error_of([&] {
    compile({{"x", Spec{{2, 12}, DType::f32}}}, {}, [&](const Batch& b) {
      train::save(folder_ + "/run", run.model);
      return run.model(b["x"]);
    });
  });
  EXPECT_NE(error.find("between steps"), std::string::npos) << error;
}

}  // namespace
}  // namespace ebb::train
