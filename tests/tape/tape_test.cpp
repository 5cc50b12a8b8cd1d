#include "ebb/tape/tape.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/stop_gradient.hpp"
#include "ebb/ops/unary.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using Doubles = std::vector<double>;

Tensor d(std::initializer_list<Tensor::Nested<double>> items) { return Tensor::of<double>(items); }

using test::error_of;

TEST(Tape, GradientOfAProduct) {
  Tape tape;
  const Tensor x = d({3, 4});
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(tape.gradient(y, x).to_vector<double>(), (Doubles{6, 8}));
}

TEST(Tape, PersistentGivesAsOftenAsAsked) {
  Tape tape({.persistent = true});
  const Tensor x = d({3});
  tape.watch(x);
  const Tensor y = x * x, z = y * y;
  EXPECT_EQ(tape.gradient(z, x).item(), 108);
  EXPECT_EQ(tape.gradient(y, x).item(), 6);
  EXPECT_EQ(tape.gradient(z, y).item(), 18) << "a source may be something computed";
  tape.release();
  EXPECT_EQ(error_of([&] { tape.gradient(y, x); }), "gradient: this tape was released");
}

TEST(Tape, OneShotIsUsedUp) {
  Tape tape;
  const Tensor x = d({3});
  tape.watch(x);
  const Tensor y = x * x;
  tape.gradient(y, x);
  EXPECT_EQ(error_of([&] { tape.gradient(y, x); }),
            "gradient: this one-shot tape was used up by an earlier gradient; make it with "
            "{.persistent = true} to ask more than once");
}

TEST(Tape, UnconnectedSourcesGiveNothingOrZeros) {
  const Tensor x = d({1, 2}), other = d({5});
  for (const auto how : {Unconnected::none, Unconnected::zeros}) {
    Tape tape;
    tape.watch(x);
    tape.watch(other);
    const Tensor y = sum(x);
    const std::vector<Tensor> xs{x, other};
    const auto g = tape.gradient(y, xs, {.unconnected = how});
    EXPECT_EQ(g[0].to_vector<double>(), (Doubles{1, 1}));
    if (how == Unconnected::none) {
      EXPECT_FALSE(g[1]);
    } else {
      EXPECT_EQ(g[1].to_vector<double>(), (Doubles{0}));
    }
  }
}

TEST(Tape, WhatIsNotWatchedHasNoGradient) {
  Tape tape;
  const Tensor x = d({1});
  const Tensor y = x * x;
  EXPECT_FALSE(tape.gradient(y, x));
}

TEST(Tape, OutputGradientsWeighTheResult) {
  Tape tape;
  const Tensor x = d({1, 2, 3});
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(tape.gradient(y, x, {.output_gradient = d({1, 10, 100})}).to_vector<double>(),
            (Doubles{2, 40, 600}));
}

TEST(Tape, OutputGradientOfAnotherShapeIsRefused) {
  Tape tape;
  const Tensor x = d({1, 2, 3});
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(error_of([&] { tape.gradient(y, x, {.output_gradient = d({1})}); }),
            "gradient: the output gradient is f64(1), the result is f64(3)");
}

TEST(Tape, ManyUsesAddUp) {
  Tape tape;
  const Tensor x = d({2});
  tape.watch(x);
  const Tensor y = x * x + x * 3.0 + x;  // 2x + 3 + 1
  EXPECT_EQ(tape.gradient(y, x).item(), 8);
}

TEST(Tape, SeveralResultsAndSumsToStartFrom) {
  Tape tape;
  const Tensor x = d({2});
  tape.watch(x);
  const std::vector<Tensor> ys{x * x, x * 10.0}, dys{Tensor(), d({2})}, xs{x};
  std::vector<Tensor> sums{d({100})};
  tape.gradient_into(ys, dys, xs, sums);
  EXPECT_EQ(sums[0].item(), 100 + 4 + 20);
}

// A gradient as rows, where one gather alone reads the source and few enough rows are picked.
TEST(Tape, GivesRowsWhereTheyAreAllOfIt) {
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{5, 1, 5}, {3});
  const Tensor none;
  const auto asked = [&](std::int64_t most, auto read, Tensor into = {}) {
    Tape tape;
    const Tensor x = random::normal({8, 8}, 0, 1, 1, 2);
    tape.watch(x);
    const Tensor y = read(x);
    const Tensor *ys[] = {&y}, *dys[] = {&none}, *xs[] = {&x};
    SparseGradient rows{most, {}, {}};
    tape.gradient_into(ys, dys, xs, {&into, 1}, {&rows, 1});
    EXPECT_NE(bool(into), bool(rows.rows));
    return rows;
  };
  const auto once = [&](const Tensor& x) { return gather(x, ids) * 3.0; };
  const SparseGradient rows = asked(3, once);
  ASSERT_TRUE(rows.rows);
  EXPECT_EQ(rows.indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 1, 5}));
  EXPECT_EQ(rows.rows.to_vector<float>(), std::vector<float>(24, 3.0f));
  EXPECT_FALSE(asked(2, once).rows) << "there are three";
  EXPECT_FALSE(asked(0, once).rows) << "nobody asked";
  EXPECT_FALSE(asked(3, once, Tensor::ones({8, 8}, DType::f32)).rows) << "it goes on from a sum";
  EXPECT_FALSE(asked(3, [&](const Tensor& x) { return gather(x, ids, 1); }).rows) << "columns";
  EXPECT_FALSE(asked(3, [&](const Tensor& x) { return sum(gather(x, ids)) + sum(x); }).rows);
}

TEST(Tape, VariablesAreWatchedByDefault) {
  const Variable w("w", d({3}));
  {
    Tape tape;
    const Tensor y = w * w;
    const std::vector<Variable> ws{w};
    EXPECT_EQ(tape.gradient(y, ws)[0].item(), 6);
  }
  {
    Tape tape({.watch_variables = false});
    const Tensor y = w * w;
    EXPECT_FALSE(tape.gradient(y, w.value()));
  }
  const Variable frozen("f", d({3}), false);
  Tape tape;
  const Tensor y = frozen * frozen;
  EXPECT_FALSE(tape.gradient(y, frozen.value()));
}

TEST(Tape, GradientsOfGradients) {
  const Tensor x = d({2});
  Tape outer;
  outer.watch(x);
  Tensor first;
  {
    Tape inner;
    inner.watch(x);
    const Tensor y = x * x * x;
    first = inner.gradient(y, x);
    EXPECT_EQ(first.item(), 12);
  }
  EXPECT_EQ(outer.gradient(first, x).item(), 12);
}

TEST(Tape, ThirdOrder) {
  const Tensor x = d({2});
  Tape a;
  a.watch(x);
  Tensor second;
  {
    Tape b;
    b.watch(x);
    Tensor first;
    {
      Tape c;
      c.watch(x);
      first = c.gradient(x * x * x * x, x);  // 4x^3
    }
    second = b.gradient(first, x);  // 12x^2
    EXPECT_EQ(second.item(), 48);
  }
  EXPECT_EQ(a.gradient(second, x).item(), 48);  // 24x
}

TEST(Tape, StopGradientAndPause) {
  const Tensor x = d({3});
  {
    Tape tape;
    tape.watch(x);
    const Tensor y = x * stop_gradient(x);
    EXPECT_EQ(tape.gradient(y, x).item(), 3);
  }
  {
    Tape tape;
    tape.watch(x);
    Tensor factor;
    {
      const Tape::Pause pause;
      factor = x * x;
    }
    const Tensor y = x * factor;
    EXPECT_EQ(tape.gradient(y, x).item(), 9);
  }
}

TEST(Tape, ATapeMayEndInsideAPause) {
  auto tape = std::make_unique<Tape>();
  const Tensor x = d({3});
  tape->watch(x);
  {
    const Tape::Pause pause;
    tape.reset();
  }
  EXPECT_FALSE(ops::recording());
  const Tensor y = x * x;
  EXPECT_EQ(y.item(), 9);
}

TEST(Tape, Jacobian) {
  const Tensor x = d({1, 2, 3});
  Tape tape;
  tape.watch(x);
  const Tensor y = slice(x * x, 0, 0, 2);
  const Tensor j = tape.jacobian(y, x);
  EXPECT_EQ(j.shape(), Shape({2, 3}));
  EXPECT_EQ(j.to_vector<double>(), (Doubles{2, 0, 0, 0, 4, 0}));
}

TEST(Tape, BatchJacobian) {
  const Tensor x = d({{1, 2}, {3, 4}});
  Tape tape;
  tape.watch(x);
  const Tensor w = d({{1, 10}, {100, 1000}, {2, 3}});
  const Tensor y = matmul(square(x), w, {.transpose_b = true});  // (2, 3)
  const Tensor j = tape.batch_jacobian(y, x);
  EXPECT_EQ(j.shape(), Shape({2, 3, 2}));
  EXPECT_EQ(j.to_vector<double>(), (Doubles{2, 40, 200, 4000, 4, 12, 6, 80, 600, 8000, 12, 24}));
  EXPECT_EQ(error_of([&] {
              Tape other;
              other.batch_jacobian(y, d({1}));
            }),
            "batch_jacobian: f64(2, 3) and f64(1) do not have the same number of rows");
}

TEST(Tape, IntegersCannotBeWatched) {
  Tape tape;
  EXPECT_EQ(error_of([&] { tape.watch(Tensor::arange(3)); }),
            "watch: i64(3) is not a floating tensor, so it has no gradient; cast it first");
}

TEST(Tape, TapesArePerThread) {
  Tape tape;
  const Tensor x = d({3});
  tape.watch(x);
  std::string elsewhere;
  Tensor y;
  std::thread other([&] {
    EXPECT_FALSE(ops::recording());
    y = x * x;  // a value may be shared, a tape may not
    elsewhere = error_of([&] { tape.gradient(y, x); });
    Tape own;
    own.watch(x);
    EXPECT_EQ(own.gradient(x * x, x).item(), 6);
  });
  other.join();
  EXPECT_EQ(elsewhere, "gradient: a tape belongs to the thread that made it");
  EXPECT_FALSE(tape.gradient(y, x)) << "what another thread did was not recorded here";
}

TEST(Tape, KeepsOnlyWhatAGradientWillRead) {
  const Tensor x = Tensor::ones({1000}), c = Tensor::ones({1000});
  Tape tape;
  tape.watch(x);
  const std::uint64_t before = ledger::total().live;
  Tensor y = x + c;  // keeps nothing
  y = y + c;
  y = y + c;
  EXPECT_EQ(ledger::total().live, before + 4128) << "only the last result is alive";
  y = relu(y);  // keeps its output, which is the result itself
  EXPECT_EQ(ledger::total().live, before + 4128);
  y = y * c;  // keeps c, which is ours, but not y; relu's output stays
  EXPECT_EQ(ledger::total().live, before + 2 * 4128);
}

TEST(Tape, WhatAComputedSourceStartsFromDoesNotFlowOn) {
  Tape tape;
  const Tensor x = d({2});
  tape.watch(x);
  const Tensor y = x * 5.0, z = y * 2.0;
  const std::vector<Tensor> zs{z}, dzs{Tensor()}, xs{x, y};
  std::vector<Tensor> sums{Tensor(), d({40})};
  tape.gradient_into(zs, dzs, xs, sums);
  EXPECT_EQ(sums[0].item(), 10);
  EXPECT_EQ(sums[1].item(), 42);
}

TEST(Tape, AVariableIsOneSourceWhateverItsValue) {
  Variable w("w", d({3}));
  Tape tape({.persistent = true});
  const Tensor y = w * w;
  w.own();  // y's rule holds the value, so this makes another
  reinterpret_cast<double*>(w.bytes())[0] = 4;
  EXPECT_EQ(tape.gradient(y, w.value()).item(), 6) << "with the value it had";
  const Tensor z = w * 10.0;
  EXPECT_EQ(tape.gradient(y + z, w.value()).item(), 16);
}

TEST(Tape, APauseHoldsForGradientsInsideItToo) {
  const Tensor x = d({2});
  Tape outer;
  outer.watch(x);
  Tensor g;
  {
    Tape inner;
    inner.watch(x);
    const Tensor y = x * x * x;
    const Tape::Pause pause;
    g = inner.gradient(y, x);
  }
  EXPECT_FALSE(outer.gradient(g, x));
}

TEST(Tape, EmptyHandlesAreRefused) {
  Tape tape;
  const Tensor x = d({2});
  EXPECT_EQ(error_of([&] { tape.gradient(Tensor(), x); }),
            "gradient: an empty handle was given for the result or a source");
}

TEST(Tape, AFailedWalkLeavesNothingBehind) {
  const std::uint64_t before = ledger::total().live;
  {
    const Tensor x = d({1, 2});
    Tape tape;
    tape.watch(x);
    const Tensor y = x * x;
    EXPECT_THROW(tape.gradient(y, x, {.output_gradient = d({1})}), Error);
    EXPECT_THROW(tape.gradient(y, x), Error) << "the walk had begun; a one-shot tape is used up";
  }
  EXPECT_EQ(ledger::total().live, before);
}

TEST(Tape, AssignsAtItsEndUnlessSomethingFailed) {
  Variable mean("mean", d({1}), false);
  {
    Tape tape;
    tape.assign_at_end(mean, d({2}));
    EXPECT_EQ(mean.value().item(), 1);
  }
  EXPECT_EQ(mean.value().item(), 2);
  EXPECT_THROW(
      {
        Tape tape;
        tape.assign_at_end(mean, d({3}));
        throw Error("step failed");
      },
      Error);
  EXPECT_EQ(mean.value().item(), 2);
  {
    Tape tape;
    tape.assign_at_end(mean, d({3}));
    EXPECT_THROW(log(Tensor::arange(2)), Error);  // caught, and the tape goes on to its end
  }
  EXPECT_EQ(mean.value().item(), 2);
  EXPECT_THROW(
      {
        Tape outer;
        {
          Tape inner;
          inner.assign_at_end(mean, d({4}));
          EXPECT_EQ(inner.latest(mean).item(), 4);
        }
        EXPECT_EQ(mean.value().item(), 2) << "it waits for the outer tape";
        throw Error("the outer step failed");
      },
      Error);
  EXPECT_EQ(mean.value().item(), 2);
  EXPECT_THROW(
      {
        Tape tape;
        tape.assign_at_end(mean, d({5}));
        tape.commit();
        throw Error("after the step");
      },
      Error);
  EXPECT_EQ(mean.value().item(), 5);
}

// Of xyz: (yz, xz, xy), then of their sum (y + z, x + z, x + y), then of that sum 2.
TEST(Tape, ProdAtAZeroHasThreeOrders) {
  const Tensor x = Tensor::of({2, 0, 3});
  Tape third;
  third.watch(x);
  Tensor b;
  {
    Tape second;
    second.watch(x);
    Tensor a;
    {
      Tape first;
      first.watch(x);
      a = first.gradient(prod(x), x);
    }
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{0, 6, 0}));
    b = second.gradient(sum(a), x);
  }
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{3, 5, 2}));
  EXPECT_EQ(third.gradient(sum(b), x).to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST(Tape, GradientsOfAListOfSources) {
  const Tensor a = Tensor::of({2, 3}), b = Tensor::of({5, 7});
  Tape tape({.persistent = true});
  tape.watch(a);
  tape.watch(b);
  const Tensor y = sum(a * b);
  const std::vector<Tensor> g = tape.gradient(y, {a, b});
  EXPECT_EQ(g[0].to_vector<float>(), b.to_vector<float>());
  EXPECT_EQ(g[1].to_vector<float>(), a.to_vector<float>());
  Variable w("w", Tensor::of({4}));
  const Loss loss = mse(w * a, b);
  EXPECT_EQ(tape.gradient(loss, {w}).size(), 1u);
}

TEST(Tape, AGradientOfItsOwnGradientIsRefused) {
  const Tensor x = Tensor::of({2, 3});
  Tape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = sum(x * x * x), d = tape.gradient(y, x), penalty = sum(d * x);
  for (const Tensor& of : {d, sum(d * d), penalty, y + penalty}) {
    const std::string error = error_of([&] { tape.gradient(of, x); });
    EXPECT_NE(error.find("nest two tapes"), std::string::npos) << error;
  }
  EXPECT_NE(error_of([&] { tape.jacobian(d, x); }).find("nest two tapes"), std::string::npos);
  // A constant on purpose, and what has nothing to do with it.
  EXPECT_EQ(tape.gradient(sum(stop_gradient(d) * x), x).to_vector<float>(), d.to_vector<float>());
  EXPECT_TRUE(tape.gradient(y, x));
}

TEST(Tape, NestedTapesGiveGradientsOfGradients) {
  const Tensor x = Tensor::of({2, 3});
  Tape outer({.persistent = true});
  outer.watch(x);
  Tensor d;
  {
    Tape inner({.persistent = true});
    inner.watch(x);
    d = inner.gradient(sum(x * x * x), x);
  }
  EXPECT_EQ(outer.gradient(d, x).to_vector<float>(), (std::vector<float>{12, 18}));
}

}  // namespace
}  // namespace ebb
