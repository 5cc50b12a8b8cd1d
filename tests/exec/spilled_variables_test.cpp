// Variables that lie in a spill file, read and written by the program between steps: in pieces, and
// whole or not at all.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/io/array/npy.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/optim/save.hpp"
#include "ebb/tensor/rewrite.hpp"

namespace ebb {
namespace {

using file_faults::Fault;

constexpr std::int64_t kWidth = 1024;  // 4 MiB a matrix

struct Deep {
  std::vector<nn::Dense> layers;
  explicit Deep(const nn::Init& init) {
    for (int i = 0; i < 4; ++i) layers.emplace_back(init / i, kWidth, kWidth);
  }
  Tensor operator()(Tensor x) const {
    for (const nn::Dense& l : layers) x = tanh(l(x));
    return x;
  }
  void each(auto&& f) { f("layers", layers); }
};

std::vector<std::byte> bytes(const Variable& v) {
  std::vector<std::byte> out(v.spec().bytes());
  v.read(out, 0);
  return out;
}

std::vector<std::byte> raw(const Tensor& t) { return {t.raw(), t.raw() + t.spec().bytes()}; }

class SpilledVariablesTest : public testing::Test {
 protected:
  SpilledVariablesTest() {
    std::string name = "/var/tmp/ebb-kept-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    const CompileOptions loose{.recompute = false, .split = false};
    CompileOptions tight = loose;
    constexpr std::uint64_t kOwn = std::uint64_t{96} << 20;  // of the tests: tensors, vectors
    tight.memory = ByteSize{compiled(loose).plan().minimum + (std::uint64_t{1} << 20) + kOwn};
    room_.emplace(kOwn);
    step_.emplace(compiled(tight));
    (*step_)(batch_);
    for (const Variable& v : adam_.state())
      if (!v.in_memory() && v.spec().bytes() > (1 << 20)) kept_.push_back(v);
  }
  ~SpilledVariablesTest() override {
    file_faults::clear();
    std::filesystem::remove_all(folder_);
  }
  Step<Loss> compiled(const CompileOptions& options) {
    return compile({{"x", x_.spec()}}, options,
                   [this](const Batch& b) { return adam_.minimize(mse(model_(b["x"]), b["x"])); });
  }

  std::string folder_;
  std::optional<memory::Room> room_;
  Deep model_{nn::Init(1)};
  optim::Adam adam_{params(model_)};
  Tensor x_ = random::normal({8, kWidth}, 0, 1, 1, 2);
  Batch batch_{{"x", x_}};
  std::optional<Step<Loss>> step_;
  std::vector<Variable> kept_;
};

TEST_F(SpilledVariablesTest, SavingAndLoadingTakesAMebibyte) {
  ASSERT_FALSE(kept_.empty());
  const auto path = [&](std::size_t i) { return folder_ + "/" + std::to_string(i) + ".npy"; };
  std::vector<std::vector<std::byte>> saved;
  for (const Variable& v : kept_) saved.push_back(bytes(v));
  const std::uint64_t live = ledger::total().live;
  ledger::reset_peak();
  for (std::size_t i = 0; i < kept_.size(); ++i) save_npy(path(i), kept_[i]);
  EXPECT_LE(ledger::total().peak, live + (1 << 20));
  (*step_)(batch_);
  for (std::size_t i = 0; i < kept_.size(); ++i) EXPECT_NE(bytes(kept_[i]), saved[i]);
  ledger::reset_peak();
  for (std::size_t i = 0; i < kept_.size(); ++i) load_npy(path(i), kept_[i]);
  EXPECT_LE(ledger::total().peak, live + (1 << 20));
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    EXPECT_FALSE(kept_[i].in_memory());
    EXPECT_EQ(bytes(kept_[i]), saved[i]);
    EXPECT_EQ(raw(load_npy(path(i))), saved[i]);
  }
}

TEST_F(SpilledVariablesTest, AnAssignedValueGoesToTheFile) {
  ASSERT_FALSE(kept_.empty());
  Variable v = kept_[0];
  v.value();  // in memory for now
  EXPECT_TRUE(v.in_memory());
  const Tensor next = random::normal(v.shape(), 0, 1, 5, 6);
  const std::uint64_t live = ledger::total().live;
  v.assign(next);
  EXPECT_FALSE(v.in_memory());
  EXPECT_LE(ledger::total().live, live - v.spec().bytes());
  EXPECT_EQ(bytes(v), raw(next));
  EXPECT_EQ(raw(v.value()), raw(next));
}

TEST_F(SpilledVariablesTest, APieceIsWrittenByItself) {
  ASSERT_FALSE(kept_.empty());
  Variable v = kept_[0];
  std::vector<std::byte> expected = bytes(v);
  const std::vector<std::byte> piece(70001, std::byte{7});
  v.write(piece, 12345);
  std::copy(piece.begin(), piece.end(), expected.begin() + 12345);
  EXPECT_FALSE(v.in_memory());
  EXPECT_EQ(bytes(v), expected);
  v.value();
  v.write(piece, 0);  // likewise where it is in memory
  std::copy(piece.begin(), piece.end(), expected.begin());
  EXPECT_EQ(bytes(v), expected);
  (*step_)(batch_);  // and it is what the step reads
  EXPECT_NE(bytes(v), expected);
  EXPECT_THROW(v.write(piece, v.spec().bytes() - 1), Error);
}

TEST_F(SpilledVariablesTest, AFailedWriteLeavesTheOldValue) {
  ASSERT_FALSE(kept_.empty());
  Variable v = kept_[0];
  const std::vector<std::byte> before = bytes(v);
  const Tensor next = random::normal(v.shape(), 0, 1, 5, 6);
  const std::string path = folder_ + "/next.npy";
  save_npy(path, next);
  for (const bool load : {false, true}) {
    int failed = 0;
    for (std::uint64_t nth = 1;; ++nth) {
      file_faults::fail_write(nth, Fault::enospc);
      try {
        load ? load_npy(path, v) : v.assign(next);
        break;
      } catch (const FileError&) {
        ++failed;
      }
      file_faults::clear();
      EXPECT_EQ(bytes(v), before) << nth;
    }
    file_faults::clear();
    EXPECT_GT(failed, 0);
    EXPECT_EQ(bytes(v), raw(next));
    v.write(before, 0);
    EXPECT_EQ(bytes(v), before);
  }
  (*step_)(batch_);
}

TEST_F(SpilledVariablesTest, ARunIsSavedAndLoadedInPieces) {
  ASSERT_FALSE(kept_.empty());
  const std::string path = folder_ + "/run.safetensors";
  const auto all = [&] {
    std::vector<std::vector<std::byte>> out;
    for (const auto& part : {params(model_), adam_.state()})
      for (const Variable& v : part) out.push_back(bytes(v));
    return out;
  };
  const auto saved = all();
  const std::uint64_t live = ledger::total().live;
  ledger::reset_peak();
  save(path, model_, adam_);
  EXPECT_LE(ledger::total().peak, live + (3 << 19));
  (*step_)(batch_);
  const auto stepped = all();
  EXPECT_NE(stepped, saved);
  // Now and then a write of the spill file fails.
  for (const std::uint64_t nth : {1, 2, 7, 20}) {
    file_faults::fail_write(nth, Fault::enospc);
    EXPECT_THROW(load(path, model_, adam_), FileError) << nth;
    file_faults::clear();
    EXPECT_EQ(all(), stepped) << nth;
  }
  ledger::reset_peak();
  load(path, model_, adam_);
  EXPECT_LE(ledger::total().peak, live + (3 << 20));
  EXPECT_EQ(all(), saved);
  for (const Variable& v : kept_) EXPECT_FALSE(v.in_memory());
  (*step_)(batch_);
  EXPECT_EQ(all(), stepped);
}

}  // namespace
}  // namespace ebb
