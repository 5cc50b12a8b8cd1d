// Convolutions of 16-bit images and weights: the bits of what was widened first, in less memory.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/conv.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

Tensor normal(const Shape& shape, DType type, std::uint64_t stream) {
  return cast(random::normal(shape, 0, 1, 7, stream), type);
}

struct Layer {
  const char* name;
  Shape x, w;
  Conv2dOptions options;
};

// The first takes several pieces, the last of which is smaller than the others.
const Layer kLayers[] = {
    {"3x3", {37, 16, 16, 48}, {24, 3, 3, 48}, {.padding = 1}},
    {"strides", {3, 9, 7, 5}, {6, 3, 2, 5}, {.stride = 2, .padding = {1, 0, 1, 1}}},
    {"1x1", {2, 5, 5, 17}, {9, 1, 1, 17}, {}},
    {"depthwise", {4, 8, 8, 12}, {12, 3, 3, 1}, {.padding = 1, .groups = 12}},
    {"no images", {0, 8, 8, 3}, {4, 3, 3, 3}, {.padding = 1}},
};

struct Made {
  Tensor y, dx, dw, db;
};

// y and the gradients of Σ y ∘ y, each in the type of what it belongs to; f turns what is given
// into what is computed with.
template <class F>
Made run(const Tensor& x, const Tensor& w, const Tensor& b, F&& f) {
  Tape tape;
  tape.watch(x);
  tape.watch(w);
  tape.watch(b);
  const Tensor y = f(x, w, b);
  const Tensor wide = cast(y, DType::f32);
  const auto d = tape.gradient(sum(wide * wide), std::vector<Tensor>{x, w, b});
  return {y, d[0], d[1], d[2]};
}

TEST(ConvHalf, HasTheBitsOfWhatWasWidenedFirst) {
  struct Types {
    DType x, w, b, y;
  };
  constexpr DType f32 = DType::f32, bf = DType::bf16, fh = DType::f16;
  for (const Layer& layer : kLayers) {
    for (const Types& t : {Types{bf, bf, bf, bf}, Types{fh, fh, fh, fh}, Types{bf, f32, f32, f32},
                           Types{f32, fh, fh, f32}, Types{f32, bf, f32, f32}}) {
      SCOPED_TRACE(std::string(layer.name) + " " + name(t.x) + " " + name(t.w));
      const Tensor x = normal(layer.x, t.x, 1), w = normal(layer.w, t.w, 2);
      const Tensor b = normal({layer.w[0]}, t.b, 3);
      const Made made = run(x, w, b, [&](const Tensor& x, const Tensor& w, const Tensor& b) {
        return conv2d(x, w, b, layer.options);
      });
      const Made expected = run(x, w, b, [&](const Tensor& x, const Tensor& w, const Tensor& b) {
        return cast(conv2d(cast(x, f32), cast(w, f32), cast(b, f32), layer.options), t.y);
      });
      EXPECT_TRUE(same(made.y, expected.y));
      EXPECT_TRUE(same(made.dx, expected.dx));
      EXPECT_TRUE(same(made.dw, expected.dw));
      EXPECT_TRUE(same(made.db, expected.db));
    }
  }
}

// A batch of 16 MiB in 16 bits, 32 MiB in f32.
TEST(ConvHalf, NoBatchStandsInF32) {
  const Tensor x = normal({128, 32, 32, 64}, DType::bf16, 1);
  const Tensor w = normal({64, 3, 3, 64}, DType::bf16, 2);
  const Tensor dy = normal({128, 32, 32, 64}, DType::bf16, 3);
  const auto beside = [&](auto&& f) {
    const std::uint64_t before = ledger::total().live;
    ledger::reset_peak();
    const Tensor made = f();
    return ledger::total().peak - before - made.spec().bytes();
  };
  // Pieces, packed weights, and each thread's patches.
  const std::uint64_t most = (4 << 20) + (std::uint64_t{1} << 19) * pool::threads();
  const Conv2dOptions same_size{.padding = 1};
  EXPECT_LT(beside([&] { return conv2d(x, w, {}, same_size); }), most);
  EXPECT_LT(beside([&] { return ops::conv2d_input_grad(dy, w, 32, 32, same_size); }), most);
  EXPECT_LT(beside([&] { return ops::conv2d_weight_grad(x, dy, 3, 3, same_size); }), most);
}

TEST(ConvHalf, TypesThatDoNotMixAreRefused) {
  const Tensor x = normal({1, 4, 4, 2}, DType::bf16, 1), w = normal({3, 3, 3, 2}, DType::f16, 2);
  EXPECT_EQ(test::error_of([&] { conv2d(x, w); }),
            "conv2d: bf16(1, 4, 4, 2) and f16(3, 3, 3, 2) differ in type; cast one");
  const Tensor wide = cast(w, DType::f32), bias = normal({3}, DType::f64, 3);
  EXPECT_EQ(test::error_of([&] { conv2d(x, wide, bias); }),
            "conv2d: the bias is f64(3), expected f32 to go with bf16(1, 4, 4, 2) and "
            "f32(3, 3, 3, 2)");
}

}  // namespace
}  // namespace ebb
