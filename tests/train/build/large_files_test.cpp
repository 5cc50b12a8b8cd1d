// Data that is larger than the memory for it is looked at in pieces.
#include "ebb/base/memory/ledger.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/io/array/npy_header.hpp"
#include "ebb/train/build/run_data.hpp"
#include "ebb/train/config/config.hpp"
#include "tests/io/folder.hpp"

namespace ebb::train {
namespace {

class LargeFilesTest : public test::InFolder {};

// How many classes there are is found by their labels alone: 188 MB of pixels, as numbers, are not for that.
TEST_F(LargeFilesTest, ClassesAreCountedWithoutTheirExamples) {
  constexpr std::int64_t kRows = 60'000;
  const Spec images{{kRows, 784}, DType::u8};
  const std::string front = npy_preamble(images);
  put("x.npy", front);
  std::filesystem::resize_file(path("x.npy"), front.size() + images.bytes());
  std::vector<std::int32_t> labels(kRows);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  save_npy(path("y.npy"), Tensor::from(labels, {kRows}));
  const Config config = parse_config("[model]\nkind = 'mlp'\n[data]\npath = '" + path("x.npy") +
                                     "'\ntarget_path = '" + path("y.npy") +
                                     "'\nin_memory = false\n[train]\nbatch = 64\n");
  const auto live = ledger::total().live;
  ledger::reset_peak();
  EXPECT_EQ(open_data(config).reading.facts.classes, 10);
  EXPECT_LT(ledger::total().peak - live, 4u << 20);
}

// What is found without keeping any rows is what is found with them.
TEST_F(LargeFilesTest, AShapeHasTheFactsOfItsRows) {
  std::string lists, texts, table = "a,b,y\n";
  for (int i = 0; i < 300; ++i) {
    lists += "{\"x\": [" + std::to_string(i % 9) + (i % 2 ? ", 3" : "") +
             "], \"y\": " + std::to_string(i % 5) + "}\n";
    texts += "{\"t\": \"" + std::string(static_cast<std::size_t>(1 + i % 7), 'x') +
             "\", \"y\": \"" + (i % 3 ? "a" : "b") + "\"}\n";
    table += std::to_string(i) + "," + (i % 4 ? "u" : "v") + "," + std::to_string(i % 6) + "\n";
  }
  const std::string about[] = {
      "path = '" + put("l.jsonl", lists) + "'\ntarget = 'y'\n",
      "path = '" + put("t.jsonl", texts) + "'\ntarget = 'y'\n",
      "path = '" + put("t.csv", table) + "'\ntarget = 'y'\ntask = 'classification'\n",
      "path = '" + path("t.jsonl") + "'\ninput = 't'\ntask = 'language_model'\nwindow = 8\n",
      "path = '" + put("t.txt", table) + "'\nwindow = 8\n"};
  for (const std::string& data : about)
    for (const char* where : {"in_memory = true\n", "in_memory = false\n"}) {
      SCOPED_TRACE(data + where);
      ::setenv("EBB_CACHE", path("cache").c_str(), 1);
      const Config config = parse_config("[model]\nkind = 'lstm'\n[data]\n" + data + where);
      const RunData shape = open_data(config, Opening::shape);
      EXPECT_FALSE(std::filesystem::exists(path("cache")));
      const RunData rows = open_data(config);
      EXPECT_EQ(to_text(shape.reading), to_text(rows.reading));
      EXPECT_EQ(shape.train.spec(), rows.train.spec());
      EXPECT_EQ(shape.train.walking_bytes(), rows.train.walking_bytes());
      EXPECT_GT(shape.scanned, 0u);
      std::filesystem::remove_all(path("cache"));
    }
}

}  // namespace
}  // namespace ebb::train
