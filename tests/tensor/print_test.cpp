#include "ebb/tensor/print.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace ebb {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string joined(std::initializer_list<const char*> lines) {
  std::string text;
  for (const char* line : lines) text += std::string(text.empty() ? "" : "\n") + line;
  return text;
}

TEST(Print, MatricesStandInColumns) {
  EXPECT_EQ(to_string(Tensor::of<float>({{1, 2.5, 3}, {-4, 5, 6}})),
            joined({"f32(2, 3)",          //
                    "[[ 1.   2.5  3. ]",  //
                    " [-4.   5.   6. ]]"}));
  EXPECT_EQ(to_string(Tensor::of<std::int32_t>({{1, -20}, {300, 4}})),
            joined({"i32(2, 2)",   //
                    "[[  1 -20]",  //
                    " [300   4]]"}));
  EXPECT_EQ(to_string(Tensor::of<std::int64_t>({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}})),
            joined({"i64(2, 2, 2)",  //
                    "[[[1 2]",       //
                    "  [3 4]]",      //
                    "",              //
                    " [[5 6]",       //
                    "  [7 8]]]"}));
}

TEST(Print, ShapesGoToStreams) {
  std::ostringstream out;
  out << Shape{4, 64} << Shape{};
  EXPECT_EQ(out.str(), "(4, 64)()");
}

TEST(Print, ShortOnesStayOnOneLine) {
  EXPECT_EQ(to_string(Tensor::scalar(3.25)), "f32() 3.25");
  EXPECT_EQ(to_string(Tensor::scalar(-7, DType::i64)), "i64() -7");
  EXPECT_EQ(to_string(Tensor::of<float>({1, 2})), "f32(2) [1. 2.]");
  EXPECT_EQ(to_string(Tensor::zeros({0})), "f32(0) []");
  EXPECT_EQ(to_string(Tensor::zeros({3, 0}, DType::u8)), "u8(3, 0) []");
  EXPECT_EQ(to_string(Tensor()), "(no tensor)");
  std::ostringstream out;
  out << Tensor::full({2}, 7, DType::u8);
  EXPECT_EQ(out.str(), "u8(2) [7 7]");
}

TEST(Print, EveryTypeShowsWhatItHolds) {
  EXPECT_EQ(to_string(Tensor::full({1}, 0.1, DType::f64)), "f64(1) [0.1]");
  EXPECT_EQ(to_string(Tensor::full({1}, 0.1, DType::f32)), "f32(1) [0.1]");
  EXPECT_EQ(to_string(Tensor::full({1}, 0.1, DType::f16)), "f16(1) [0.1]");
  EXPECT_EQ(to_string(Tensor::full({1}, 0.1, DType::bf16)), "bf16(1) [0.1]");
  EXPECT_EQ(to_string(Tensor::full({1}, 2047, DType::f16)), "f16(1) [2047.]");
  EXPECT_EQ(to_string(Tensor::full({2}, kNan, DType::bf16)), "bf16(2) [nan nan]");
  EXPECT_EQ(to_string(Tensor::from(std::vector<bool>{true, false}, {2})), "bool(2) [ true false]");
  EXPECT_EQ(to_string(Tensor::of<float>({123.456f})), "f32(1) [123.456]");
  EXPECT_EQ(to_string(Tensor::of<double>({3.14159265358979})), "f64(1) [3.141593]");
}

TEST(Print, SpecialValues) {
  EXPECT_EQ(to_string(Tensor::of<float>({kInf, -kInf, kNan, -0.0f, 1.5f})),
            "f32(5) [ inf -inf  nan -0.   1.5]");
  EXPECT_EQ(to_string(Tensor::of<float>({kNan})), "f32(1) [nan]");
}

TEST(Print, PowersOfTenWherePlainNumbersWouldMislead) {
  EXPECT_EQ(to_string(Tensor::of<float>({1e-7f, 1})), "f32(2) [1e-07 1e+00]");
  EXPECT_EQ(to_string(Tensor::of<float>({2.5e10f, 1e9f})), "f32(2) [2.5e+10 1.0e+09]");
  EXPECT_EQ(to_string(Tensor::of<float>({99999999.0f})), "f32(1) [1e+08]");
  EXPECT_EQ(to_string(Tensor::of<float>({12345678.0f})), "f32(1) [12345678.]");
}

TEST(Print, LargeOnesShowTheirEnds) {
  EXPECT_EQ(to_string(Tensor::arange(1001)), "i64(1001) [   0    1    2 ...  998  999 1000]");
  EXPECT_EQ(to_string(Tensor::arange(10000).viewed({100, 100})),
            joined({"i64(100, 100)",                         //
                    "[[   0    1    2 ...   97   98   99]",  //
                    " [ 100  101  102 ...  197  198  199]",  //
                    " [ 200  201  202 ...  297  298  299]",  //
                    " ...",                                  //
                    " [9700 9701 9702 ... 9797 9798 9799]",  //
                    " [9800 9801 9802 ... 9897 9898 9899]",  //
                    " [9900 9901 9902 ... 9997 9998 9999]]"}));
  // A short axis of a large tensor is shown whole.
  EXPECT_NE(to_string(Tensor::arange(2000).viewed({400, 5})).find("[1995 1996 1997 1998 1999]"),
            std::string::npos);
  // Many axes do not make pages of it.
  EXPECT_LT(to_string(Tensor::ones({7, 7, 7, 7, 7, 7, 7})).size(), 20'000u);
}

TEST(Print, LongRowsWrap) {
  const std::string text = to_string(Tensor::arange(1000));
  EXPECT_EQ(text.find("..."), std::string::npos);
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "i64(1000)");
  int next = 0;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 100u);
    EXPECT_EQ(line[0], next == 0 ? '[' : ' ');
    std::istringstream numbers(line.substr(1));
    for (int n; numbers >> n; ++next) EXPECT_EQ(n, next);
  }
  EXPECT_EQ(next, 1000);
}

}  // namespace
}  // namespace ebb
