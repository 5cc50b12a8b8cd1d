// Data of more bytes than the budget has, with a config that says nothing of where it is to be: `ebb train` under a
// kernel limit equal to --memory, with the bits of one that holds it all.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "ebb/base/bytes.hpp"
#include "tests/programs/ebb_command.hpp"

namespace ebb::programs {
namespace {

using Words = std::vector<std::string>;

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t number_after(const std::string& key, const std::string& text) {
  const std::size_t at = text.find(key);
  return at == text.npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

void put_rows(const std::string& path, const std::string& front, bool packed, int count,
              const std::function<std::string(int)>& row) {
  const gzFile file = gzopen(path.c_str(), packed ? "wb1" : "wbT");  // T: as it is
  ASSERT_NE(file, nullptr);
  gzwrite(file, front.data(), static_cast<unsigned>(front.size()));
  for (int i = 0; i < count; ++i) {
    const std::string bytes = row(i);
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  }
  ASSERT_EQ(gzclose(file), Z_OK);
}

class Rows : public testing::Test {
 protected:
  Rows() { ::setenv("EBB_CACHE", (scratch_ / "cache").c_str(), 1); }
  ~Rows() override { ::unsetenv("EBB_CACHE"); }

  void config(const std::string& text) const { std::ofstream(scratch_ / "c.toml") << text; }
  Ran plan(std::uint64_t budget) const {
    return run_ebb({"plan", scratch_ / "c.toml", "--json", "--memory", said(budget)});
  }
  // 0: no budget, and no limit.
  Ran train(const std::string& name, std::uint64_t budget) const {
    const Ran ran = run_ebb(
        {"train", scratch_ / "c.toml", "--memory", said(budget), "--out", scratch_ / name}, budget);
    if (!ran.unlimited.empty())
      std::printf("not limited by the kernel: %s\n", ran.unlimited.c_str());
    return ran;
  }
  static std::string said(std::uint64_t budget) {
    return budget ? std::to_string(budget) + "B" : "none";
  }
  std::string weights(const std::string& name) const {
    return read_all(scratch_ / (name + "/model/model.safetensors"));
  }
  void expect_kept(const Ran& ran, std::uint64_t budget) const {
    EXPECT_FALSE(ran.killed) << ran.line;
    EXPECT_EQ(ran.code, 0) << ran.err << ran.line;
    EXPECT_LE(ran.peak, budget) << to_string(ByteSize{ran.peak}) << " of "
                                << to_string(ByteSize{budget}) << "\n"
                                << ran.out << ran.line;
  }

  Scratch scratch_;
};

class RowsOfMnist : public Rows, public testing::WithParamInterface<bool> {};

// 45 MiB of images in 48 MiB.
TEST_P(RowsOfMnist, TrainIn48MiB) {
  using namespace std::string_literals;
  constexpr int kImages = 60'000, kPixels = 784;
  const bool packed = GetParam();
  const std::string end = packed ? ".gz" : "";
  put_rows(scratch_ / ("train-images-idx3-ubyte" + end),
           "\0\0\x08\x03\0\0\xea\x60\0\0\0\x1c\0\0\0\x1c"s, packed, kImages, [](int i) {
             std::string pixels(kPixels, '\0');
             for (int k = 0; k < 120; ++k)
               pixels[static_cast<std::size_t>(i % 10 * 60 + k)] =
                   static_cast<char>(i * k * 31 + k);
             return pixels;
           });
  put_rows(scratch_ / ("train-labels-idx1-ubyte" + end), "\0\0\x08\x01\0\0\xea\x60"s, packed,
           kImages, [](int i) { return std::string(1, static_cast<char>(i % 10)); });
  config("model.kind = 'mlp'\nmodel.hidden = [256]\n[data]\npath = 'train-images-idx3-ubyte" + end +
         "'\ntarget_path = 'train-labels-idx1-ubyte" + end +
         "'\nformat = 'idx'\n[train]\nbatch = 512\nepochs = 1\n[every]\nsave = 'never'\n");
  const Ran free = train("free", 0);
  ASSERT_EQ(free.code, 0) << free.err << free.line;
  std::filesystem::remove_all(scratch_ / "cache");  // a .gz is unpacked within the limit, too
  const std::uint64_t budget = (48_MiB).bytes;
  const Ran ran = train("small", budget);
  expect_kept(ran, budget);
  EXPECT_NE(ran.out.find("data in its files      44.86 MiB"), std::string::npos) << ran.out;
  EXPECT_GT(weights("small").size(), 100'000u);
  EXPECT_TRUE(weights("small") == weights("free"));
}

INSTANTIATE_TEST_SUITE_P(Files, RowsOfMnist, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "gz" : "plain"; });

TEST_F(Rows, OfATableLargerThanTheBudget) {
  constexpr int kRows = 400'000;
  std::string header = "y";
  for (int k = 1; k < 25; ++k) header += ",c" + std::to_string(k);
  put_rows(scratch_ / "t.csv", header + "\n", false, kRows, [](int i) {
    std::string line = std::to_string(i % 13);
    for (int k = 1; k < 25; ++k) line += "," + std::to_string((i + k) % 9);
    return line + "\n";
  });
  config(
      "model.kind = 'mlp'\nmodel.hidden = [32]\n[data]\npath = 't.csv'\ntarget = 'y'\n"
      "[train]\nbatch = 64\nsteps = 200\n[every]\nsave = 'never'\n");
  const std::uint64_t budget = (32_MiB).bytes;  // the rows are 38 MiB
  const Ran free = train("free", 0);
  ASSERT_EQ(free.code, 0) << free.err << free.line;
  EXPECT_GT(free.peak, (40_MiB).bytes);
  expect_kept(train("small", budget), budget);
  EXPECT_TRUE(weights("small") == weights("free"));
}

// What a plan names does, in whatever budget it was asked about, and a byte less is refused by all.
struct FormatOfRows {
  const char* name;
  const char* data;
};
void PrintTo(const FormatOfRows& k, std::ostream* out) { *out << k.name; }
const FormatOfRows kKinds[] = {{"csv", "path = 't.csv'\ntarget = 'y'\n"},
                               {"lists", "path = 'l.jsonl'\ntarget = 'y'\n"},
                               {"text", "path = 't.txt'\nwindow = 64\n"},
                               {"few", "path = 'few.csv'\ntarget = 'y'\n"},
                               {"npy", "path = 'x-idx'\nformat = 'idx'\ntarget_path = 'y-idx'\n"}};

class LeastBudgetOfRows : public Rows, public testing::WithParamInterface<FormatOfRows> {
 protected:
  static constexpr int kRows = 200'000;
  void SetUp() override {
    using namespace std::string_literals;
    const auto digit = [](int i) { return std::to_string(i % 10); };
    const auto line = [&](int i) {
      return digit(i) + "," + digit(i / 10) + "," + digit(i / 7) + "," + digit(i * 3) + "\n";
    };
    const auto list = [&](int i) {
      return "{\"x\": [" + digit(i) + (i % 2 ? "" : ", 1, 2, 3") + "], \"y\": " + digit(i) + "}\n";
    };
    const std::string name = GetParam().name;
    if (name == "csv") put_rows(scratch_ / "t.csv", "a,b,c,y\n", false, kRows, line);
    if (name == "few") put_rows(scratch_ / "few.csv", "a,b,c,y\n", false, 500, line);
    if (name == "lists") put_rows(scratch_ / "l.jsonl", "", false, kRows, list);
    if (name == "text")
      put_rows(scratch_ / "t.txt", "", false, kRows,
               [&](int i) { return "this is line " + digit(i) + ".\n"; });
    if (name == "npy") {
      put_rows(scratch_ / "x-idx", "\0\0\x08\x02\0\x03\x0d\x40\0\0\0\x10"s, false, kRows,
               [](int i) { return std::string(16, static_cast<char>(i)); });
      put_rows(scratch_ / "y-idx", "\0\0\x08\x01\0\x03\x0d\x40"s, false, kRows,
               [](int i) { return std::string(1, static_cast<char>(i % 10)); });
    }
    const bool text = name == "text", lists = name == "lists";
    config(std::string("[model]\n") +
           (text    ? "kind = 'gpt'\nwidth = 64\nheads = 2\ndepth = 2\n"
            : lists ? "kind = 'lstm'\nwidth = 64\n"
                    : "kind = 'mlp'\nhidden = [1200, 1200]\n") +
           "[data]\n" + GetParam().data +
           "[train]\nbatch = 64\nsteps = 3\n[memory]\nallow = 'same_bits'\n[every]\nsave = 2\n");
  }
};

TEST_P(LeastBudgetOfRows, IsThatOfTheWayThatTakesLeast) {
  const Ran free_plan = plan(0);
  ASSERT_EQ(free_plan.code, 0) << free_plan.err << free_plan.line;
  const std::uint64_t smallest = number_after("\"smallest_budget\":", free_plan.out);
  const std::uint64_t rows = std::max(number_after("\"data_in_memory\":", free_plan.out),
                                      number_after("\"data_in_files\":", free_plan.out));
  ASSERT_GT(smallest, 0u) << free_plan.out;
  ASSERT_GT(rows, 1000u);
  EXPECT_NE(free_plan.out.find("\"frontier\":[{\"activations\":\"f32\",\"budget\":" +
                               std::to_string(smallest)),
            std::string::npos)
      << free_plan.out;
  const Ran free = train("free", 0);
  ASSERT_EQ(free.code, 0) << free.err << free.line;

  const Ran least = train("least", smallest);
  expect_kept(least, smallest);
  EXPECT_TRUE(weights("least") == weights("free"));
  EXPECT_NE(least.out.find("(" + std::to_string(smallest) + " bytes)"), std::string::npos)
      << "it names the same: " << least.out;
  // Most are tried in memory first, being no more than a quarter.
  EXPECT_EQ(least.out.find("data in its files") != std::string::npos, rows > 100'000) << least.out;
  const Ran less = train("less", smallest - 1);
  EXPECT_EQ(less.code, 3) << less.out << less.err << less.line;
  EXPECT_NE(less.err.find("(" + std::to_string(smallest) + " bytes)"), std::string::npos)
      << less.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "less"));
  const Ran less_plan = plan(smallest - 1);
  EXPECT_EQ(less_plan.code, 3) << less_plan.err;
  EXPECT_EQ(number_after("\"smallest_budget\":", less_plan.out), smallest) << less_plan.out;

  // With room for the rows they are in memory, and the smallest budget is what it was.
  const std::uint64_t more = std::max(4 * rows, smallest + rows + (1_MiB).bytes);
  const Ran roomy = plan(more);
  EXPECT_EQ(roomy.code, 0) << roomy.err;
  EXPECT_EQ(number_after("\"data_in_memory\":", roomy.out), rows) << roomy.out;
  EXPECT_EQ(number_after("\"smallest_budget\":", roomy.out), smallest) << roomy.out;
  const Ran in_memory = train("roomy", more);
  expect_kept(in_memory, more);
  EXPECT_NE(in_memory.out.find("data in memory"), std::string::npos) << in_memory.out;
  EXPECT_TRUE(weights("roomy") == weights("free"));

  // Who goes on may have less, or more.
  const Ran on =
      run_ebb({"resume", scratch_ / "roomy", "--memory", said(smallest), "--set", "train.steps=4"},
              smallest);
  expect_kept(on, smallest);
}

INSTANTIATE_TEST_SUITE_P(Formats, LeastBudgetOfRows, testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ebb::programs
