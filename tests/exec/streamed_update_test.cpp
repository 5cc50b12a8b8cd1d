// Updates whose state goes through memory in pieces: the bits of eager steps, in less memory than
// the state needs, and no mixture where the file fails.
#include <gtest/gtest.h>

#include <optional>

#include "ebb/base/files/file_faults.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/bytes.hpp"
#include "tests/exec/failed_transfers.hpp"

namespace ebb {
namespace {

// A table of four pieces and a part of a fifth, embedding and head in one: all rows have a
// gradient.
constexpr std::int64_t kRows = 6, kTable = 70001, kWidth = 32;
static_assert(kTable * kWidth > 4 * plan::kPiece && kTable * kWidth % plan::kPiece != 0);

Batch batch(int step) {
  std::vector<std::int64_t> ids, labels;
  for (int i = 0; i < kRows; ++i) {
    ids.push_back((i * i * 31 + step * 7) % kTable);
    labels.push_back((i * 17389 + step) % kTable);
  }
  return {{"ids", Tensor::from(ids, {kRows})}, {"labels", Tensor::from(labels, {kRows})}};
}

template <class Optimizer>
struct Trial {
  Variable table{"table", random::normal({kTable, kWidth}, 0, 1, 1, 2)};
  Optimizer optimizer;
  explicit Trial(auto options) : optimizer({table}, options) {}

  Loss step(const Batch& b) {
    return optimizer.minimize(linear_cross_entropy(embedding(table, b["ids"]), table, b["labels"]));
  }
  auto compiled(CompileOptions options) {
    const Spec ids{{kRows}, DType::i64};
    return compile({{"ids", ids}, {"labels", ids}}, options,
                   [this](const Batch& b) { return step(b); });
  }
  // Of the table and of all that the optimizer keeps, wherever it lies.
  test::Bytes bytes() const {
    std::vector<Variable> all = optimizer.state();
    all.push_back(table);
    return test::bytes(all);
  }
};

// The smallest budget, and a little more: what the program holds beside the step varies.
CompileOptions tight(auto& trial) {
  CompileOptions options{.split = false, .gradient_blocks = false};
  options.memory = ByteSize{trial.compiled(options).plan().minimum + (std::uint64_t{1} << 20)};
  return options;
}

template <class Optimizer>
void expect_same_bits(auto options) {
  Trial<Optimizer> eager(options), streamed(options);
  for (int i = 0; i < 3; ++i) {
    Tape tape;
    eager.step(batch(i));
  }
  auto step = streamed.compiled(tight(streamed));
  const plan::Plan& plan = step.plan();
  ASSERT_EQ(plan.programs.back().lowered.streams.size(), 1u) << plan;
  EXPECT_LT(plan.resident + plan.arena, 2 * streamed.table.spec().bytes() +
                                            plan::kPiecesAtOnce * plan::kPiece * sizeof(float) * 2 +
                                            (1 << 20));
  for (int i = 0; i < 3; ++i) step(batch(i));
  EXPECT_EQ(streamed.bytes(), eager.bytes());
}

TEST(StreamedUpdate, AdamHasTheBitsOfEagerSteps) {
  expect_same_bits<optim::AdamW>(optim::AdamWOptions{.lr = 1e-2});
}
TEST(StreamedUpdate, MomentumHasTheBitsOfEagerSteps) {
  expect_same_bits<optim::Sgd>(optim::SgdOptions{.lr = 1e-2, .momentum = 0.9});
}

TEST(StreamedUpdate, WhatTheProgramWritesBetweenStepsIsUsed) {
  const optim::AdamWOptions options{.lr = 1e-2};
  Trial<optim::AdamW> eager(options), streamed(options);
  const auto write = [](Trial<optim::AdamW>& t, int i) {
    for (Variable& v : t.optimizer.state())
      if (v.spec() == t.table.spec()) v.assign(random::normal(v.shape(), 1, 0.1, 3, i));
  };
  for (int i = 0; i < 3; ++i) {
    {
      Tape tape;
      eager.step(batch(i));
    }
    write(eager, i);
  }
  CompileOptions small = tight(streamed);
  // The tensors that are assigned, and their values until the next step.
  const std::uint64_t more = 3 * streamed.table.charge();
  const memory::Room room(more);
  small.memory.bytes += more;
  auto step = streamed.compiled(small);
  ASSERT_FALSE(step.plan().programs.back().lowered.streams.empty());
  for (int i = 0; i < 3; ++i) {
    step(batch(i));
    write(streamed, i);
  }
  EXPECT_EQ(streamed.bytes(), eager.bytes());
}

TEST(StreamedUpdate, AFailedTransferLeavesNoMixture) {
  using Run = Trial<optim::AdamW>;
  const optim::AdamWOptions options{.lr = 1e-2};
  const CompileOptions compile_options = [&] {  // what is held here would count there
    Run first(options);
    return tight(first);
  }();
  test::expect_no_mixture(
      {1, 2, 5, 9, 13}, [&] { return Run(options); },
      [&](Run& run) {
        auto step = run.compiled(compile_options);
        EXPECT_FALSE(step.plan().programs.back().lowered.streams.empty());
        return step;
      },
      [](const Run&, int i) { return batch(i); });
}

}  // namespace
}  // namespace ebb
