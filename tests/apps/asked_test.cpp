// Questions to a trained model that do not fit it, and data that is partly no data: one line in the user's words.
#include <fmt/format.h>

#include <cmath>

#include "tests/apps/command.hpp"
#include "tests/io/image/png_bytes.hpp"

namespace ebb::test {
namespace {

class Asked : public Commands {
 protected:
  // 40 rows of 8 numbers and a number to predict.
  void put_rows(float odd = 1, std::size_t at = 0) const {
    std::vector<float> x(40 * 8, 0.5f), y(40, 0.25f);
    x[at] = odd;
    put("x.npy", npy({40, 8}, x));
    put("y.npy", npy({40}, y));
    put("c.toml", small_config("epochs = 2\n",
                               "path = \"x.npy\"\ntarget_path = \"y.npy\"\n"
                               "validation_fraction = 0\n"));
  }
  void put_pictures(const std::string& folder, int side) const {
    for (int i = 0; i < 3; ++i)
      put(fmt::format("{}/{}.png", folder, i),
          png_of({.width = static_cast<unsigned>(side),
                  .height = static_cast<unsigned>(side),
                  .rows = std::vector<unsigned char>(static_cast<std::size_t>(side * side), 10)}));
  }
};

TEST_F(Asked, RowsOfAnotherWidthAreRefused) {
  put_rows();
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  put("x7.npy", npy({20, 7}, std::vector<float>(140)));
  put("y20.npy", npy({20}, std::vector<float>(20)));
  constexpr char kLine[] =
      "x7.npy: its rows are f32(7), and the model has learnt from rows of f32(8)";
  expect_line(ebb({"predict", "runs/c", "--data", "x7.npy", "--out", "p.csv"}), 2, kLine);
  expect_line(ebb({"eval", "runs/c", "--data", "x7.npy", "--target", "y20.npy"}), 2, kLine);
  expect_line(ebb({"grad", "runs/c", "--data", "x.npy", "--out", "g.npy", "--output", "7"}), 2,
              "grad: --output is 7, the model has one output, 0");
}

TEST_F(Asked, EmptyTextsHaveAnAnswer) {
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += fmt::format("{{\"text\": \"{}\", \"mood\": \"{}\"}}\n", i % 2 ? "good" : "so bad",
                         i % 2 ? "glad" : "sad");
  put("t.jsonl", lines);
  put("c.toml",
      "[model]\nkind = \"lstm\"\nwidth = 8\n[data]\npath = \"t.jsonl\"\ntarget = \"mood\"\n"
      "[train]\nsteps = 2\n[memory]\nbudget = \"none\"\n");
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  put("e.jsonl", "{\"text\": \"\"}\n");
  const Ran ran = ebb({"predict", "runs/c", "--data", "e.jsonl", "--out", "p.csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(content("p.csv"), "ad,0.");
}

TEST_F(Asked, StepsThatWereNotTakenAreInTheSummary) {
  put_rows(std::nanf(""), 17 * 8 + 3);
  const Ran ran = ebb({"train", "c.toml"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(ran.out, "2 steps were not taken; the first: step ");
  EXPECT_HAS(ran.out, "\"x\" holds nan in row 17 of the data, counted from 0");
  EXPECT_HAS(content("runs/c/log.txt"), "\"x\" holds nan in row 17 of the data");
}

TEST_F(Asked, EmptyFoldersAndASingleClassAreTold) {
  put_pictures("p/cat", 4);
  std::filesystem::create_directories(path("p/dog"));
  put("c.toml", small_config("", "path = \"p\"\nvalidation_fraction = 0\n"));
  Ran ran = ebb({"train", "c.toml", "-q", "--out", "two"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(ran.err, "folder \"dog\" has no pictures, and is a class all the same");
  put_pictures("q/cat", 6);
  std::filesystem::create_directories(path("q/dog"));
  expect_line(ebb({"eval", "two", "--data", "q"}), 2,
              "q: its rows are f32(6, 6, 1), and the model");
  std::filesystem::remove(path("p/dog"));
  ran = ebb({"plan", "c.toml"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(ran.err, "p: all rows are of one class, so that there is nothing to tell apart");
}

}  // namespace
}  // namespace ebb::test
