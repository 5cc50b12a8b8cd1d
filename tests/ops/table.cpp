#include "tests/ops/table.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>

namespace ebb::table {
namespace {

std::vector<Row>& all_rows() {
  static std::vector<Row> rows;
  return rows;
}

// One gtest per row.
class RowTest : public testing::Test {
 public:
  explicit RowTest(std::size_t row) : row_(row) {}
  void TestBody() override {
    const Row& row = rows()[row_];
    std::uint64_t seed = 1;
    if (const char* text = std::getenv("EBB_TABLE_SEED")) seed = std::strtoull(text, nullptr, 10);
    for (const std::string& failure : check(row, seed))
      ADD_FAILURE_AT(row.file, row.line)
          << "row \"" << row.name << "\": " << failure << "\nreproduce: EBB_TABLE_SEED=" << seed
          << " ops_tests --gtest_filter=OpTable." << test_name(row);
  }

 private:
  std::size_t row_;
};

}  // namespace

template <class Change>
Input Input::changed(Change change) const {
  Input copy = *this;
  change(copy);
  return copy;
}
Input Input::in(double low, double high) const {
  return changed([&](Input& input) { input.lo = low, input.hi = high; });
}
Input Input::away_from(std::vector<double> points) const {
  return changed([&](Input& input) { input.kinks = std::move(points); });
}
Input Input::distinct() const {
  return changed([](Input& input) { input.distinct_values = true; });
}
Input Input::fixed() const {
  return changed([](Input& input) { input.differentiable = false; });
}
Input Input::as(DType always) const {
  return fixed().changed([&](Input& input) { input.dtype = always; });
}
Input Input::of(std::vector<double> exactly) const {
  return changed([&](Input& input) { input.values = std::move(exactly); });
}

Input ids(const Shape& shape, std::int64_t below, DType dtype) {
  return ints(shape, 0, below, dtype);
}
Input ints(const Shape& shape, std::int64_t lo, std::int64_t hi, DType dtype) {
  return Input{.shape = shape}.in(static_cast<double>(lo), static_cast<double>(hi)).as(dtype);
}
Input bools(const Shape& shape) { return ints(shape, 0, 2, DType::boolean); }

std::string test_name(const Row& row) {
  std::string text = row.name;
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

const std::vector<Row>& rows() { return all_rows(); }

bool add_row(Row row, const char* file, int line) {
  row.file = file;
  row.line = line;
  const std::size_t index = all_rows().size();
  all_rows().push_back(std::move(row));
  testing::RegisterTest("OpTable", test_name(rows()[index]).c_str(), nullptr, nullptr, file, line,
                        [index]() -> testing::Test* { return new RowTest(index); });
  return true;
}

}  // namespace ebb::table
