// What parts of a batch may do, and functions whose batch stays whole because parts would give
// something else.
#include <gtest/gtest.h>

#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/softmax.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/optim/ema.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/custom.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kRows = 10;

struct Data {
  Tensor x = random::normal({kRows, 6}, 0, 1, 1, 2), y = random::normal({kRows, 4}, 0, 1, 1, 3);
  Batch batch() const { return {{"x", x}, {"y", y}}; }
  BatchSpec spec() const { return {{"x", x.spec()}, {"y", y.spec()}}; }
};

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

// Whether the batch is taken in parts where that is asked for.
template <class Fn>
bool splits(Fn fn) {
  try {
    return compile(Data().spec(), {.micro_batch = 3}, fn).plan().split();
  } catch (const Error&) {
    return false;
  }
}

struct Training {
  nn::Dense dense{nn::Init(1), 6, 4};
  optim::Adam adam{params(dense)};
  Loss minimize(const Tensor& logits, const Batch& b) { return adam.minimize(mse(logits, b["y"])); }
};

// Rows that no update has touched can be looked at after it: they are made in every part.
TEST(Split, ResultsAfterTheOptimizersStepHaveTheRowsOfEveryPart) {
  const Data data;
  const auto fn = [](Training& t, const Batch& b) {
    const Tensor logits = t.dense(b["x"]);
    const Loss loss = t.minimize(logits, b);
    return std::vector{loss.sum, softmax(logits), exp(logits) * 2, t.dense.bias.value() + 1};
  };
  Training whole, parts;
  auto all = compile(data.spec(), {.split = false}, [&](const Batch& b) { return fn(whole, b); });
  auto step =
      compile(data.spec(), {.micro_batch = 3}, [&](const Batch& b) { return fn(parts, b); });
  EXPECT_EQ(step.plan().runs.size(), 4u);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> expected = all(data.batch()), got = step(data.batch());
    EXPECT_NEAR(got[0].item(), expected[0].item(), 1e-5 * expected[0].item());
    for (int r : {1, 2, 3}) EXPECT_EQ(values(got[r]), values(expected[r])) << "result " << r;
  }
}

TEST(Split, NotWhereRowsMeetWhatTheOptimizersStepMade) {
  Training t;
  EXPECT_FALSE(splits([&](const Batch& b) {
    const Loss loss = t.minimize(t.dense(b["x"]), b);
    return std::vector{loss.sum, t.dense(b["x"])};
  })) << "with the new weights";
  EXPECT_FALSE(splits([&](const Batch& b) {
    const Tensor logits = t.dense(b["x"]);
    const Loss loss = t.minimize(logits, b);
    return std::vector{loss.sum, logits * loss.sum};
  })) << "with the whole sum";
  EXPECT_FALSE(splits([&](const Batch& b) {
    const Tensor logits = t.dense(b["x"]);
    const Loss loss = t.minimize(logits, b);
    return std::vector{loss.sum, sum(logits, {0})};
  })) << "the last part's sums";
}

// What is the same for half of the rows and for all, but not for fewer, is found where fewer are tried.
TEST(Split, NotIntoPartsThatDoSomethingElse) {
  const auto fn = [](Training& t, const Batch& b, int what) {
    const Tensor logits = t.dense(b["x"]);
    const bool few = b.rows() < 4;
    Loss loss = mse(what == 0   ? logits * (few ? 2.0f : 1.0f)
                    : what == 1 ? softmax(logits, few ? 0 : 1)
                                : (few ? relu(logits) : tanh(logits)),
                    b["y"]);
    return t.adam.minimize(loss);
  };
  for (int what = 0; what < 3; ++what) {
    Training t;
    const auto step = [&](const Batch& b) { return fn(t, b, what); };
    const std::uint64_t least = compile(Data().spec(), {.spill = false}, step).plan().minimum;
    const auto rows = compile(Data().spec(), {.memory = ByteSize{least}, .spill = false}, step)
                          .plan()
                          .chosen.micro_batch;
    EXPECT_GE(rows, 4) << what;
    EXPECT_GE(kRows % rows == 0 ? rows : kRows % rows, 4) << what;
  }
  Training t;  // a mean by hand, of the part's rows
  EXPECT_FALSE(splits([&](const Batch& b) {
    const Tensor share = Tensor::full({b.rows(), 1}, 1.0f / static_cast<float>(b.rows()));
    return t.adam.minimize(mse(t.dense(b["x"]) * share, b["y"]));
  }));
}

// A scalar that is made of sums over the rows is made of the whole batch's.
TEST(Split, ScalarResultsAreThoseOfTheWhole) {
  const Data data;
  const auto fn = [](Training& t, const Batch& b, bool train) {
    const Tensor logits = t.dense(b["x"]);
    Loss loss = mse(logits, b["y"]);
    if (train) loss = t.minimize(logits, b);
    const Tensor right = cast(equal(argmax(logits), argmax(b["y"])), DType::i64);
    return std::vector{loss.mean(), exp(loss.mean() * 0.25), sum(logits), sum(right),
                       sum(right) * 3};
  };
  for (const bool train : {true, false}) {
    Training whole, parts;
    auto all =
        compile(data.spec(), {.split = false}, [&](const Batch& b) { return fn(whole, b, train); });
    auto step = compile(data.spec(), {.allow = Allow::same_bits, .micro_batch = 3},
                        [&](const Batch& b) { return fn(parts, b, train); });
    EXPECT_EQ(step.plan().runs.size(), 4u);
    const std::vector<Tensor> expected = all(data.batch()), got = step(data.batch());
    for (std::size_t r = 0; r < got.size(); ++r)
      EXPECT_EQ(got[r].item(), expected[r].item()) << "result " << r << (train ? " trained" : "");
  }
}

// A vector is summed in blocks, which do not go on from row to row: equal up to rounding, and said.
TEST(Split, ASumThatIsNotOneChainIsNoSameBits) {
  Training t;
  const auto fn = [&](const Batch& b) {
    return t.adam.minimize({sum(sum(t.dense(b["x"]), {1})), sum(cast(b["y"] * 0 + 1, DType::i64))});
  };
  EXPECT_EQ(compile(Data().spec(), {.micro_batch = 3}, fn).plan().chosen.label,
            Allow::same_gradient);
  const std::string said = test::error_of(
      [&] { compile(Data().spec(), {.allow = Allow::same_bits, .micro_batch = 3}, fn); });
  EXPECT_NE(said.find("not one chain"), std::string::npos) << said;
}

TEST(Split, NotWhereAViewHoldsSomeRows) {
  EXPECT_FALSE(splits([](const Batch& b) { return relu(b["x"].rows(0, 1)); }));
  EXPECT_FALSE(splits([](const Batch& b) { return b["x"].rows(0, 1); }));
  EXPECT_FALSE(splits([](const Batch& b) {
    const Tensor y = relu(b["x"]);
    return y.rows(y.dim(0) - 1, y.dim(0)) + 1;
  }));
  EXPECT_TRUE(splits([](const Batch& b) { return relu(b["x"].viewed({b["x"].dim(0), 2, 3})); }));
  // The gradient rule of one's own gives its result as a view of the same rows.
  EXPECT_TRUE(splits([](const Batch& b) {
    const Tensor y = custom_gradient(
        [](const Tensor& x) {
          return Custom{exp(x), [](const Tensor& dy) { return std::vector{dy}; }};
        },
        b["x"]);
    return gradients(sum(y * y), {b["x"]})[0];
  }));
  // Of what is the same for every part, such as a variable, a view is as well.
  Training t;
  EXPECT_TRUE(splits(
      [&](const Batch& b) { return b["x"] + t.dense.weight.value().viewed({24}).rows(0, 6); }));
}

TEST(Split, NotWhereAVariableIsAssignedWhatOnePartHolds) {
  Variable stat("stat", Tensor::zeros({6}), false), first("first", Tensor::zeros({1, 6}), false);
  EXPECT_FALSE(splits([&](const Batch& b) {
    stat.assign(sum(b["x"], {0}));
    return relu(b["x"]);
  }));
  Training t;
  EXPECT_FALSE(splits([&](const Batch& b) {
    const Loss loss = t.minimize(t.dense(b["x"]), b);
    stat.assign(sum(b["x"], {0}));
    return loss;
  }));
  EXPECT_FALSE(splits([&](const Batch& b) {
    first.assign(b["x"].rows(0, 1));
    return relu(b["x"]);
  }));
  // The sum over all parts, and what has nothing to do with rows, are assigned once.
  Variable last("last", Tensor::zeros({}), false), count("count", Tensor::zeros({}), false);
  optim::Ema ema(params(t.dense), 0.9);
  const auto fn = [&](const Batch& b) {
    const Loss loss = t.minimize(t.dense(b["x"]), b);
    last.assign(loss.sum);
    count.assign(count.value() + 1);
    ema.update();
    return loss;
  };
  EXPECT_TRUE(splits(fn));
  const Data data;
  auto step = compile(data.spec(), {.micro_batch = 3}, fn);
  EXPECT_EQ(step.plan().runs.size(), 4u);
  for (int i = 0; i < 2; ++i) {
    const Loss loss = step(data.batch());
    EXPECT_EQ(last.value().item(), loss.sum.item());
    EXPECT_EQ(loss.count.item(), kRows * 4);
  }
  EXPECT_EQ(count.value().item(), 2) << "not once a part";
}

// Half the rows would give twice the numbers.
TEST(Split, NotWhereTheNumberOfRowsIsComputedWith) {
  Training t;
  EXPECT_FALSE(splits([&](const Batch& b) {
    const Loss loss = mse(t.dense(b["x"]), b["y"]);
    return t.adam.minimize({loss.sum * (1.0 / static_cast<double>(b["x"].dim(0))), loss.count});
  }));
  EXPECT_TRUE(splits([&](const Batch& b) {
    const Loss loss = mse(t.dense(b["x"]), b["y"]);
    return t.adam.minimize({loss.sum * 0.5, loss.count});
  }));
}

// Nor where an op is told something that is made of it, unless that is the shape of its rows.
TEST(Split, NotWhereAnOpIsToldTheNumberOfRows) {
  const auto said = [](auto fn) {
    return test::error_of([&] { compile(Data().spec(), {.micro_batch = 3}, fn); });
  };
  const std::string cut = said([](const Batch& b) {
    return slice(b["x"], 1, 0, std::min<std::int64_t>(6, b["x"].dim(0) / 2));
  });
  EXPECT_NE(cut.find("what slice is told depends on how many examples there are"),
            std::string::npos)
      << cut;
  const std::string other =
      said([](const Batch& b) { return b["x"].dim(0) > 5 ? exp(b["x"]) : tanh(b["x"]); });
  EXPECT_NE(other.find("what the function does depends on how many examples there are"),
            std::string::npos)
      << other;
  EXPECT_EQ(
      said([](const Batch& b) {
        const std::int64_t rows = b["x"].dim(0);
        return reshape(broadcast_to(reshape(b["x"], {rows, 6, 1}), {rows, 6, 2}), {rows * 6, 2});
      }),
      "no error");
}

// Nobody asked for fewer rows than the function was written for: it is taken as it is.
TEST(Split, AFunctionOfAFixedNumberOfRowsStaysWhole) {
  const Tensor a = random::normal({8, 8}, 0, 1, 1, 2), b = random::normal({8, 4}, 0, 1, 1, 3);
  const BatchSpec spec{{"a", a.spec()}, {"b", b.spec()}};
  const Batch batch{{"a", a}, {"b", b}};
  const auto product = [](const Batch& in) { return matmul(in["a"], in["b"]); };
  EXPECT_EQ(values(compile(spec, {}, product)(batch)), values(matmul(a, b)));

  const auto reshaped = [](const Batch& in) { return relu(reshape(in["a"], {8, 2, 4})); };
  EXPECT_EQ(values(compile(spec, {}, reshaped)(batch)), values(relu(a)));

  Variable state("state", Tensor::zeros({8, 4}), false);
  compile(spec, {}, [&](const Batch& in) {
    state.assign(in["b"] * 2);
    return sum(in["a"]);
  })(batch);
  EXPECT_EQ(values(state.value()), values(b * 2));

  // Pairs of rows: other sizes of parts, or ragged last ones, are left out.
  const auto pairs = [](const Batch& in) {
    return relu(reshape(in["b"], {in["b"].dim(0) / 2, 2, 4}) * 2);
  };
  EXPECT_EQ(values(compile(spec, {}, pairs)(batch)), values(relu(b * 2)));
}

TEST(Split, AFunctionThatDoesNotTakeTheRowsAskedForSaysSo) {
  const BatchSpec spec{{"a", {{8, 8}, DType::f32}}, {"b", {{8, 4}, DType::f32}}};
  const std::string error = test::error_of([&] {
    compile(spec, {.micro_batch = 3}, [](const Batch& in) { return matmul(in["a"], in["b"]); });
  });
  EXPECT_NE(error.find(".micro_batch is 3"), std::string::npos) << error;
  EXPECT_NE(error.find("matmul"), std::string::npos) << error;
}

// What is no mistake of the function's is not taken for one.
TEST(Split, WhereMemoryRunsOutWhilePlanningItIsSaid) {
  EXPECT_THROW(compile(Data().spec(), {},
                       [](const Batch& in) {
                         if (in["x"].dim(0) < kRows) throw OutOfMemory("no more");
                         return relu(in["x"]);
                       }),
               OutOfMemory);
  EXPECT_THROW(compile(Data().spec(), {},
                       [](const Batch& in) {
                         if (in["x"].dim(0) < kRows) throw std::logic_error("a bug");
                         return relu(in["x"]);
                       }),
               std::logic_error);
}

struct Normed {
  nn::Dense dense{nn::Init(1), 6, 4};
  nn::BatchNorm norm{nn::Init(1) / "norm", 4};
  std::vector<Variable> all{dense.weight, dense.bias, norm.weight, norm.bias};
  optim::Sgd sgd{all, {.lr = 0.1}};
  Tensor operator()(const Tensor& x) const { return norm(dense(x)); }
};

// As if each part were a batch, but for the optimizer, which makes one step of them all.
TEST(SplitMixed, EachPartIsNormalisedByItself) {
  const Data data;
  Normed compiled, eager;
  auto step = compile(data.spec(), {.independent_micro_batches = true, .micro_batch = 4},
                      [&](const Batch& b) {
                        const Tensor y = compiled(b["x"]);
                        const Loss loss = compiled.sgd.minimize(mse(y, b["y"]));
                        return std::vector{loss.sum, loss.count, y};
                      });
  const plan::Plan& plan = step.plan();
  ASSERT_EQ(plan.runs.size(), 3u);
  EXPECT_EQ(plan.runs.back().examples, 2);
  EXPECT_EQ(plan.chosen.label, Allow::approximate);
  EXPECT_TRUE(plan.chosen.mixed);
  EXPECT_NE(to_string(plan).find("each micro-batch is a batch of its own: examples depend on each "
                                 "other in batch_norm_train in norm"),
            std::string::npos)
      << plan;
  EXPECT_NE(plan.json().find("\"mixed\": true"), std::string::npos);

  for (int i = 0; i < 3; ++i) {
    optim::Accumulator gathered(eager.all);
    std::vector<float> y;
    double sum = 0;
    for (std::int64_t row = 0; row < kRows; row += 4) {
      const std::int64_t end = std::min(kRows, row + 4);
      Tape tape;
      const Tensor part = eager(data.x.rows(row, end));
      const Loss loss = mse(part, data.y.rows(row, end));
      gathered.add(tape, loss);
      sum += loss.sum.item();
      for (const float v : values(part)) y.push_back(v);
    }
    eager.sgd.step(gathered);
    const std::vector<Tensor> got = step(data.batch());
    EXPECT_NEAR(got[0].item(), sum, 1e-5 * sum);
    EXPECT_EQ(got[1].item(), kRows * 4);
    ASSERT_EQ(values(got[2]).size(), y.size());
    for (std::size_t k = 0; k < y.size(); ++k) EXPECT_NEAR(values(got[2])[k], y[k], 1e-5);
    const auto near = [&](const Variable& a, const Variable& b) {
      for (std::size_t k = 0; k < values(a.value()).size(); ++k)
        EXPECT_NEAR(values(a.value())[k], values(b.value())[k], 1e-5) << a.name();
    };
    for (std::size_t v = 0; v < eager.all.size(); ++v) near(compiled.all[v], eager.all[v]);
    near(compiled.norm.running_mean, eager.norm.running_mean);
    near(compiled.norm.running_var, eager.norm.running_var);
  }
}

TEST(SplitMixed, SaysWhatItDoesOnlyWhereItDoes) {
  Normed model;
  const auto fn = [&](const Batch& b) { return model.sgd.minimize(mse(model(b["x"]), b["y"])); };
  EXPECT_FALSE(splits(fn));
  const BatchSpec many{{"x", {{4096, 6}, DType::f32}}, {"y", {{4096, 4}, DType::f32}}};
  const auto mixed = compile(many, {.independent_micro_batches = true}, fn);
  bool any = false;
  for (const plan::FrontierPoint& w : mixed.plan().frontier) {
    any |= w.split;
    EXPECT_EQ(w.label, w.split ? Allow::approximate : Allow::same_bits) << w.text();
    EXPECT_EQ(w.mixed, w.split);
  }
  EXPECT_TRUE(any);
  // Where rows do not depend on each other it changes nothing.
  Training t;
  const auto step = compile(Data().spec(), {.independent_micro_batches = true, .micro_batch = 3},
                            [&](const Batch& b) { return t.minimize(t.dense(b["x"]), b); });
  EXPECT_EQ(step.plan().chosen.label, Allow::same_bits);
  EXPECT_EQ(step.plan().approximate, "");
}

// Running statistics have gone on with the parts before: what is there is a mixture.
TEST(SplitMixed, AFailureInALaterPartTearsTheStep) {
  nn::BatchNorm norm{nn::Init(1), 6};
  freeze(norm);
  nn::Dense dense{nn::Init(1), 6, 3};
  optim::Sgd sgd({dense.weight, dense.bias});
  const Tensor x = random::normal({6, 6}, 0, 1, 1, 2);
  const Tensor good = Tensor::from(std::vector<std::int32_t>{0, 1, 2, 0, 1, 2}, {6});
  const Tensor late = Tensor::from(std::vector<std::int32_t>{0, 1, 2, 0, 1, 9}, {6});
  auto step = compile({{"x", x.spec()}, {"y", good.spec()}},
                      {.independent_micro_batches = true, .micro_batch = 2}, [&](const Batch& b) {
                        return sgd.minimize(sparse_cross_entropy(dense(norm(b["x"])), b["y"]));
                      });
  step({{"x", x}, {"y", good}});
  EXPECT_THROW(step({{"x", x}, {"y", late}}), Error);
  EXPECT_TRUE(step.executor().torn());
  const std::string error = test::error_of([&] { step({{"x", x}, {"y", good}}); });
  EXPECT_NE(error.find("mixture"), std::string::npos) << error;
}

// Every part finds them where the one before has left them.
TEST(SplitMixed, StatisticsGoOnWhereStateIsSpilled) {
  const Tensor x = random::normal({kRows, 64}, 0, 1, 1, 2);
  std::vector<float> expected;
  std::uint64_t budget = 0;
  for (const bool spilled : {false, true}) {
    std::vector<nn::Dense> up, down;
    std::vector<nn::BatchNorm> norms;
    std::vector<Variable> all;
    for (int i = 0; i < 4; ++i) {
      up.emplace_back(nn::Init(1) / i, 64, 4096);
      norms.emplace_back(nn::Init(1) / i, 4096);
      down.emplace_back(nn::Init(2) / i, 4096, 64);
      all.insert(all.end(), {up[i].weight, norms[i].weight, norms[i].bias, down[i].weight});
      freeze(up[i].bias);
      freeze(down[i].bias);
    }
    optim::Adam adam(all);
    const auto planned = [&] {
      return compile(
          {{"x", x.spec()}},
          {.memory = ByteSize{budget}, .independent_micro_batches = true, .micro_batch = 4},
          [&](const Batch& b) {
            Tensor y = b["x"];
            for (int i = 0; i < 4; ++i) y = down[i](relu(norms[i](up[i](y))));
            return adam.minimize(mse(y, Tensor::zeros(y.shape())));
          });
    };
    auto step = [&] {
      try {
        return planned();
      } catch (const BudgetTooSmall& e) {  // the process has grown meanwhile
        budget = e.minimum + (256 << 10);
        return planned();
      }
    }();
    EXPECT_EQ(step.plan().chosen.state_spilled, spilled) << step.plan();
    EXPECT_EQ(step.plan().runs.size(), 3u);
    for (int i = 0; i < 2; ++i) step({{"x", x}});
    const std::vector<float> got = values(norms[3].running_var.value());
    if (spilled) {
      EXPECT_EQ(got, expected);
    }
    EXPECT_NE(got[0], 1.0f);
    expected = got;
    budget = step.plan().minimum + (256 << 10);
  }
}

// An option that cannot be met is not dropped.
TEST(Split, RowsThatCannotBeHadAreRefused) {
  const Data data;
  const auto error = [&](const CompileOptions& options, auto fn) {
    return test::error_of([&] { compile(data.spec(), options, fn); });
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto plain = [](const Batch& b) { return relu(b["x"]); };
  has(error({.split = false, .micro_batch = 3}, plain), ".micro_batch is 3, but .split = false");
  EXPECT_EQ(error({.micro_batch = kRows}, plain), "no error");
  EXPECT_EQ(error({.micro_batch = kRows + 5}, plain), "no error");

  Normed normed;
  const auto training = [&](const Batch& b) {
    return normed.sgd.minimize(mse(normed(b["x"]), b["y"]));
  };
  has(error({.micro_batch = 3}, training),
      "examples depend on each other in batch_norm_train in norm");
  EXPECT_EQ(error({.micro_batch = kRows}, training), "no error") << "all rows are one part";

  const auto some = [](const Batch& b) { return relu(b["x"].rows(0, 1)); };
  has(error({.micro_batch = 3}, some), "relu reads some examples of the batch");
  Variable stat("stat", Tensor::zeros({6}), false);
  const auto assigning = [&](const Batch& b) {
    stat.assign(sum(b["x"], {0}));
    return relu(b["x"]);
  };
  has(error({.micro_batch = 3}, assigning), "variable stat is assigned a sum over the examples");
  Training t;
  const auto after = [&](const Batch& b) {
    const Loss loss = t.minimize(t.dense(b["x"]), b);
    return std::vector{loss.sum, t.dense(b["x"])};
  };
  has(error({.micro_batch = 3}, after), "reads examples after the optimizer's step");

  const std::string apart = test::error_of([&] {
    compile({{"a", {{8, 2}, DType::f32}}, {"b", {{3, 2}, DType::f32}}}, {.micro_batch = 2},
            [](const Batch& b) {
              return std::vector{relu(b["a"]), relu(b["b"])};
            });
  });
  has(apart, "no first axis in common");
}

TEST(Split, WhatSameBitsForbidsIsRefused) {
  const Data data;
  Variable w("w", random::normal({6, 6}, 0, 0.3, 5, 5));
  optim::Sgd sgd({w});
  const auto tied = [&](const Batch& b) {  // one weight, used twice
    const Tensor y = matmul(tanh(matmul(b["x"], w)), w);
    return sgd.minimize(mse(y, b["x"]));
  };
  const auto error = [&](const CompileOptions& options) {
    return test::error_of([&] { compile(data.spec(), options, tied); });
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error({.allow = Allow::same_bits, .micro_batch = 7}),
      "with .allow = same_bits: sum 0 over the examples");
  EXPECT_EQ(error({.micro_batch = 7}), "no error");
  EXPECT_EQ(error({.allow = Allow::same_bits}), "no error");
  EXPECT_EQ(error({.allow = Allow::same_bits, .micro_batch = kRows}), "no error");
  has(error({.allow = Allow::same_bits, .approximate = {.activations = DType::bf16}}),
      ".approximate stores activations in bf16");
  has(error({.allow = Allow::same_bits, .independent_micro_batches = true}),
      ".independent_micro_batches");
}

}  // namespace
}  // namespace ebb
