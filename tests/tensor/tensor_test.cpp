#include "ebb/tensor/tensor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "ebb/base/error.hpp"
#include "ebb/tensor/variable.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

TEST(Spec, WithAnotherSizeOfOneAxis) {
  const Spec spec{{4, 3, 2}, DType::bf16};
  EXPECT_EQ(spec.with_axis(0, 7), (Spec{{7, 3, 2}, DType::bf16}));
  EXPECT_EQ(spec.with_axis(2, 0), (Spec{{4, 3, 0}, DType::bf16}));
  EXPECT_THROW(spec.with_axis(1, -1), Error);
}

TEST(Shape, CountsAndCompares) {
  EXPECT_EQ(Shape({2, 3, 4}).size(), 24);
  EXPECT_EQ(Shape{}.size(), 1);
  EXPECT_EQ(Shape({2, 0, 4}).size(), 0);
  EXPECT_EQ(to_string(Shape({4, 64})), "(4, 64)");
  EXPECT_EQ(to_string(Spec{{4}, DType::bf16}), "bf16(4)");
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({1}), Shape{});
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_EQ(error_of([] { Shape({2, -1}); }), "shape: (2, -1) has a negative size");
  EXPECT_NE(error_of([] {
              Shape({1LL << 32, 1LL << 32});
            }).find("more elements than can be addressed"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              Shape({1LL << 40, 0, 1LL << 40});
            }).find("more elements"),
            std::string::npos)
      << "a size of zero excuses nothing";
  EXPECT_EQ(error_of([] {
              Shape({1, 1, 1, 1, 1, 1, 1, 1, 1});
            }),
            "shape: rank 9 is above the largest, 8");
}

TEST(Shape, AxisFromTheBack) {
  EXPECT_EQ(axis_of("sum", -1, 3), 2);
  EXPECT_EQ(axis_of("sum", 0, 3), 0);
  EXPECT_EQ(error_of([] { axis_of("sum", 3, 3); }),
            "sum: axis 3 is out of range for rank 3; expected -3 to 2");
  EXPECT_EQ(error_of([] { axis_of("sum", 0, 0); }), "sum: axis 0 of a scalar, which has none");
}

TEST(Tensor, FromNestedBraces) {
  const Tensor t = Tensor::of({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(t.spec(), (Spec{{2, 3}, DType::f32}));
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Tensor::of<std::int64_t>({7, 8}).spec(), (Spec{{2}, DType::i64}));
  EXPECT_EQ(Tensor::of<double>({{{1}, {2}}}).shape(), Shape({1, 2, 1}));
  EXPECT_EQ(Tensor::of<bool>({true, false}).dtype(), DType::boolean);
  for (auto bad : {error_of([] {
                     Tensor::of({{1, 2}, {3}});
                   }),
                   error_of([] {
                     Tensor::of({1, {2}});
                   }),
                   error_of([] {
                     Tensor::of({{1}, 2});
                   })})
    EXPECT_EQ(bad, "tensor: the nested values are ragged; every row needs the same length");
}

TEST(Tensor, FromSpansOfTheRightLengthOnly) {
  const std::vector<float> v{1, 2, 3, 4};
  EXPECT_EQ(Tensor::from(v, {2, 2}).to_vector<float>(), v);
  EXPECT_EQ(error_of([&] {
              Tensor::from(v, {3, 2});
            }),
            "tensor: 4 values were given for f32(3, 2), which has 6 elements");
}

TEST(Tensor, FillsEveryType) {
  for (const DType d : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64,
                        DType::u8, DType::boolean}) {
    EXPECT_EQ(Tensor::full({3}, 1, d).rows(1, 2).item(), 1.0) << name(d);
    EXPECT_EQ(Tensor::zeros({3}, d).rows(2, 3).item(), 0.0) << name(d);
  }
  EXPECT_EQ(Tensor::arange(4).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

// A constant that becomes an element has to be one.
TEST(Tensor, RefusesConstantsThatAreNoElement) {
  const auto full = [](double value, DType dtype) {
    return error_of([&] { Tensor::full({2}, value, dtype); });
  };
  EXPECT_EQ(full(300, DType::u8),
            "full: 300 is no element of u8; expected a whole number from 0 to 255, or a tensor of "
            "another type");
  EXPECT_EQ(full(0x1p63, DType::i64),
            "full: 9.223372036854776e+18 is no element of i64; expected a whole number from "
            "-9223372036854775808 to 9223372036854775807, or a tensor of another type");
  EXPECT_EQ(full(0.5, DType::boolean),
            "full: 0.5 is no element of bool; expected 0 or 1, or a tensor of another type");
  EXPECT_NE(full(INFINITY, DType::i32), "");
  EXPECT_NE(full(NAN, DType::i32), "");
  EXPECT_NE(full(-0x1p31 - 1, DType::i32), "");
  EXPECT_EQ(Tensor::full({1}, -0x1p31, DType::i32).item(), -0x1p31);
  EXPECT_EQ(Tensor::full({1}, -0x1p63, DType::i64).item(), -0x1p63);
  EXPECT_EQ(error_of([] { Tensor::arange(257, DType::u8); }),
            "arange: 256 is no element of u8; expected a whole number from 0 to 255, or a tensor "
            "of another type");
  EXPECT_EQ(Tensor::arange(256, DType::u8).rows(255, 256).item(), 255);
}

TEST(Tensor, ViewsShareBytesAndKeepThemAlive) {
  Tensor view;
  {
    const Tensor t = Tensor::of({{1, 2}, {3, 4}, {5, 6}});
    view = t.rows(1, 3).viewed({4});
    EXPECT_EQ(view.raw(), t.raw() + 2 * sizeof(float));
    EXPECT_FALSE(t.unique());
  }
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{3, 4, 5, 6}));
  EXPECT_EQ(error_of([&] { view.viewed({3}); }), "reshape: (4) has 4 elements, (3) has 3");
  EXPECT_EQ(error_of([&] { view.rows(2, 5); }), "rows: [2, 5) of (4) is out of range");
}

TEST(Tensor, BytesAreEnteredAndLeave) {
  const std::uint64_t before = ledger::total().live;
  {
    const Tensor t = Tensor::zeros({1000});
    EXPECT_EQ(ledger::total().live, before + 4000 + 128);
    const Tensor copy = t;
    EXPECT_EQ(ledger::total().live, before + 4000 + 128);
  }
  EXPECT_EQ(ledger::total().live, before);
}

TEST(Tensor, ReadsOnlyItsOwnType) {
  const Tensor t = Tensor::of({1, 2});
  EXPECT_EQ(error_of([&] { t.data<double>(); }),
            "data: asked for f64 elements of a tensor that is f32(2); cast it first");
  EXPECT_EQ(error_of([&] { t.item(); }), "item: f32(2) has 2 elements, expected one");
  EXPECT_EQ(error_of([] { Tensor().shape(); }),
            "tensor: this handle holds no tensor; it was never assigned");
}

TEST(Tensor, HandlesMayCrossThreads) {
  const Tensor t = Tensor::ones({100});
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([t, &good] {
      for (int k = 0; k < 1000; ++k) {
        const Tensor copy = t, view = copy.rows(10, 20);
        if (view.data<float>()[3] == 1) ++good;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 4000);
  EXPECT_TRUE(t.unique());
}

TEST(Variable, WritingLeavesOldReadersAlone) {
  Variable v("w", Tensor::of({1, 2}));
  const Tensor before = v.value();
  v.own();
  reinterpret_cast<float*>(v.bytes())[0] = 9;
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{9, 2}));
  const std::uint64_t id = v.value().id();
  v.own();
  EXPECT_EQ(v.value().id(), id) << "nobody else holds it, so it stays where it is";
}

TEST(Variable, AssignChecksAndCopies) {
  Variable v("layer.weight", Tensor::of({1, 2}));
  v.assign(Tensor::of({3, 4}));
  EXPECT_EQ(v.value().to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(error_of([&] {
              v.assign(Tensor::of({3, 4, 5}));
            }),
            "assign: variable layer.weight is f32(2), the value is f32(3)");
}

TEST(Variable, IsEnteredUnderItsCategory) {
  const std::uint64_t before = ledger::of(Category::optimizer).live;
  const Variable v("m", Tensor::zeros({256}), false, Category::optimizer);
  EXPECT_EQ(ledger::of(Category::optimizer).live, before + 1024 + 128);
}

}  // namespace
}  // namespace ebb
