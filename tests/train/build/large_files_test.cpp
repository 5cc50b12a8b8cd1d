// Data that is larger than the memory for it is looked at in pieces.
#include "ebb/base/ledger.hpp"
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

}  // namespace
}  // namespace ebb::train
