// The table itself: every op is in it, and each of its checks can fail.
#include "tests/ops/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ebb/base/pool.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/stop_gradient.hpp"

namespace ebb::table {
namespace {

using Names = std::set<std::string>;

// Every op linked in has a row that names it and really calls it.
TEST(Table, EveryOpHasARow) {
  Names shown;
  for (const Row& row : rows()) {
    if (!row.refused.empty()) continue;
    Names called;
    try {
      for (const OpCall& call : calls_of(row)) called.insert(call.op.type().name);
    } catch (const std::exception& e) {
      ADD_FAILURE_AT(row.file, row.line) << "row \"" << row.name << "\" threw: " << e.what();
      continue;
    }
    if (called.count(row.op)) {
      shown.insert(row.op);
    } else {
      ADD_FAILURE_AT(row.file, row.line)
          << "row \"" << row.name << "\" says it is for '" << row.op << "' and never calls it";
    }
  }
  for (const OpType* op : registered_ops())
    EXPECT_TRUE(shown.count(op->name)) << "op '" << op->name << "' has no row in the table";
}

// The ops that a row shows with inputs such as `wanted` asks for.
template <class Wanted>
Names shown_with(Wanted wanted) {
  Names shown;
  for (const Row& row : rows())
    if (row.refused.empty() && wanted(row.inputs)) shown.insert(row.op);
  return shown;
}

void expect_all_but(const Names& shown, const std::map<std::string, std::string>& exceptions,
                    const char* what) {
  for (const OpType* op : registered_ops()) {
    const auto reason = exceptions.find(op->name);
    if (reason == exceptions.end()) {
      EXPECT_TRUE(shown.count(op->name)) << "op '" << op->name << "' has no row " << what;
    } else {
      EXPECT_FALSE(shown.count(op->name)) << "op '" << op->name << "' has a row " << what
                                          << " after all, so strike it from: " << reason->second;
    }
  }
}

TEST(Table, EveryOpHasARowOfNothing) {
  const Names shown = shown_with([](const std::vector<Input>& inputs) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [](const Input& in) { return in.shape.size() == 0; });
  });
  expect_all_but(shown, {{"step_scale", "takes scalars"}}, "with an input of no elements");
}

// Sizes that fill no vector: 1, or odd.
TEST(Table, EveryOpHasARowOfAnOddSize) {
  const Names shown = shown_with([](const std::vector<Input>& inputs) {
    return std::any_of(inputs.begin(), inputs.end(), [](const Input& in) {
      return std::any_of(in.shape.begin(), in.shape.end(),
                         [](std::int64_t n) { return n % 2 == 1; });
    });
  });
  expect_all_but(shown, {{"step_scale", "takes scalars"}}, "with an odd size or a size of 1");
}

TEST(Table, EveryBroadcastingOpHasARowThatBroadcasts) {
  const Names shown = shown_with([](const std::vector<Input>& inputs) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Input& in) { return in.shape != inputs[0].shape; });
  });
  for (const char* op : {"add", "sub", "mul", "div", "pow", "minimum", "maximum", "equal",
                         "not_equal", "less", "less_equal", "greater", "greater_equal",
                         "logical_and", "logical_or", "logical_xor", "where"})
    EXPECT_TRUE(shown.count(op)) << "op '" << op << "' has no row that broadcasts";
  const Names batched = shown_with([](const std::vector<Input>& inputs) {
    return inputs.size() > 1 && inputs[0].shape.rank() > 2 && inputs[1].shape.rank() >= 2 &&
           inputs[0].shape[0] != inputs[1].shape[0];
  });
  EXPECT_TRUE(batched.count("matmul")) << "matmul has no row whose leading axes broadcast";
}

TEST(Table, NamesOfRowsAndOpsAreUnique) {
  std::map<std::string, int> names;
  for (const Row& row : rows())
    EXPECT_EQ(++names[test_name(row)], 1) << row.file << ":" << row.line << " " << row.name;
  names.clear();
  for (const OpType* op : registered_ops()) EXPECT_EQ(++names[op->name], 1) << op->name;
}

bool fails(const Row& row, const std::string& with) {
  for (const std::string& failure : check(row, 1))
    if (failure.find(with) != failure.npos) return true;
  return false;
}

Row good() {
  return {.name = "square",
          .op = "mul",
          .inputs = {f(5)},
          .call = [](const Tensors& in) { return mul(in[0], in[0]); },
          .reference =
              analytic([](const auto& in) { return map(in[0], [](auto x) { return x * x; }); }),
          .half = true};
}

TEST(Table, AcceptsWhatIsRight) { EXPECT_EQ(check(good(), 1), std::vector<std::string>{}); }

TEST(Table, SeesAWrongValue) {
  Row row = good();
  row.reference = [](const auto& in) {
    return map(in[0], [](auto x) { return x * x * (1 + 1e-11); });
  };
  EXPECT_TRUE(fails(row, "value in f64, output 0: 5 of 5 elements differ"));
  EXPECT_FALSE(fails(row, "f32"));
}

TEST(Table, SeesAWrongShape) {
  Row row = good();
  row.reference = [](const auto&) { return Array<double>({5, 1}); };
  EXPECT_TRUE(fails(row, "value in f64, output 0: shape (5), expected (5, 1)"));
}

TEST(Table, SeesAWrongGradientByComplexStep) {
  Row row = good();
  row.reference.in_complex = Reference::erase<std::complex<double>>(
      [](const auto& in) { return map(in[0], [](auto x) { return x * x * (1 + 1e-5); }); });
  EXPECT_TRUE(fails(row, "gradient in f64, input 0"));
}

// Half of the gradient is held back.
TEST(Table, SeesAWrongGradientByDifferences) {
  Row row = good();
  row.reference = [](const auto& in) { return map(in[0], [](auto x) { return x * x; }); };
  row.call = [](const Tensors& in) { return mul(in[0], stop_gradient(in[0])); };
  EXPECT_FALSE(fails(row, "value"));
  EXPECT_TRUE(fails(row, "gradient in f64, input 0"));
}

// The gradient is right, but taken for a constant.
TEST(Table, SeesAWrongSecondOrder) {
  Row row = good();
  row.call = [](const Tensors& in) {
    const Tensor x = in[0], still = stop_gradient(x);
    return sub(mul(mul(x, still), Tensor::full({5}, 2, x.dtype())), mul(still, still));
  };
  EXPECT_FALSE(fails(row, "gradient in f64"));
  EXPECT_TRUE(fails(row, "second order in f64, input 0"));
}

TEST(Table, SeesOtherBitsOfASecondRun) {
  Row row = good();
  int runs = 0;
  row.call = [&runs](const Tensors& in) {
    return mul(mul(in[0], in[0]), Tensor::full({5}, 1 + ++runs % 2 * 0x1p-52, in[0].dtype()));
  };
  EXPECT_TRUE(fails(row, "bits in f64: outputs differ run twice") ||
              fails(row, "bits in f64: outputs with and without a tape differ"));
}

TEST(Table, SeesOtherBitsOnTwoThreads) {
  Row row = good();
  row.call = [](const Tensors& in) {
    return mul(mul(in[0], in[0]),
               Tensor::full({5}, 1 + (pool::threads() == 2) * 0x1p-23, in[0].dtype()));
  };
  EXPECT_TRUE(fails(row, "bits in f32: outputs differ with 2 threads"));
  EXPECT_TRUE(fails(row, "bits in f32: gradients differ with 2 threads"));
  EXPECT_FALSE(fails(row, "with 3 threads"));
}

TEST(Table, SeesAWrongHalf) {
  Row row = good();
  row.call = [](const Tensors& in) {
    return mul(mul(in[0], in[0]),
               Tensor::full({5}, is_half(in[0].dtype()) ? 1.25 : 1, in[0].dtype()));
  };
  EXPECT_TRUE(fails(row, "values in bf16"));
  EXPECT_TRUE(fails(row, "values in f16"));
  EXPECT_TRUE(fails(row, "gradient in bf16"));
}

TEST(Table, SeesAMissingOrWrongRefusal) {
  Row row = good();
  row.refused = "do not broadcast";
  EXPECT_TRUE(fails(row, "was not refused"));
  row.inputs = {f(4), f(5)};
  row.call = [](const Tensors& in) { return add(in[0], in[1]); };
  EXPECT_EQ(check(row, 1), std::vector<std::string>{});
  row.refused = "some other reason";
  EXPECT_TRUE(fails(row, "refused with \"add: "));
}

TEST(Table, SeesAnError) {
  Row row = good();
  row.call = [](const Tensors&) -> Tensor { throw Error("as told"); };
  EXPECT_TRUE(fails(row, "value in f64 threw: as told"));
}

TEST(Table, WantsReasons) {
  Row row = good();
  row.reference = {};
  EXPECT_TRUE(fails(row, "a row has a reference, or says why not"));
  row = good();
  row.order = 1;
  EXPECT_TRUE(fails(row, "a row of lower order says why"));
}

}  // namespace
}  // namespace ebb::table
