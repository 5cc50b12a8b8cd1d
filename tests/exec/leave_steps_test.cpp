// A step that is left half way never was: whatever call it is left before, the same step taken again
// gives the bits of a run that nobody left; and once it updates it is not left any more.
#include "ebb/exec/leave_steps.hpp"

#include <gtest/gtest.h>

#include "ebb/exec/compile.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "tests/bytes.hpp"

namespace ebb::exec {
namespace {

struct Net {
  nn::Mlp mlp;
  optim::Adam adam;
  explicit Net(std::int64_t width)
      : mlp(nn::Init(1), {48, width, width, 4}, {.dropout = 0.2}),
        adam(params(mlp), {.lr = 1e-2}) {}
};

Batch batch_of(int step) {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 32; ++i) labels.push_back((i * 7 + step) % 4);
  return {{"x", random::normal({32, 48}, 0, 1, 9, static_cast<std::uint64_t>(step) + 1)},
          {"y", Tensor::from(labels, {32})}};
}

// Weights and state after four steps, each of which is left before call `at` first, where it has one that
// can be left. `left` counts those.
std::vector<std::vector<std::byte>> after_steps(CompileOptions options, bool spills, int at,
                                                int& left) {
  random::seed(7);
  Net net(spills ? 1600 : 96);
  const BatchSpec spec{{"x", {{32, 48}, DType::f32}}, {"y", {{32}, DType::i32}}};
  const auto function = [&](const Batch& b) {
    return net.adam.minimize(sparse_cross_entropy(net.mlp(b["x"]), b["y"]));
  };
  if (spills) {  // in as little as it says, with the net there
    const std::uint64_t least = compile(spec, options, function).plan().minimum;
    options.memory = ByteSize{least + least / 20};
  }
  auto step = compile(spec, options, function);
  EXPECT_EQ(step.plan().forecast.spilled > 0, spills);
  for (int i = 0; i < 4; ++i) {
    if (at >= 0) {
      int calls = 0;
      const LeaveSteps leave([&] { return calls++ == at; });
      try {
        step(batch_of(i));
        continue;  // it had begun to update
      } catch (const StepLeft&) {
        ++left;
      }
    }
    EXPECT_FALSE(LeaveSteps::asked());
    step(batch_of(i));
  }
  std::vector<Variable> all = params(net.mlp);
  for (const Variable& v : net.adam.state()) all.push_back(v);
  return test::bytes(all);
}

void expect_same_bits(const CompileOptions& options, bool spills = false) {
  int none = 0, most = 0;
  const auto whole = after_steps(options, spills, -1, none);
  for (int at = 0;; ++at) {
    int left = 0;
    EXPECT_EQ(after_steps(options, spills, at, left), whole) << "left before call " << at;
    if (left == 0) break;
    EXPECT_EQ(left, 4);
    most = at;
  }
  EXPECT_GT(most, 5);
}

TEST(LeaveSteps, AStepThatIsLeftNeverWas) { expect_same_bits({}); }
TEST(LeaveSteps, NorInMicroBatches) { expect_same_bits({.micro_batch = 11}); }
TEST(LeaveSteps, NorWhereStateIsSpilled) { expect_same_bits({}, true); }

}  // namespace
}  // namespace ebb::exec
