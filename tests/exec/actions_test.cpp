// From a plan to addresses and actions: every pointer is in its place before anything runs.
#include "ebb/exec/actions.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ebb/exec/compile.hpp"
#include "ebb/exec/results.hpp"
#include "ebb/exec/spill/planned_spill.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "tests/exec/deep.hpp"

namespace ebb::exec {
namespace {

using test::Deep;

struct Training {
  Deep model{nn::Init(1)};
  optim::Adam adam{params(model)};

  plan::Plan plan(CompileOptions options) {
    const Spec spec{{64, 256}, DType::f32};
    return compile({{"x", spec}, {"y", spec}}, std::move(options),
                   [this](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["y"])); })
        .plan();
  }
};

// A program of the plan, bound to an arena that nobody computes in.
struct Bound {
  explicit Bound(const plan::Plan& plan, const SpilledVariables* spilled = nullptr)
      : program(plan.programs.back()),
        arena(plan.arena),
        values(plan),
        resident(plan, spilled),
        addresses(plan, program, arena.data(), values),
        actions(make_actions(program, addresses, spilled, resident)),
        results(find_results(plan, program, addresses, resident)) {}

  bool in_arena(const void* data) const {
    return data >= arena.data() && data < arena.data() + arena.size();
  }

  const plan::Program& program;
  std::vector<std::byte> arena;
  StepValues values;
  ResidentVariables resident;
  Addresses addresses;
  Actions actions;
  Results results;
};

TEST(Addresses, OfWhatStaysInTheArenaAreThePlansOffsets) {
  Training training;
  const plan::Plan plan = training.plan({});
  Bound bound(plan);
  const plan::Program& p = bound.program;
  int there = 0;
  for (std::size_t i = 0; i < p.schedule.instances.size(); ++i) {
    const plan::Id buffer = p.schedule.instances[i].buffer;
    if (p.offsets[i] == plan::kOutside || p.lowered.sum_of[buffer] != plan::kNone) continue;
    if (p.lowered.result_of[buffer] != plan::kNone) continue;
    EXPECT_EQ(bound.addresses.of(buffer, static_cast<plan::Id>(i)),
              bound.arena.data() + p.offsets[i]);
    ++there;
  }
  EXPECT_GT(there, 10);
}

TEST(Addresses, OfInputsAndVariablesAreFoundAtEachStep) {
  Training training;
  const plan::Plan plan = training.plan({.spill = false});
  const Bound bound(plan);
  const plan::Program& p = bound.program;
  for (std::size_t b = 0; b < p.lowered.value_of.size(); ++b) {
    const trace::Kind kind = p.trace.values[p.lowered.value_of[b]].kind;
    if (kind == trace::Kind::input || kind == trace::Kind::variable) {
      EXPECT_EQ(bound.addresses.of(static_cast<plan::Id>(b)), nullptr) << trace::name(kind);
    }
  }
}

// An argument has its place, or a patch that gives it one; never both.
TEST(Actions, EveryArgumentHasAPlaceOrAPatch) {
  Training training;
  const plan::Plan plan = training.plan({.spill = false});
  const Bound bound(plan);
  const Actions& a = bound.actions;
  std::set<std::pair<bool, std::uint32_t>> patched;
  for (const auto* list : {&a.inputs, &a.variables, &a.results})
    for (const Actions::Patch& p : *list)
      EXPECT_TRUE(patched.insert({p.output, p.place}).second) << "patched twice";
  for (std::uint32_t i = 0; i < a.ins.size(); ++i)
    EXPECT_EQ(a.ins[i].data == nullptr, patched.contains({false, i})) << i;
  for (std::uint32_t i = 0; i < a.outs.size(); ++i) {
    EXPECT_EQ(a.outs[i].data == nullptr, patched.contains({true, i})) << i;
    EXPECT_TRUE(!a.outs[i].data || bound.in_arena(a.outs[i].data)) << i;
  }
  EXPECT_EQ(a.calls.size(), a.list.size()) << "nothing is transferred";
}

TEST(Actions, ACallThatChangesAVariableInMemorySaysSo) {
  Training training;
  const plan::Plan plan = training.plan({.spill = false});
  const Bound bound(plan);
  std::set<std::uint32_t> variables;  // outputs
  for (const Actions::Patch& p : bound.actions.variables)
    if (p.output) variables.insert(p.place);
  EXPECT_FALSE(variables.empty());
  for (const Action& a : bound.actions.list) {
    const Actions::Call& c = bound.actions.calls[a.index];
    bool changes = false;
    for (std::uint32_t o = c.first_out; o < c.first_out + c.outs; ++o)
      changes |= variables.contains(o);
    EXPECT_EQ(a.updates, changes);
  }
}

// The bytes of a transfer are not touched while it is under way: those that are read are not used before,
// those that are written not overwritten.
TEST(Actions, TransfersAreWaitedForBeforeTheirBytesAreUsed) {
  Training training;
  CompileOptions options{.recompute = false, .split = false};
  options.memory = ByteSize{training.plan(options).minimum + (std::uint64_t{256} << 10)};
  const plan::Plan plan = training.plan(options);
  const PlannedSpill planned(plan);
  ASSERT_TRUE(planned.any) << plan;
  const SpilledVariables spilled({}, planned.variables, planned.activations);
  const Bound bound(plan, &spilled);
  const Actions& a = bound.actions;

  std::map<std::uint32_t, bool> under_way;  // transfers; whether it is a read
  const auto meets = [&](std::uint32_t transfer, const void* data, std::uint64_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(data);
    const Actions::Transfer& t = a.transfers[transfer];
    return begin < t.data + t.bytes && t.data < begin + bytes;
  };
  for (const Action& action : a.list) {
    if (action.kind == Action::Kind::wait) {
      EXPECT_EQ(under_way.erase(action.index), 1u) << "waited for once, after it began";
    } else if (action.kind != Action::Kind::run) {
      under_way[action.index] = action.kind == Action::Kind::read;
      EXPECT_TRUE(bound.in_arena(a.transfers[action.index].data));
    } else {
      const Actions::Call& c = a.calls[action.index];
      if (c.stream != plan::kNone) continue;  // moves its own pieces
      for (const auto& [transfer, reads] : under_way) {
        for (const ops::Out& out : a.outs_of(c))
          EXPECT_FALSE(out.data && meets(transfer, out.data, out.spec->bytes()));
        for (const ops::In& in : a.ins_of(c))
          EXPECT_FALSE(reads && in.data && meets(transfer, in.data, in.spec->bytes()));
        EXPECT_FALSE(meets(transfer, c.scratch, c.scratch_bytes));
      }
    }
  }
  EXPECT_TRUE(under_way.empty()) << "somebody waits for each";
  EXPECT_FALSE(a.transfers.empty());
}

// A result that is not written where it goes has a place to be copied from.
TEST(Results, EachIsThereOrSaysWhereItIs) {
  Training training;
  const plan::Plan plan = training.plan({});
  const Bound bound(plan);
  ASSERT_EQ(bound.results.results.size(), plan.result_specs.size());
  for (const Results::Result& r : bound.results.results)
    EXPECT_EQ(
        (r.from != nullptr) + r.written + (r.input != plan::kNone) + (r.variable != plan::kNone),
        1);
}

}  // namespace
}  // namespace ebb::exec
