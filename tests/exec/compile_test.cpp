// Compiled steps beside eager ones: the same bits, whatever the plan does.
#include "ebb/exec/compile.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/process.hpp"
#include "ebb/exec/input_gradients.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/bytes.hpp"
#include "tests/error_of.hpp"
#include "tests/temp_path.hpp"

namespace ebb {
namespace {

constexpr int kSteps = 6;

struct Deep {  // 8 layers of 48, dropout between them
  std::vector<nn::Dense> layers;
  nn::LayerNorm norm;
  nn::Dropout drop{0.1};
  explicit Deep(const nn::Init& init) : norm(init / "norm", 48) {
    for (int i = 0; i < 8; ++i)
      layers.emplace_back(init / i, 48, 48, nn::DenseOptions{.activation = Activation::gelu});
  }
  Tensor operator()(Tensor x) const {
    for (const nn::Dense& l : layers) x = drop(l(x));
    return norm(x);
  }
  void each(auto&& f) {
    for (std::size_t i = 0; i < layers.size(); ++i) f(std::to_string(i), layers[i]);
    f("norm", norm);
  }
};

struct Data {
  explicit Data(std::int64_t rows)
      : x(random::normal({rows, 48}, 0, 1, 1, 2)), y(random::normal({rows, 48}, 0, 1, 1, 3)) {}
  Tensor x, y;
  Batch batch() const { return {{"x", x}, {"y", y}}; }
  BatchSpec spec() const { return {{"x", x.spec()}, {"y", y.spec()}}; }
};

// The weights and the optimizer's state after some steps.
test::Bytes eager(const Data& data) {
  random::seed(7);
  Deep model{nn::Init(1)};
  optim::AdamW adam(params(model), {.lr = 1e-2});
  adam.clip_norm(0.5);
  for (int i = 0; i < kSteps; ++i) {
    Tape tape;
    adam.minimize(mse(model(data.x), data.y));
  }
  auto all = variables(model);
  for (const Variable& v : adam.state()) all.push_back(v);
  return test::bytes(all);
}

struct Outcome {
  test::Bytes bytes;
  plan::Plan plan;
};

Outcome compiled(const Data& data, const CompileOptions& options) {
  random::seed(7);
  Deep model{nn::Init(1)};
  optim::AdamW adam(params(model), {.lr = 1e-2});
  adam.clip_norm(0.5);
  auto step = compile(data.spec(), options,
                      [&](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["y"])); });
  for (int i = 0; i < kSteps; ++i) step(data.batch());
  auto all = variables(model);
  for (const Variable& v : adam.state()) all.push_back(v);
  Outcome o{test::bytes(all), step.plan()};
  o.plan.programs.clear();  // which hold the variables
  return o;
}

TEST(Compile, GivesTheBitsOfEager) {
  const Data data(32);
  EXPECT_EQ(compiled(data, {}).bytes, eager(data));
}

TEST(Compile, EveryBudgetGivesTheSameBits) {
  const Data data(256);
  const auto expected = eager(data);
  const plan::Plan unlimited = compiled(data, {}).plan;
  ASSERT_GT(unlimited.frontier.size(), 3u);
  std::uint64_t last = 0;
  for (const plan::FrontierPoint& way : unlimited.frontier) {
    const std::uint64_t budget = std::max(way.budget, unlimited.minimum);
    if (budget == last) continue;
    last = budget;
    const Outcome o = compiled(data, {.memory = ByteSize{budget}});
    EXPECT_EQ(o.bytes, expected) << budget << ": " << o.plan.chosen.text();
    EXPECT_LE(o.plan.chosen.budget, budget);
  }
}

// What the forecast says is alive at the peak adds up to the peak.
TEST(Compile, TheForecastAddsUp) {
  const Data data(256);
  const Tensor mine = Tensor::zeros({1 << 18}, DType::f32);  // the program's, and no data
  const std::uint64_t minimum = compiled(data, {}).plan.minimum;
  const CompileOptions ways[] = {{.spill = false, .micro_batch = 256},
                                 {.spill = false, .micro_batch = 64},
                                 {},
                                 {.memory = ByteSize{minimum + (256 << 10)}}};
  for (const CompileOptions& way : ways) {
    const plan::Plan p = compiled(data, way).plan;
    const plan::Forecast& f = p.forecast;
    std::uint64_t sum = f.runtime + f.others + f.gaps;
    for (const std::uint64_t bytes : f.at_peak) sum += bytes;
    EXPECT_EQ(sum, f.process) << p;
    EXPECT_LE(f.gaps, p.arena / 50 + 16384) << p;  // what packing adds
    EXPECT_GE(f.others, mine.spec().bytes()) << p;
    EXPECT_LT(f.at_peak[static_cast<int>(Category::data)], std::uint64_t{1} << 20) << p;
  }
}

// What steps took stands beside what they were to take.
TEST(Compile, ThePlanSaysWhatStepsTook) {
  const Variable w("w", Tensor::full({8}, 1.0));
  auto step =
      compile({{"x", {{4, 8}, DType::f32}}}, {}, [&](const Batch& b) { return b["x"] * w; });
  EXPECT_EQ(to_string(step.plan()).find("measured"), std::string::npos);
  const double forecast = step.plan().forecast.seconds;
  const Batch batch{{"x", Tensor::zeros({4, 8}, DType::f32)}};
  for (int i = 0; i < 3; ++i) step(batch);
  EXPECT_EQ(step.plan().forecast.measured.steps, 3u);
  EXPECT_GT(step.plan().forecast.measured.seconds, 0);
  EXPECT_EQ(step.plan().forecast.seconds, forecast);
  EXPECT_NE(to_string(step.plan()).find("over 3 steps"), std::string::npos) << step.plan();
  EXPECT_NE(step.plan().json().find("\"measured_steps\": 3"), std::string::npos);
}

// A budget nobody named: what the machine has, and the plan says whose word that is.
TEST(Compile, TakesTheBudgetFromTheMachine) {
  const Data data(64);
  const Outcome o = compiled(data, {.memory = Memory::from_machine()});
  const process::Available available = process::available();
  EXPECT_GT(o.plan.budget, available.bytes / 2);
  EXPECT_LT(o.plan.budget, available.bytes + available.bytes / 4);
  EXPECT_EQ(o.plan.source.find(available.source), 0u) << o.plan.source;
  EXPECT_NE(to_string(o.plan).find("less 5%"), std::string::npos) << o.plan;
  EXPECT_EQ(o.bytes, eager(data));
}

// Tensors that the program made for itself are bytes of the process too.
TEST(Compile, WhatTheProgramHoldsIsCounted) {
  const Data data(64);
  const plan::Plan before = compiled(data, {}).plan;
  const Tensor mine = random::normal({1024, 2048}, 0, 1, 1, 4);  // 8 MiB
  const plan::Plan after = compiled(data, {}).plan;
  constexpr std::uint64_t kMine = 8 << 20, kSlack = 5 << 20;  // a step of the reserve may come too
  EXPECT_GE(after.minimum, before.minimum + kMine);
  EXPECT_LE(after.minimum, before.minimum + kMine + kSlack);
  // Of code that was to come before, most is there.
  EXPECT_GE(after.forecast.process + (2 << 20), before.forecast.process + kMine);
}

TEST(Compile, BatchesAreTakenByName) {
  auto step = compile({{"x", {{2, 3}, DType::f32}}, {"y", {{2, 3}, DType::f32}}}, {},
                      [](const Batch& b) { return b["x"] - b["y"]; });
  const Tensor x = Tensor::full({2, 3}, 5.0f), y = Tensor::full({2, 3}, 2.0f);
  const auto expected = std::vector<float>(6, 3.0f);
  EXPECT_EQ(step(Batch{{"x", x}, {"y", y}}).to_vector<float>(), expected);
  EXPECT_EQ(step(Batch{{"y", y}, {"x", x}}).to_vector<float>(), expected);
  EXPECT_EQ(step(Batch{{"z", x}, {"y", y}, {"x", x}}).to_vector<float>(), expected);
  try {
    step(Batch{{"image", x}, {"y", y}});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("no column \"x\"; there is image, y"), std::string::npos)
        << e.what();
  }
}

TEST(Compile, OptionsWithoutMeaningAreRefused) {
  const auto error = [](const CompileOptions& options) -> std::string {
    try {
      compile({{"x", {{2, 3}, DType::f32}}}, options, [](const Batch& b) { return relu(b["x"]); });
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error({.micro_batch = -3}).find(".micro_batch is -3"), std::string::npos);
  EXPECT_NE(error({.plans = 0}).find(".plans is 0"), std::string::npos);
  EXPECT_NE(error({.spill_directory = "/no/such"}).find("\"/no/such\" is no directory"),
            std::string::npos);
  EXPECT_EQ(error({.spill = false, .spill_directory = "/no/such"}), "");
  EXPECT_THROW(frontier({{"x", {{2, 3}, DType::f32}}}, {.micro_batch = -3},
                        [](const Batch& b) { return relu(b["x"]); }),
               Error);
}

TEST(Compile, BelowTheMinimumIsRefusedWithAMenu) {
  const Data data(256);
  const std::uint64_t minimum = compiled(data, {}).plan.minimum;
  EXPECT_EQ(compiled(data, {.memory = ByteSize{minimum}}).plan.minimum, minimum);
  try {
    compiled(data, {.memory = ByteSize{minimum - 1}});
    FAIL() << "not refused";
  } catch (const BudgetTooSmall& e) {
    EXPECT_EQ(e.minimum, minimum);
    EXPECT_NE(std::string(e.what()).find(std::to_string(minimum)), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("recompute"), std::string::npos) << e.what();
  }
}

TEST(Compile, TheFrontierIsTheCurveOfTimeOverBudget) {
  // By the figures of one machine, whatever this one is doing: what differs is how far is looked.
  plan::Machine figures;
  figures.threads = pool::threads();
  const std::string path = test::temp_path("frontier-machine");
  write_file(path, plan::to_string(figures));
  setenv("EBB_MACHINE", path.c_str(), 1);
  const Data data(256);
  Deep model{nn::Init(1)};
  optim::AdamW adam(params(model), {.lr = 1e-2});
  const auto fn = [&](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["y"])); };
  const auto budget_of = [](std::uint64_t bytes) {
    return CompileOptions{.memory = ByteSize{bytes}};
  };
  compile(data.spec(), budget_of(std::uint64_t{1} << 40), fn);  // code and tables of a first plan
  const auto before = test::bytes(params(model));
  ledger::reset_peak();
  const std::uint64_t held = ledger::total().live;
  const std::vector<plan::FrontierPoint> curve = frontier(data.spec(), {}, fn);
  EXPECT_LT(ledger::total().peak - held, 64u << 10) << "no arena";
  EXPECT_EQ(test::bytes(params(model)), before);
  EXPECT_EQ(adam.steps(), 0);

  ASSERT_GT(curve.size(), 3u);
  for (std::size_t i = 1; i < curve.size(); ++i) {
    EXPECT_GT(curve[i].budget, curve[i - 1].budget);
    EXPECT_LT(curve[i].seconds, curve[i - 1].seconds);
  }
  try {
    compile(data.spec(), budget_of(curve[0].budget - 1), fn);
    FAIL() << "not refused";
  } catch (const BudgetTooSmall& e) {
    EXPECT_EQ(e.minimum, curve[0].budget);
  }
  for (const plan::FrontierPoint& w : curve) {
    const plan::Plan plan = compile(data.spec(), budget_of(w.budget), fn).plan();
    EXPECT_LE(plan.chosen.budget, w.budget);
    // Micro-batches that are forecast to be a little faster than the whole batch are not believed to
    // be, and fewer sizes of them are looked at.
    EXPECT_LE(plan.chosen.seconds, 1.15 * w.seconds)
        << w.text() << " against " << plan.chosen.text();
  }
  std::remove(path.c_str());
}

TEST(Compile, PartsOfAnySizeGiveTheSameBits) {
  const Data data(23);
  const auto expected = eager(data);
  for (const std::int64_t rows : {1, 3, 7, 22, 23}) {
    const Outcome o = compiled(data, {.allow = Allow::same_bits, .micro_batch = rows});
    EXPECT_EQ(o.plan.runs.size(), static_cast<std::size_t>((23 + rows - 1) / rows));
    EXPECT_EQ(o.bytes, expected) << rows << " rows a part";
  }
}

TEST(Compile, ThreadsGiveTheSameBits) {
  const Data data(64);
  const auto expected = eager(data);
  const int before = pool::threads();
  for (const int threads : {1, 2, 3}) {
    pool::set_threads(threads);
    EXPECT_EQ(compiled(data, {}).bytes, expected) << threads;
  }
  pool::set_threads(before);
}

TEST(Compile, NewShapesArePlannedAndKept) {
  random::seed(7);
  Deep model{nn::Init(1)};
  optim::Sgd sgd(params(model), {.lr = 1e-2});
  int traced = 0;
  auto step = compile(Data(8).spec(), {.plans = 2}, [&](const Batch& b) {
    ++traced;
    return sgd.minimize(mse(model(b["x"]), b["y"]));
  });
  const auto calls = [&](std::int64_t rows) {
    const int before = traced;
    step(Data(rows).batch());
    return traced - before;
  };
  EXPECT_EQ(calls(8), 0);
  EXPECT_GT(calls(5), 0);
  EXPECT_EQ(calls(8), 0);
  EXPECT_EQ(calls(5), 0);
  EXPECT_GT(calls(3), 0);
  EXPECT_EQ(calls(8), 0) << "what the smaller one runs in was dropped";
  EXPECT_GT(calls(5), 0) << "of the others the least recently used was to be dropped";
}

TEST(Compile, EvaluatesWithoutGradients) {
  Deep model{nn::Init(1)};
  const nn::Evaluation evaluation;
  const Data data(10);
  auto predict = compile(data.spec(), {}, [&](const Batch& b) { return model(b["x"]); });
  EXPECT_EQ(predict(data.batch()).to_vector<float>(), model(data.x).to_vector<float>());
  auto in_parts =
      compile(data.spec(), {.micro_batch = 3}, [&](const Batch& b) { return model(b["x"]); });
  EXPECT_EQ(in_parts.plan().runs.size(), 4u);
  EXPECT_EQ(in_parts(data.batch()).to_vector<float>(), model(data.x).to_vector<float>());
}

TEST(Compile, GivesGradientsByInputsAndVariables) {
  Deep model{nn::Init(1)};
  const nn::Evaluation evaluation;
  const Data data(5);
  auto by = compile(data.spec(), {}, [&](const Batch& b) {
    return gradients(mse(model(b["x"]), b["y"]), {b["x"], model.layers[0].weight});
  });
  const std::vector<Tensor> got = by(data.batch());
  Tape tape({.persistent = true});
  tape.watch(data.x);
  const Loss loss = mse(model(data.x), data.y);
  EXPECT_EQ(got[0].to_vector<float>(), tape.gradient(loss.sum, data.x).to_vector<float>());
  EXPECT_EQ(got[1].to_vector<float>(),
            tape.gradient(loss.sum, model.layers[0].weight).to_vector<float>());
}

TEST(Compile, BatchNormIsNotSplit) {
  random::seed(1);
  nn::BatchNorm norm(nn::Init(1), 48);
  nn::Dense dense(nn::Init(1) / "dense", 48, 48);
  std::vector<Variable> all = {norm.weight, norm.bias, dense.weight, dense.bias};
  optim::Sgd sgd(all, {.lr = 1e-2});
  const Data data(1024);
  auto step = compile(data.spec(), {}, [&](const Batch& b) {
    return sgd.minimize(mse(norm(dense(b["x"])), b["y"]));
  });
  for (const plan::FrontierPoint& w : step.plan().frontier) EXPECT_FALSE(w.split) << w.text();
  step(data.batch());
  EXPECT_NE(norm.running_mean.value().data<float>()[0], 0.0f);
}

TEST(Compile, AFailedStepChangesNothing) {
  random::seed(7);
  nn::Dense dense(nn::Init(1), 48, 4);
  optim::Adam adam({dense.weight, dense.bias});
  const Tensor x = Data(3).x;
  const Tensor good = Tensor::from(std::vector<std::int32_t>{0, 1, 2}, {3});
  const Tensor bad = Tensor::from(std::vector<std::int32_t>{0, 9, 2}, {3});
  auto step = compile({{"x", x.spec()}, {"y", good.spec()}}, {}, [&](const Batch& b) {
    return adam.minimize(sparse_cross_entropy(dense(dropout(b["x"], 0.5)), b["y"]));
  });
  step({{"x", x}, {"y", good}});
  const auto before = test::bytes({dense.weight, dense.bias});
  const random::State draws = random::state();
  EXPECT_THROW(step({{"x", x}, {"y", bad}}), Error);
  EXPECT_EQ(test::bytes({dense.weight, dense.bias}), before);
  EXPECT_EQ(adam.steps(), 1);
  EXPECT_EQ(random::state(), draws);
  step({{"x", x}, {"y", good}});
  EXPECT_EQ(adam.steps(), 2);
}

TEST(Compile, AllocatesNothingInSteadyState) {
  random::seed(7);
  Deep model{nn::Init(1)};
  optim::AdamW adam(params(model));
  const Data data(16);
  auto step = compile(data.spec(), {},
                      [&](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["y"])); });
  const Batch batch = data.batch();
  for (int i = 0; i < 3; ++i) step(batch);
  const std::uint64_t takes = memory::FailTake::takes();
  for (int i = 0; i < 10; ++i) step(batch);
  EXPECT_EQ(memory::FailTake::takes(), takes);
}

TEST(Compile, WrongInputsAreRefusedByName) {
  const Data data(4);
  auto step = compile(data.spec(), {}, [](const Batch& b) { return mse(b["x"], b["y"]); });
  try {
    step({{"x", data.x}, {"y", Tensor::zeros({4, 48}, DType::i32)}});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "compiled step: input y is i32(4, 48), it was compiled for f32(4, 48)");
  }
}

TEST(Compile, ValuesThatAreNotThereYet) {
  const BatchSpec spec{{"x", Spec{{2, 3}}}};
  const auto refused = [&](auto fn) {
    const std::string said = test::error_of([&] { compile(spec, {}, fn); });
    EXPECT_NE(said.find("only known when the compiled step runs"), std::string::npos) << said;
  };
  refused([](const Batch& b) {
    const Variable w("w", b["x"]);
    return sum(b["x"]);
  });
  refused([](const Batch& b) {
    return input_gradients([](const Tensor& row) { return row * row; }, b["x"]);
  });
  refused([&](const Batch& b) {
    auto inner = compile(spec, {}, [](const Batch& q) { return q["x"] * 2.0; });
    return inner(b);
  });
  refused([](const Batch& b) {
    save_npy("never.npy", b["x"]);
    return sum(b["x"]);
  });
}

TEST(Compile, ClippingIsSetBefore) {
  Variable w("w", Tensor::of({1, 2}));
  optim::Sgd sgd({w}, {.lr = 1});
  auto step = compile({{"x", Spec{{2}}}}, {},
                      [&](const Batch& b) { return sgd.minimize(mse(w.value(), b["x"])); });
  const Batch batch{{"x", Tensor::of({3, 4})}};
  step(batch);
  sgd.clip_norm(1e-9);
  const std::vector<float> before = w.value().to_vector<float>();
  EXPECT_EQ(test::error_of([&] { step(batch); }),
            "sgd: clipping was changed after the step was compiled, which does not know of it; set "
            "it before, or compile anew");
  EXPECT_EQ(w.value().to_vector<float>(), before);
}

}  // namespace
}  // namespace ebb
