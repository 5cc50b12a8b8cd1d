// Rows that are found in the page cache without a read: the same rows, and one clear error where a file changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/ops/shape.hpp"
#include "tests/error_of.hpp"
#include "tests/temp_path.hpp"

namespace ebb {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRows = 3000, kColumns = 100;

bool is_mapped(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(path) != line.npos) return true;
  return false;
}

class MappedRows : public testing::Test {
 protected:
  MappedRows()
      : path_(test::temp_path("rows.npy")),
        x_(reshape(Tensor::arange(kRows * kColumns, DType::f32), {kRows, kColumns})) {
    save_npy(path_, x_);
  }
  ~MappedRows() override { fs::remove(path_); }

  Dataset in_file() const {
    return Dataset::of({{"x", data::npy_rows(path_)}}).shuffle(3).batch(70);
  }
  void expect_rows(const Dataset& rows, std::int64_t epochs) const {
    const Dataset expected = Dataset::of({{"x", x_}}).shuffle(3).batch(70);
    auto a = expected.walk(epochs), b = rows.walk(epochs);
    while (const Batch* one = a.next()) {
      const Batch* const other = b.next();
      ASSERT_NE(other, nullptr);
      const Tensor &x = (*one)["x"], &y = (*other)["x"];
      ASSERT_EQ(x.spec(), y.spec());
      ASSERT_EQ(std::memcmp(x.raw(), y.raw(), x.spec().bytes()), 0) << to_string(a.position());
    }
  }

  std::string path_;
  Tensor x_;
};

TEST_F(MappedRows, AreThoseThatAreRead) {
  const Dataset rows = in_file();
  expect_rows(rows, 3);
  EXPECT_TRUE(is_mapped(path_));
  {
    const Budget budget(1_GiB);
    EXPECT_FALSE(is_mapped(path_)) << "under a budget there is no mapping";
    expect_rows(rows, 2);
    EXPECT_FALSE(is_mapped(path_));
  }
  expect_rows(rows.prefetch(2), 2);
  EXPECT_TRUE(is_mapped(path_));
}

TEST_F(MappedRows, GoWithTheDataSet) {
  { expect_rows(in_file(), 2); }
  EXPECT_FALSE(is_mapped(path_));
}

TEST_F(MappedRows, OfAFileThatChangesAreOneClearError) {
  for (const int ahead : {0, 2})
    for (const char* change : {"empty", "cut", "longer", "other"}) {
      save_npy(path_, x_);
      const std::uint64_t size = fs::file_size(path_);
      const Dataset rows = in_file().prefetch(ahead);
      expect_rows(rows, 2);
      EXPECT_TRUE(is_mapped(path_));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a file's time has a grain
      auto walk = rows.walk(1);
      EXPECT_TRUE(walk.next());
      if (std::strcmp(change, "empty") == 0) fs::resize_file(path_, 0);
      if (std::strcmp(change, "cut") == 0) fs::resize_file(path_, size / 2);
      if (std::strcmp(change, "longer") == 0) fs::resize_file(path_, size + 5000);
      if (std::strcmp(change, "other") == 0)
        std::fstream(path_, std::ios::in | std::ios::out).seekp(999) << "x";
      EXPECT_HAS(test::error_of([&] {
                   while (walk.next()) {
                   }
                 }),
                 "read \"" + path_ + "\": it has changed since it was opened (" +
                     std::to_string(size) + " bytes then");
    }
}

TEST_F(MappedRows, OfAFileThatIsReplacedStayAsTheyWere) {
  const Dataset rows = in_file();
  expect_rows(rows, 1);
  save_npy(path_, Tensor::zeros({7}));  // beside it, then in its place
  expect_rows(rows, 2);
}

}  // namespace
}  // namespace ebb
