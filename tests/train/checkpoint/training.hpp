// A run with all that has to go on to the bit: dropout, a loss scale, a schedule, averages, a shuffled data set
// whose last batch is smaller.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ebb/base/files/file_faults.hpp"
#include "ebb/data/data.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/optim/ema.hpp"
#include "ebb/train/checkpoint/checkpoints.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train::test {

using ebb::test::bytes;
using ebb::test::error_of;
using Bytes = std::vector<std::vector<std::byte>>;

class FolderTest : public testing::Test {
 protected:
  Folder made_;
  const std::string& folder_ = made_.path;
};

inline Dataset small_data() {
  const ebb::test::Example e = ebb::test::examples(24, 12, 5, 1);
  return Dataset::of({{"x", e.x}, {"y", e.labels}}).shuffle(3).batch(7);
}

struct Training {
  ebb::test::Mlp model;
  optim::AdamW adam;
  optim::Ema ema;
  Dataset data = small_data();
  data::Position at = {};
  std::int64_t done = 0;

  explicit Training(std::uint64_t seed)
      : model((random::seed(seed), nn::Init(seed))),
        adam(params(model), {.half = {.loss_scale = optim::dynamic}}),
        ema(params(model), 0.9) {
    adam.clip_norm(0.5);
    adam.set_schedule(optim::warmup_cosine(1e-2, 3, 40));
  }
  void steps(std::int64_t count, const CompileOptions& options, auto after) {
    auto step = compile(data.spec(), options, [&](const Batch& b) {
      const Loss l = adam.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
      ema.update();
      return l;
    });
    auto walk = data.walk(1'000'000, at);
    for (std::int64_t i = 0; i < count; ++i) {
      step(*walk.next());
      at = walk.position();
      ++done;
      after();
    }
  }
  void steps(std::int64_t count) {
    steps(count, {}, [] {});
  }
  CheckpointInfo info() const {
    return {.step = done,
            .epoch = at.epoch,
            .position = to_string(at),
            .extra = {{"config", "lr = 1\n"}}};
  }
  void save(const std::string& path) { train::save(path, info(), model, adam, ema); }
  void load(const std::string& path) {
    const CheckpointInfo info = train::load(path, model, adam, ema);
    at = data::Position::parse(info.position);
    done = info.step;
  }
  Bytes all() {
    std::vector<Variable> vs = variables(model);
    for (const auto& part : {adam.state(), ema.state()})
      vs.insert(vs.end(), part.begin(), part.end());
    return bytes(vs);
  }
};

// A few bytes of everything, for tests that look at every one of them.
struct Tiny {
  Variable weight{"weight", random::normal({2, 3}, 0, 1, 7, 1)};
  Variable count{"count", Tensor::from(std::vector<std::int64_t>{5}, {1}), false,
                 Category::optimizer};
  std::vector<Variable> state() const { return {count}; }
  void set(std::int64_t n) {
    weight.assign(random::normal({2, 3}, 0, 1, static_cast<std::uint64_t>(n), 1));
    count.assign(Tensor::from(std::vector<std::int64_t>{n}, {1}));
    random::seed(static_cast<std::uint64_t>(n));
  }
  Bytes all() const { return bytes({weight, count}); }
};

}  // namespace ebb::train::test
