// One budget, and what a program does beside its steps: shorter sequences, compiling again, saving and
// prefetching on other threads, another number of threads.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "ebb/base/memory/budget.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/nn/recurrent_models.hpp"
#include "ebb/nn/transformer.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/save.hpp"
#include "tests/error_of.hpp"
#include "tests/exec/budget_program.hpp"

namespace ebb {
namespace {

using test::error_of;
using test::Program;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t times(std::uint64_t bytes, double factor) {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * factor);
}

struct SmallGpt {
  nn::Gpt model{nn::Init(1),
                {.vocabulary = 97, .context = 64, .layers = 3, .width = 64, .heads = 4}};
  optim::AdamW adam{params(model), {.lr = 1e-3}};
  BatchSpec spec{{"ids", {{16, 64}, DType::i32}}, {"next", {{16, 64}, DType::i32}}};

  auto train(CompileOptions options) {
    return compile(spec, options, [this](const Batch& b) {
      return adam.minimize(model.loss(b["ids"], b["next"]));
    });
  }
  static Batch batch(std::int64_t rows, std::int64_t length) {
    const Tensor ids = Tensor::zeros({rows, length}, DType::i32);
    return {{"ids", ids}, {"next", ids}};
  }
};

// For a shorter sequence the model calls other ops than for a whole one, so it is planned anew.
TEST(BudgetBeside, ShorterSequencesInWhatWasPromised) {
  SmallGpt p;
  const std::uint64_t least = [&] { return p.train({}).plan().minimum; }();
  for (const double factor : {1.0, 1.1, 1.3, 2.0}) {
    auto train = p.train({.memory = ByteSize{times(least, factor)}});
    for (const auto& [rows, length] :
         {std::pair{16, 64}, {16, 48}, {16, 33}, {16, 64}, {5, 64}, {3, 7}, {16, 50}, {16, 64}})
      EXPECT_EQ(error_of([&] { train(SmallGpt::batch(rows, length)); }), "no error")
          << rows << " x " << length << " at " << factor;
    EXPECT_LE(memory::held() + runtime::reserve(), times(least, factor));
  }
}

// A function that does something else for a shorter input is planned for it, or refused; then it goes on with
// what it was compiled for.
TEST(BudgetBeside, OtherCallsForAShorterInput) {
  SmallGpt p;
  const auto train_in = [&](CompileOptions options) {
    return compile(p.spec, options, [&](const Batch& b) {
      Loss loss = p.model.loss(b["ids"], b["next"]);
      if (b["ids"].dim(1) < 64) loss = loss + p.model.loss(b["next"], b["ids"]);
      return p.adam.minimize(loss);
    });
  };
  const std::uint64_t least = [&] { return train_in({}).plan().minimum; }();
  for (const double factor : {1.0, 1.1}) {
    auto train = train_in({.memory = ByteSize{times(least, factor)}});
    for (int i = 0; i < 2; ++i)
      for (const auto& [rows, length] : {std::pair{16, 64}, {16, 48}, {16, 64}, {3, 7}, {5, 64}}) {
        std::string error = error_of([&] { train(SmallGpt::batch(rows, length)); });
        if (length < 64 && error.find("too small") != std::string::npos) error = "no error";
        EXPECT_EQ(error.substr(0, 300), "no error") << rows << " x " << length << " at " << factor;
      }
  }
}

// A small shape that keeps its variables in memory, in turn with a large one that has them in its file.
TEST(BudgetBeside, TwoLengthsInTurn) {
  nn::LstmLm lm(nn::Init(1),
                {.vocabulary = 300, .embedding = 64, .hidden = 96, .layers = 2, .bias = false});
  optim::Adam adam(params(lm), {.lr = 1e-3, .lazy = true});
  const BatchSpec spec{{"ids", {{16, 48}, DType::i32}}, {"next", {{16, 48}, DType::i32}}};
  const auto train_in = [&](CompileOptions options) {
    options.allow = Allow::same_bits;
    return compile(spec, options,
                   [&](const Batch& b) { return adam.minimize(lm.loss(b["ids"], b["next"])); });
  };
  const std::uint64_t least = [&] { return train_in({}).plan().minimum; }();
  auto train = train_in({.memory = ByteSize{least}});
  for (int i = 0; i < 3; ++i)
    for (const auto& [rows, length] : {std::pair{16, 48}, {3, 5}})
      EXPECT_EQ(error_of([&] { train(SmallGpt::batch(rows, length)); }), "no error")
          << rows << " x " << length;
}

// The file of a step that is gone does not stay in the way of one that keeps its variables in memory.
TEST(BudgetBeside, ACompiledAgainStepTakesItsVariablesBack) {
  Program p;
  const std::uint64_t least = [&] { return p.train({}).plan().minimum; }();
  for (const double factor : {1.0, 1.02, 1.05, 1.08, 1.1, 1.15, 1.3}) {
    {
      auto train = p.train({.memory = ByteSize{least}});
      for (const Batch& b : p.data.epoch(0)) train(b);
    }
    auto train = p.train({.memory = ByteSize{times(least, factor)}});
    EXPECT_EQ(error_of([&] {
                for (const Batch& b : p.data.epoch(0)) train(b);
              }),
              "no error")
        << factor;
  }
}

TEST(BudgetBeside, SavingOnOneThreadAndStepsOnAnother) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "ebb_saving_beside.safetensors").string();
  Program one, other;
  std::uint64_t least = 0;
  {
    auto a = one.train({}), b = other.train({});
    least = smallest_budget();
  }
  for (const double factor : {1.0, 1.1}) {
    const Budget budget(ByteSize{times(least, factor)});
    auto a = one.train({}), b = other.train({});
    std::string saving;
    {
      std::jthread saver([&] {
        saving = error_of([&] {
          for (int i = 0; i < 5; ++i) {
            save(path, one.model, one.adam);
            load(path, one.model, one.adam);
          }
        });
      });
      for (int i = 0; i < 6; ++i)
        for (const Batch& batch : other.data.epoch(0))
          EXPECT_EQ(error_of([&] { b(batch); }), "no error") << factor;
    }
    EXPECT_EQ(saving, "no error") << factor;
  }
  std::filesystem::remove(path);
}

TEST(BudgetBeside, ARefusedCompileDoesNotDisturbBatchesThatAreMadeAhead) {
  Program p;
  auto train = p.train({});
  std::atomic<bool> stop = false;
  std::string walking;
  {
    std::jthread walker([&] {
      walking = error_of([&] {
        while (!stop)
          for (const Batch& b : p.data.prefetch(4).epoch(0)) ASSERT_GT(b.rows(), 0);
      });
    });
    for (int i = 0; i < 10; ++i)
      EXPECT_THROW((void)p.test({.memory = ByteSize{kMiB}}), BudgetTooSmall);
    stop = true;
  }
  EXPECT_EQ(walking, "no error");
}

TEST(BudgetBeside, AnotherNumberOfThreadsAndBack) {
  Program p;
  const int all = pool::threads();
  pool::set_threads(1);
  const std::uint64_t least = [&] { return p.train({}).plan().minimum; }();
  pool::set_threads(2);
  const std::uint64_t least_of_two = [&] { return p.train({}).plan().minimum; }();
  for (const double factor : {1.0, 1.1, 1.5}) {
    pool::set_threads(1);
    auto train = p.train({.memory = ByteSize{times(std::max(least, least_of_two), factor)}});
    for (const int threads : {1, 2, 1, 2, 1}) {
      pool::set_threads(threads);
      EXPECT_EQ(error_of([&] {
                  for (const Batch& b : p.data.epoch(0)) train(b);
                }),
                "no error")
          << threads << " threads at " << factor;
    }
  }
  // Where it is enough for one thread and not for two, the refusal names what is.
  if (least < least_of_two) {
    pool::set_threads(1);
    auto train = p.train({.memory = ByteSize{least}});
    pool::set_threads(2);
    try {
      for (const Batch& b : p.data.epoch(0)) train(b);
      ADD_FAILURE() << "two threads in the memory of one";
    } catch (const BudgetTooSmall& e) {
      EXPECT_EQ(e.minimum, least_of_two);
    }
    pool::set_threads(1);
    for (const Batch& b : p.data.epoch(0)) train(b);
  }
  pool::set_threads(all);
}

// The smallest plan keeps variables in the file, and the last batch has a plan of its own beside it.
TEST(BudgetBeside, TheNamedMinimumIsEnoughForASmallerLastBatch) {
  nn::Mlp model(nn::Init(1), {784, 512, 256, 10});
  optim::AdamW adam(params(model), {.lr = 1e-3});
  const Dataset data = Dataset::of({{"x", random::normal({900, 784}, 0, 1, 3, 4)},
                                    {"y", Tensor::zeros({900}, DType::i32)}})
                           .batch(256);
  const auto train_in = [&](CompileOptions options) {
    return compile(data.spec(), options, [&](const Batch& b) {
      return adam.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
    });
  };
  const std::uint64_t least = [&] { return train_in({}).plan().minimum; }();
  EXPECT_EQ(error_of([&] {
              auto train = train_in({.memory = ByteSize{least}});
              for (const Batch& b : data.epoch(0)) train(b);
            }).substr(0, 200),
            "no error");
  // A refusal names a budget that is accepted, too.
  std::uint64_t named = 0;
  try {
    train_in({.memory = ByteSize{least - 2 * kMiB}});
  } catch (const BudgetTooSmall& e) {
    named = e.minimum;
  }
  EXPECT_EQ(error_of([&] { train_in({.memory = ByteSize{named}}); }).substr(0, 200), "no error");
  EXPECT_LE(named, least);
}

// A program that could hold its data otherwise: smallest budget and frontier are those of the way that takes least, and a
// refusal names it.
TEST(BudgetBeside, TheSmallestIsThatOfTheOtherWay) {
  Program p;
  struct Asked {
    std::uint64_t smallest;
    std::vector<plan::FrontierPoint> frontier;
  };
  const auto asked = [&] {
    const auto train = p.train({});
    return Asked{smallest_budget(), train.plan().frontier};
  };
  const Asked without = asked();
  const Spec rows{{10 * static_cast<std::int64_t>(kMiB)}, DType::u8};
  const auto charge = static_cast<std::int64_t>(Tensor::charge(rows));
  const Tensor held = Tensor::uninitialized(rows, "rows", Category::data);
  const std::uint64_t with = asked().smallest;
  EXPECT_GE(with, without.smallest + 10 * kMiB);
  const auto said = [&](std::int64_t more_held, std::int64_t dealing, std::uint64_t from) {
    const HeldOtherwise otherwise(
        {.in_files = exec::OtherWay{more_held, dealing}, .in_memory_from = from});
    return asked();
  };
  constexpr std::uint64_t kAlways = ~std::uint64_t{0};
  EXPECT_EQ(said(-charge, 0, kAlways).smallest, without.smallest);
  EXPECT_EQ(said(-charge, 0, kAlways).frontier, without.frontier);
  EXPECT_EQ(said(-charge, kMiB, kAlways).smallest, without.smallest + kMiB);
  EXPECT_EQ(said(0, kMiB, kAlways).smallest, with) << "it takes more";
  // Budgets from which on the rows are in memory are those of plans that leave room for them.
  const std::vector<plan::FrontierPoint> mixed = said(-charge, 0, with + kMiB).frontier;
  ASSERT_EQ(mixed.size(), without.frontier.size());
  for (std::size_t i = 0; i < mixed.size(); ++i)
    EXPECT_EQ(mixed[i].budget, without.frontier[i].budget < with + kMiB
                                   ? without.frontier[i].budget
                                   : without.frontier[i].budget + with - without.smallest);

  const HeldOtherwise otherwise(
      {.in_files = exec::OtherWay{-charge, 0}, .in_memory_from = kAlways});
  try {
    (void)p.train({.memory = ByteSize{with - 1}});
    ADD_FAILURE() << "it is too little as it is";
  } catch (const BudgetTooSmall& e) {
    EXPECT_EQ(e.minimum, without.smallest);
  }
  EXPECT_EQ(error_of([&] { (void)p.train({.memory = ByteSize{with}}); }), "no error");
}

// Of the last batch it does something else, so that has a plan of its own.
TEST(BudgetBeside, TheNamedMinimumIsEnoughForALastBatchOfOtherCalls) {
  Program p;
  const auto train_in = [&](CompileOptions options) {
    return compile(p.data.spec(), options, [&](const Batch& b) {
      Loss loss = p.loss(b);
      if (b.rows() < 32) loss = loss + sparse_cross_entropy(p.model(tanh(b["x"])), b["y"]);
      return p.adam.minimize(loss);
    });
  };
  const std::uint64_t least = [&] {
    auto train = train_in({});
    return smallest_budget();
  }();
  for (const double factor : {1.0, 1.01, 1.03, 1.06, 1.1, 1.2, 1.4})
    EXPECT_EQ(error_of([&] {
                auto train = train_in({.memory = ByteSize{times(least, factor)}});
                for (const Batch& b : p.data.epoch(0)) train(b);
              }).substr(0, 200),
              "no error")
        << factor;
}

// Batches of a data set that the compiled function knows nothing of come out of the program's own room.
TEST(BudgetBeside, BatchesThatNobodyDeclaredTakeTheProgramsRoom) {
  Program p;
  const memory::Room room(2 * kMiB);
  const BatchSpec own{{"x", {{32, 256}, DType::f32}}, {"y", {{32}, DType::i32}}};
  const auto train_in = [&](CompileOptions options) {
    return compile(own, options, [&](const Batch& b) { return p.adam.minimize(p.loss(b)); });
  };
  const std::uint64_t least = [&] { return train_in({}).plan().minimum; }();
  auto train = train_in({.memory = ByteSize{least}});
  EXPECT_EQ(error_of([&] {
              for (const Batch& b : p.data.prefetch(4).epoch(0)) train(b);
            }).substr(0, 200),
            "no error");
}

}  // namespace
}  // namespace ebb
